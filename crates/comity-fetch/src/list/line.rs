//! One line: a URL, an object, or nothing.

use std::borrow::Cow;

use url::Url;

use super::extra::Extra;
use super::limits::LimitsRead;
use super::lines;
use super::object;
use crate::request::{Credentials, MAX_URL};

/// An entry as a line gives it.
pub(super) struct Entry {
    /// The URL, normalised, without fragment and userinfo.
    pub(super) text: String,
    pub(super) extra: Option<Box<Extra>>,
}

pub(super) type Reason = Cow<'static, str>;

/// Reads a line; a comment or a blank line is nothing.
pub(super) fn read(line: &str, limits: &mut LimitsRead) -> Result<Option<Entry>, Reason> {
    if line.len() > lines::MAX_LINE {
        return Err(lines::TOO_LONG.into());
    }
    let line = line.strip_prefix('\u{feff}').unwrap_or(line).trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (text, extra) = if line.starts_with('{') {
        let (url, mut extra) = object::read(line, limits)?;
        let (text, credentials) = url_text(&url)?;
        extra.credentials = credentials;
        (text, extra)
    } else {
        let (text, credentials) = url_text(line)?;
        (text, Extra { credentials, ..Extra::default() })
    };
    let extra = (extra != Extra::default()).then(|| Box::new(extra));
    Ok(Some(Entry { text, extra }))
}

/// A URL's text as it is kept, and the user and password it had.
fn url_text(text: &str) -> Result<(String, Option<Credentials>), Reason> {
    let text = text.trim();
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        // A URL parser drops tabs and takes what follows a space for a part of the path; here it is a second column.
        return Err("has white space in it: a line is one URL, and a space in a URL is written %20".into());
    }
    check_scheme(text)?;
    let mut url = Url::parse(text).map_err(|error| error.to_string())?;
    check_host(&url)?;
    let credentials = Credentials::take_from(&mut url);
    url.set_fragment(None);
    if url.as_str().len() > MAX_URL {
        return Err("is longer than 65,534 bytes once it is percent-encoded".into());
    }
    // What is kept is the text, so it has to stand for the same URL.
    if url.as_str() != text && Url::parse(url.as_str()).as_ref() != Ok(&url) {
        return Err("has no form that every reader understands alike".into());
    }
    Ok((url.into(), credentials))
}

fn check_scheme(text: &str) -> Result<(), Reason> {
    let scheme = text.split(':').next().unwrap_or_default();
    if text.contains(':') && ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    // `example.org:8080/a` is a URL too, of a scheme nobody has.
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if text.contains("://") && scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_scheme) {
        return Err("is neither http nor https".into());
    }
    Err("has no scheme: add https:// in front of it".into())
}

/// Whether the name can be written in a request. A URL's host may have characters that RFC 3986 section 3.2.2 has not.
fn check_host(url: &Url) -> Result<(), Reason> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]".contains(&byte);
    match url.host_str() {
        Some(host) if host.bytes().all(allowed) => Ok(()),
        _ => Err("has a host that no request can be written to".into()),
    }
}
