//! What can be wrong with options, requests and redirects.

use std::path::{Path, PathBuf};

use url::{Position, Url};

use crate::keep::KeepError;

/// An option that means nothing, or that names a file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// A value that is not understood. Secrets are not repeated.
    #[error("{option} does not understand {value:?}: {allowed}")]
    Value {
        /// What was set.
        option: &'static str,
        /// To what.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A file that cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("cannot read {}: {reason}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl OptionError {
    pub(super) fn value(option: &'static str, value: &str, allowed: &'static str) -> Self {
        Self::Value { option, value: value.to_owned(), allowed }
    }

    pub(super) fn content(path: &Path, reason: impl Into<String>) -> Self {
        Self::Content { path: path.to_owned(), reason: reason.into() }
    }
}

/// A URL that cannot be written into a request.
#[derive(Debug, thiserror::Error)]
#[error("no request can be written for {url}: {reason}")]
pub struct BuildError {
    url: String,
    reason: String,
}

impl BuildError {
    pub(super) fn new(url: &Url, reason: &dyn std::fmt::Display) -> Self {
        let place = &url[Position::BeforeHost..Position::AfterPath];
        Self { url: cut(place), reason: reason.to_string() }
    }
}

/// A redirect that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a redirect to {location:?} cannot be followed: {reason}")]
pub struct RedirectError {
    location: String,
    reason: String,
}

impl RedirectError {
    pub(super) fn new(location: &str, reason: impl Into<String>) -> Self {
        Self { location: cut(location), reason: reason.into() }
    }
}

/// A cookie jar that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The file cannot be written.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The file cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// Enough to know a URL again.
const SHOWN: usize = 200;
