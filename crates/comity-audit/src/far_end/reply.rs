//! What a host answers.

use std::time::Duration;

/// One answer, and how it is brought.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
    pub(super) after: Duration,
    pub(super) body_after: Duration,
    pub(super) chunked: bool,
    pub(super) raw: bool,
    pub(super) ending: Ending,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// It stays open where the client's HTTP version and Connection header let it.
    #[default]
    KeepAlive,
    /// It is closed after the answer, which says so.
    Close,
    /// The answer promises its whole body, brings so many bytes of it, and the connection closes.
    CutAfter(usize),
    /// It is reset (a TCP RST) instead of an answer.
    Reset,
    /// No answer ever comes; the connection stays until the client gives up.
    Silence,
}

impl Reply {
    /// An answer with this status and no body.
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: Vec::new(),
            after: Duration::ZERO,
            body_after: Duration::ZERO,
            chunked: false,
            raw: false,
            ending: Ending::KeepAlive,
        }
    }

    /// 200 with this body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200).body(body)
    }

    /// A redirect with this status to this Location.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header("location", location)
    }

    /// These bytes instead of an HTTP answer, after which the connection closes.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { raw: true, ..Self::status(0).body(bytes).ending(Ending::Close) }
    }

    /// Adds a header field; the value is sent byte for byte, except that line breaks become spaces.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let value = value.as_ref().iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
        self.headers.push((name.to_owned(), value.collect()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Waits so long before the head.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.after = wait;
        self
    }

    /// Waits so long between head and body.
    #[must_use]
    pub fn body_after(mut self, wait: Duration) -> Self {
        self.body_after = wait;
        self
    }

    /// Sends the body in chunks instead of with a Content-Length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// What becomes of the connection.
    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(field, _)| field.eq_ignore_ascii_case(name))
    }
}
