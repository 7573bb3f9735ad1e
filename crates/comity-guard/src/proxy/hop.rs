//! Fields that mean something to one connection only, and so are never passed on (RFC 9110, 7.6.1).

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// What a message asked of its own connection, found while those fields were removed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The value of `Upgrade`, where `Connection` names it too. A wish for `h2c` is none: carried on, it would open a
    /// way around whatever judges requests here.
    pub upgrade: Option<HeaderValue>,
    /// `TE` held `trailers`, and `Connection` named `TE`.
    pub trailers: bool,
}

/// Removes the hop-by-hop fields: those known to be such, and those named by any `Connection` line.
///
/// `Host` and `Content-Length` stay although named there: they route and frame the message, and whoever could have them
/// removed could have it misread.
pub fn strip(headers: &mut HeaderMap) -> Hop {
    let mut hop = Hop::default();
    if headers.contains_key(header::CONNECTION) {
        let named = named(headers);
        let names = |name: HeaderName| named.contains(&name);
        if names(header::UPGRADE) {
            hop.upgrade = headers.get(header::UPGRADE).filter(|value| !wants_h2c(value)).cloned();
        }
        hop.trailers = names(header::TE) && accepts_trailers(headers);
        for name in named.iter().filter(|name| !KEPT.contains(name)) {
            headers.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
    hop
}

/// Whether a `TE` line holds `trailers` (RFC 9110, 10.1.4).
pub fn accepts_trailers(headers: &HeaderMap) -> bool {
    let tokens = headers.get_all(header::TE).iter().filter_map(|value| value.to_str().ok());
    tokens.flat_map(|line| line.split(',')).any(|token| token.trim().eq_ignore_ascii_case("trailers"))
}

/// The names listed in all `Connection` lines.
fn named(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(header::CONNECTION).iter();
    let tokens = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    tokens.filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok()).collect()
}

fn wants_h2c(value: &HeaderValue) -> bool {
    value.as_bytes().split(|byte| *byte == b',').any(|token| token.trim_ascii().eq_ignore_ascii_case(b"h2c"))
}

/// Known to be about one connection, whether or not `Connection` names them.
const HOP_BY_HOP: [HeaderName; 10] = [
    header::CONNECTION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-authentication-info"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("http2-settings"),
];

/// Never removed because `Connection` names them.
const KEPT: [HeaderName; 2] = [header::HOST, header::CONTENT_LENGTH];

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn i08_named_fields_go_also_over_two_lines() {
        let mut map = headers(&[
            ("connection", "close, X-Secret"),
            ("connection", " x-other ,, bad name"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("keep-alive", "timeout=5"),
            ("accept", "*/*"),
        ]);
        assert_eq!(strip(&mut map), Hop::default());
        assert_eq!(map, headers(&[("accept", "*/*")]));
    }

    #[test]
    fn i07_an_upgrade_counts_only_when_connection_names_it() {
        let websocket = Some(HeaderValue::from_static("websocket"));
        let cases: [(&[(&str, &str)], _); 5] = [
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")], websocket.clone()),
            (&[("connection", "keep-alive"), ("connection", "upgrade"), ("upgrade", "websocket")], websocket),
            (&[("connection", "keep-alive"), ("upgrade", "websocket")], None),
            (&[("upgrade", "websocket")], None),
            (&[("connection", "upgrade, http2-settings"), ("upgrade", "h2c"), ("http2-settings", "AAA")], None),
        ];
        for (lines, expected) in cases {
            let mut map = headers(lines);
            assert_eq!(strip(&mut map).upgrade, expected, "{lines:?}");
            assert!(map.is_empty(), "{map:?}");
        }
    }

    #[test]
    fn trailers_are_wanted_when_te_is_named() {
        assert!(strip(&mut headers(&[("connection", "te"), ("te", "gzip;q=0.5, Trailers")])).trailers);
        assert!(!strip(&mut headers(&[("connection", "te"), ("te", "gzip")])).trailers);
        assert!(!strip(&mut headers(&[("te", "trailers")])).trailers);
    }

    #[test]
    fn what_frames_or_routes_a_message_cannot_be_named_away() {
        let mut map = headers(&[("connection", "host, content-length"), ("host", "a"), ("content-length", "1")]);
        strip(&mut map);
        assert_eq!(map, headers(&[("host", "a"), ("content-length", "1")]));
    }
}
