//! What a caller says of a request before it starts.

use std::time::Duration;

use comity_core::schedule::Replay;
use comity_core::scope::Target;
use http::HeaderMap;
use http::header::{ACCEPT, HeaderName, UPGRADE_INSECURE_REQUESTS};
use url::Url;

/// A request that wants to start.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub(crate) url: &'a Url,
    pub(crate) kind: RequestKind,
    pub(crate) cost: u32,
    pub(crate) identity: Option<&'a str>,
    pub(crate) replay: Replay,
    pub(crate) queue_timeout: Option<Duration>,
    pub(crate) place: Option<u64>,
    pub(crate) after: Option<Duration>,
}

/// What a request is for. The `browse` profile paces navigations only (P2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestKind {
    /// A page that a person asked for.
    #[default]
    Navigation,
    /// A part of a page: a frame, script, image, XHR or fetch.
    Subresource,
}

impl<'a> Ask<'a> {
    /// A GET of this URL.
    pub fn new(url: &'a Url) -> Self {
        Self {
            url,
            kind: RequestKind::Navigation,
            cost: 1,
            identity: None,
            replay: Replay::default(),
            queue_timeout: None,
            place: None,
            after: None,
        }
    }

    /// What it is for.
    #[must_use]
    pub fn kind(mut self, kind: RequestKind) -> Self {
        self.kind = kind;
        self
    }

    /// What it costs, where the service counts in units; at least 1.
    #[must_use]
    pub fn cost(mut self, cost: u32) -> Self {
        self.cost = cost.max(1);
        self
    }

    /// Whose name it is made in, where the service counts by API key.
    #[must_use]
    pub fn identity(mut self, identity: &'a str) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Whether and how often it may be sent again (T10). The default suits a GET.
    #[must_use]
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// The longest it waits before it starts. This is not the time an attempt may take (decision 14).
    #[must_use]
    pub fn queue_timeout(mut self, limit: Duration) -> Self {
        self.queue_timeout = Some(limit);
        self
    }

    /// Its place in the order of arrival, for a scheduler that keeps its own order. No two waiting requests share one.
    #[must_use]
    pub fn place(mut self, place: u64) -> Self {
        self.place = Some(place);
        self
    }

    /// Not started before so long from now, whatever the host allows.
    #[must_use]
    pub fn after(mut self, span: Duration) -> Self {
        self.after = Some(span);
        self
    }

    pub(crate) fn target(&self) -> Target<'a> {
        Target {
            host: self.url.host_str().unwrap_or_default(),
            port: self.url.port(),
            path: self.url.path(),
            identity: self.identity,
        }
    }
}

impl RequestKind {
    /// What a browser's header fields say a request is for (P2).
    ///
    /// `Sec-Fetch-Dest: document` is a navigation; an iframe is none, though its mode is `navigate`. Where a browser sends
    /// no Sec-Fetch fields (over plain http), `Accept: text/html` together with `Upgrade-Insecure-Requests` is one.
    /// Anything else is a part of a page.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let navigates = if SEC_FETCH.iter().any(|name| headers.contains_key(name)) {
            headers.get(&SEC_FETCH_DEST).is_some_and(|dest| dest.as_bytes().trim_ascii() == b"document")
        } else {
            headers.contains_key(UPGRADE_INSECURE_REQUESTS)
                && headers.get_all(ACCEPT).iter().any(|accept| accept.to_str().is_ok_and(wants_html))
        };
        if navigates { Self::Navigation } else { Self::Subresource }
    }
}

/// Whether an Accept field names HTML (RFC 9110 section 12.5.1); wildcards do not.
fn wants_html(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let media_type = range.split(';').next().unwrap_or_default();
        media_type.trim().eq_ignore_ascii_case("text/html")
    })
}

impl<'a> From<&'a Url> for Ask<'a> {
    fn from(url: &'a Url) -> Self {
        Self::new(url)
    }
}

const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Any of them says that the browser sends them all (W3C Fetch Metadata).
const SEC_FETCH: [HeaderName; 4] = [
    SEC_FETCH_DEST,
    HeaderName::from_static("sec-fetch-mode"),
    HeaderName::from_static("sec-fetch-site"),
    HeaderName::from_static("sec-fetch-user"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(fields: &[(&'static str, &'static str)]) -> RequestKind {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(HeaderName::from_static(name), http::HeaderValue::from_static(value));
        }
        RequestKind::of_headers(&headers)
    }

    #[test]
    fn p2_a_document_is_a_navigation_and_its_parts_are_not() {
        use RequestKind::{Navigation, Subresource};
        let html = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");
        let upgrade = ("upgrade-insecure-requests", "1");
        for (fields, expected) in [
            (&[("sec-fetch-dest", "document"), ("sec-fetch-mode", "navigate")][..], Navigation),
            (&[("sec-fetch-dest", "iframe"), ("sec-fetch-mode", "navigate"), html, upgrade], Subresource),
            (&[("sec-fetch-dest", "empty"), ("sec-fetch-mode", "cors")], Subresource),
            (&[("sec-fetch-dest", "image")], Subresource),
            (&[("sec-fetch-mode", "navigate"), html, upgrade], Subresource),
            (&[html, upgrade], Navigation),
            (&[("accept", "image/png"), ("accept", "Text/HTML ; q=0.9"), upgrade], Navigation),
            (&[html], Subresource),
            (&[("accept", "*/*"), upgrade], Subresource),
            (&[("accept", "text/html5"), upgrade], Subresource),
            (&[], Subresource),
        ] {
            assert_eq!(kind(fields), expected, "{fields:?}");
        }
    }
}
