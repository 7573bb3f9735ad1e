//! What a caller says of a request before it starts.

use std::time::Duration;

use comity_core::schedule::Replay;
use comity_core::scope::Target;
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

impl<'a> From<&'a Url> for Ask<'a> {
    fn from(url: &'a Url) -> Self {
        Self::new(url)
    }
}
