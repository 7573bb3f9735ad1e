//! How a refusal is answered, and what an admitted answer tells of what is left (G6).
//!
//! Nothing of the request ever reaches a header or a body: each byte comes from the settings or from arithmetic.

mod fields;
mod problem;

pub(crate) use fields::{PolicyField, add_left, add_policies, add_policy, left};
pub(crate) use problem::is_asked_for as is_problem_asked_for;

use std::time::Duration;

use bytes::Bytes;
use comity_core::guard::{Left, Shed, retry_after};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

/// How refusals are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The status of one whom a limit refused: 429 (RFC 6585 section 4) unless told otherwise.
    pub refused: StatusCode,
    /// The status of one for whom no place in flight was free: 503 unless told otherwise.
    pub shed: StatusCode,
    /// Whether the body of every refusal is the twelve bytes `lim rejected`, whatever the client accepts (G6).
    pub terse: bool,
    /// Whether answers that were let in carry the RateLimit fields; refusals always do.
    pub fields: bool,
}

impl Answers {
    /// One status for every refusal, and the body `lim rejected` (G6).
    pub fn one_status(status: StatusCode) -> Self {
        Self { refused: status, shed: status, terse: true, ..Self::default() }
    }

    /// The answer to a request that limits refused: Retry-After is the longest wait, which is long enough for all of them.
    ///
    /// `problem` is whether the client asked for problem details.
    pub(crate) fn refused<'a>(
        &self,
        problem: bool,
        retry: Duration,
        limits: impl Iterator<Item = (&'a PolicyField, &'a Left)> + Clone,
    ) -> Response<Bytes> {
        // A limit that let it in may last longer than Retry-After, and says nothing of this refusal.
        let refused = limits.filter(|(_, left)| left.retry.is_some());
        let names = || refused.clone().map(|(policy, _)| policy.name());
        let mut response = if self.terse {
            text(LIM_REJECTED)
        } else if problem {
            json(problem::quota_exceeded(self.refused, names()).into())
        } else {
            text(REFUSED)
        };
        *response.status_mut() = self.refused;
        response.headers_mut().insert(RETRY_AFTER, retry_after(retry).into());
        add_policies(response.headers_mut(), refused.clone().map(|(policy, _)| policy));
        if let Some(left) = left(refused) {
            add_left(response.headers_mut(), left);
        }
        response
    }

    /// The answer to a request for which no place in flight was free. It costs no look at any limit.
    pub(crate) fn shed(&self, problem: bool) -> Response<Bytes> {
        let mut response = if self.terse {
            text(LIM_REJECTED)
        } else if problem {
            json(problem::reduced_capacity(self.shed).into())
        } else {
            text(SHED)
        };
        *response.status_mut() = self.shed;
        response.headers_mut().insert(RETRY_AFTER, retry_after(Shed::default().retry).into());
        response
    }
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            refused: StatusCode::TOO_MANY_REQUESTS,
            shed: StatusCode::SERVICE_UNAVAILABLE,
            terse: false,
            fields: true,
        }
    }
}

fn text(body: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(body.as_bytes()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn json(body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    response
}

/// G6.
const LIM_REJECTED: &str = "lim rejected";
const REFUSED: &str = "Too many requests. Retry-After says when the next is let in.\n";
const SHED: &str = "Too much to do at the moment. Retry-After says when to come again.\n";

#[cfg(test)]
mod tests;
