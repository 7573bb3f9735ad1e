//! A user and a password.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::Url;

use super::error::OptionError;

/// A user and a password, for `Authorization: Basic` (RFC 7617). Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    user: Box<[u8]>,
    password: Option<Box<[u8]>>,
}

impl Credentials {
    /// A user and a password.
    pub fn new(user: &str, password: Option<&str>) -> Self {
        Self { user: user.as_bytes().into(), password: password.map(|password| password.as_bytes().into()) }
    }

    /// The user and the password in a URL, percent-decoded.
    pub(crate) fn of(url: &Url) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>().into_boxed_slice();
        let given = !url.username().is_empty() || url.password().is_some();
        given.then(|| Self { user: decoded(url.username()), password: url.password().map(decoded) })
    }

    /// Takes them out of the URL.
    pub(crate) fn take_from(url: &mut Url) -> Option<Self> {
        let credentials = Self::of(url)?;
        // Only a URL without a host refuses this, and that one has no user either.
        let _ = url.set_username("").and_then(|()| url.set_password(None));
        Some(credentials)
    }

    pub(super) fn has_password(&self) -> bool {
        self.password.is_some()
    }

    pub(super) fn user(&self) -> &[u8] {
        &self.user
    }

    /// The value of `Authorization`.
    pub(crate) fn authorization(&self) -> HeaderValue {
        let both = [&self.user, &b":"[..], self.password.as_deref().unwrap_or_default()].concat();
        let text = format!("Basic {}", BASE64_STANDARD.encode(both));
        let mut value = HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("Basic"));
        value.set_sensitive(true);
        value
    }
}

impl FromStr for Credentials {
    type Err = OptionError;

    /// Reads `user:password`; a user alone has an empty password, or the one a netrc file knows.
    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (text, None),
        };
        if text.is_empty() || text.len() > MAX {
            return Err(OptionError::value("--user", "", "allowed is user:password, of at most 4,096 bytes"));
        }
        Ok(Self::new(user, password))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(…)")
    }
}

/// Servers take header fields of about 8,000 bytes; Base64 makes four bytes of three.
const MAX: usize = 4_096;
