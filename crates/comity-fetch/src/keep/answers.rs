//! Which answers of earlier runs count for this one.

use http::Method;

/// What a run asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Plain requests are `HEAD`: links are only checked.
    pub(super) head: bool,
}

impl Wanted {
    /// Whether it answers a request this run could make. The plain `GET` and the plain `HEAD` of a URL share a name; a
    /// variant has its method in its own.
    pub(super) fn is_ours(self, variant: Option<&str>, method: &str) -> bool {
        variant.is_some() || (method == Method::HEAD) == self.head
    }

    /// Whether it is the finding of a run that checks links: what is broken has to be seen again, or a second run would
    /// call it well.
    pub(super) fn is_broken(self, status: Option<u16>) -> bool {
        self.head && status.is_some_and(|status| status >= 400)
    }
}
