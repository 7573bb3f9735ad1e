//! Cookies: those a person gives, and those that sites set (RFC 6265).

mod format;
mod jar;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};
use url::Url;

use super::error::{OptionError, SaveError};
use super::options::read_file;
use format::Format;
use jar::Jar;

/// Cookies to begin with, as curl reads its `-b`: `a=1; b=2` are cookies, a text without `=` is a file.
#[derive(Clone, PartialEq, Eq)]
pub enum CookieSource {
    /// Sent to every host of the list, not to other sites that one of them redirects to.
    Text(String),
    /// A jar: JSON as we write it, or Netscape's cookies.txt as curl, wget and the browsers' exporters do. With an empty
    /// name there is none, and cookies are kept for this run.
    File(PathBuf),
}

impl std::str::FromStr for CookieSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(if text.contains('=') { Self::Text(text.to_owned()) } else { Self::File(text.into()) })
    }
}

impl std::fmt::Debug for CookieSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(…)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The cookies of a run.
pub(super) struct Cookies {
    /// What a person wrote, sent as it is.
    text: Option<String>,
    /// `None` where no cookies are kept.
    kept: Option<Kept>,
}

struct Kept {
    jar: Mutex<Jar>,
    /// Whether the jar may hold a cookie: most runs that could keep some never see one, and need no lock then.
    any: AtomicBool,
    dropped: AtomicU64,
    path: Option<PathBuf>,
}

impl Cookies {
    pub(super) fn new(sources: &[CookieSource], path: Option<PathBuf>) -> Result<Self, OptionError> {
        let mut jar = Jar::default();
        let mut texts = Vec::new();
        let mut keep = path.is_some();
        for source in sources {
            match source {
                CookieSource::Text(text) => texts.push(text.trim().trim_end_matches(';')),
                CookieSource::File(file) => {
                    keep = true;
                    let required = path.as_ref() != Some(file);
                    if !file.as_os_str().is_empty()
                        && let Some(content) = read_file(file, required)?
                    {
                        format::read(&content, &mut jar).map_err(|reason| OptionError::content(file, reason))?;
                    }
                }
            }
        }
        let text = texts.join("; ");
        if text.len() > MAX_FIELD || HeaderValue::from_bytes(text.as_bytes()).is_err() {
            let allowed = "allowed are pairs such as \"a=1; b=2\", 8,190 bytes in all, without control characters";
            return Err(OptionError::value("--cookie", "", allowed));
        }
        let kept = keep.then(|| Kept {
            any: AtomicBool::new(!jar.is_empty()),
            jar: Mutex::new(jar),
            dropped: AtomicU64::new(0),
            path,
        });
        Ok(Self { text: (!text.is_empty()).then_some(text), kept })
    }

    /// The value of `Cookie` for `url`; what a person wrote goes `at_home` only.
    pub(super) fn field(&self, url: &Url, at_home: bool) -> Option<HeaderValue> {
        let mut value = String::new();
        if let Some(kept) = &self.kept
            && kept.any.load(Ordering::Acquire)
        {
            value = kept.jar().field(url, MAX_FIELD);
        }
        if let Some(text) = self.text.as_deref().filter(|text| at_home && value.len() + 2 + text.len() <= MAX_FIELD) {
            if !value.is_empty() {
                value.push_str("; ");
            }
            value.push_str(text);
        }
        if value.is_empty() {
            return None;
        }
        let mut value = HeaderValue::from_bytes(value.as_bytes()).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    pub(super) fn learn(&self, url: &Url, headers: &HeaderMap) {
        let Some(kept) = self.kept.as_ref().filter(|_| headers.contains_key(SET_COOKIE)) else { return };
        let mut jar = kept.jar();
        let mut dropped = 0;
        for (number, value) in headers.get_all(SET_COOKIE).iter().enumerate() {
            if number >= MAX_AT_ONCE || !jar.set(url, value.as_bytes()) {
                dropped += 1;
            }
        }
        kept.any.store(!jar.is_empty(), Ordering::Release);
        kept.dropped.fetch_add(dropped, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.dropped.load(Ordering::Relaxed))
    }

    pub(super) fn save(&self) -> Result<(), SaveError> {
        match self.kept.as_ref().and_then(|kept| Some((kept, kept.path.as_ref()?))) {
            Some((kept, path)) => {
                let text = format::write(&kept.jar(), Format::of(path));
                format::write_privately(path, text.as_bytes())
            }
            None => Ok(()),
        }
    }
}

impl Kept {
    fn jar(&self) -> MutexGuard<'_, Jar> {
        // No caller leaves a jar half changed.
        self.jar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Servers refuse longer fields (Apache takes 8,190 bytes a field), and then nothing of the site can be fetched.
const MAX_FIELD: usize = 8_190;
/// Cookies taken of one answer; RFC 6265 section 6.1 asks for 50 a domain.
const MAX_AT_ONCE: usize = 50;

#[cfg(test)]
mod tests;
