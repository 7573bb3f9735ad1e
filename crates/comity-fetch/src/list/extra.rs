//! What an entry has beside its URL.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};

use crate::request::Credentials;

/// What an entry has beside its URL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// Its method, where it is not that of the run. A body without a method is a `POST`.
    pub method: Option<Method>,
    /// Its own header fields, sorted by name. They take the place of the run's of the same names.
    pub headers: Box<[(HeaderName, HeaderValue)]>,
    /// What it sends.
    pub body: Option<Bytes>,
    /// Its own limits, the keys of one `[limits."…"]` table of comity.toml. Entries with equal limits share them.
    pub limits: Option<Arc<comity::Partial>>,
    /// The least time since its last fetch, `min_refetch_age` among the limits (H12).
    pub min_refetch_age: Option<Duration>,
    /// In whose name it is made, where a service counts by API key.
    pub identity: Option<Box<str>>,
    /// What it costs, where a service counts in units.
    pub cost: Option<NonZeroU32>,
    /// The user and password that stood in its URL.
    pub credentials: Option<Credentials>,
}

/// What tells two requests for one URL apart.
pub(super) type Asked<'a> =
    (Option<&'a Method>, &'a [(HeaderName, HeaderValue)], Option<&'a [u8]>, Option<&'a Credentials>, Option<&'a str>);

impl Extra {
    pub(super) fn asked(&self) -> Asked<'_> {
        (
            self.method.as_ref().filter(|&method| method != Method::GET),
            &self.headers,
            self.body.as_deref(),
            self.credentials.as_ref(),
            self.identity.as_deref(),
        )
    }

    /// Memory held, shared limits left out.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self
                .headers
                .iter()
                .map(|(name, value)| size_of_val(name) + size_of_val(value) + value.len())
                .sum::<usize>()
            + self.body.as_ref().map_or(0, Bytes::len)
            + self.identity.as_ref().map_or(0, |identity| identity.len())
    }
}
