//! What a caller tells of a request after it ended.

use std::time::Duration;

use comity_core::signal::{self, NoAnswer, Reading, Signal};
use comity_core::time::Wall;
use http::HeaderMap;

/// How an attempt ended: with the head of a response, or without an answer.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    what: What<'a>,
    latency: Option<Duration>,
}

#[derive(Clone, Debug)]
enum What<'a> {
    Response(u16, &'a HeaderMap),
    None(NoAnswer),
}

impl<'a> Answer<'a> {
    /// The head of a response. Tell it as soon as the headers are there: the body is read outside the queue (T1).
    pub fn response(status: u16, headers: &'a HeaderMap) -> Self {
        Self { what: What::Response(status, headers), latency: None }
    }

    /// No answer came.
    pub fn none(why: NoAnswer) -> Self {
        Self { what: What::None(why), latency: None }
    }

    /// The time from the request's start to the first byte of the answer, where the caller knows it better than the time
    /// from `begin` to `settle`.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    pub(crate) fn signal(&self, reading: &Reading, received: impl FnOnce() -> Wall) -> Signal {
        match &self.what {
            What::Response(status, headers) => signal::read(*status, Fields::of(headers), received(), reading),
            What::None(why) => Signal::no_answer(*why),
        }
    }

    /// The Retry-After as it came.
    pub(crate) fn retry_after(&self) -> Option<&http::HeaderValue> {
        match &self.what {
            What::Response(_, headers) => headers.get(http::header::RETRY_AFTER),
            What::None(_) => None,
        }
    }

    pub(crate) fn measured(&self) -> Option<Duration> {
        self.latency
    }

    pub(crate) fn is_response(&self) -> bool {
        matches!(self.what, What::Response(..))
    }
}

/// Header fields as the core reads them; it may go over them more than once.
struct Fields<'a> {
    map: &'a HeaderMap,
    rest: http::header::Iter<'a, http::HeaderValue>,
    taken: usize,
}

impl<'a> Fields<'a> {
    fn of(map: &'a HeaderMap) -> Self {
        Self { map, rest: map.iter(), taken: 0 }
    }
}

impl Clone for Fields<'_> {
    fn clone(&self) -> Self {
        let mut rest = self.map.iter();
        if let Some(last) = self.taken.checked_sub(1) {
            rest.nth(last);
        }
        Self { map: self.map, rest, taken: self.taken }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a str, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.rest.next()?;
        self.taken += 1;
        Some((name.as_str(), value.as_bytes()))
    }
}
