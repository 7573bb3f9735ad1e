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
    if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(format!("has a control character in it (U+{:04X}): a line is one URL", u32::from(c)).into());
    }
    if text.contains(char::is_whitespace) {
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
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    if ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        // A URL parser would take the first name after any number of slashes for the host.
        let slashes = rest.bytes().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        return if slashes > 2 { Err("has no host".into()) } else { Ok(()) };
    }
    if is_other_scheme(scheme, rest) {
        return Err("is neither http nor https, and only those are fetched".into());
    }
    if text.starts_with(|c: char| c.is_alphanumeric()) || is_bracketed_address(text) {
        return Err("has no scheme: add https:// in front of it".into());
    }
    Err("is no URL: allowed are http and https URLs such as https://example.org/a".into())
}

/// Whether a text is a URL of another scheme: `ftp://…`, `mailto:…`. `example.org:8080/a` is one too, by the letter.
fn is_other_scheme(scheme: &str, rest: &str) -> bool {
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let is_port = rest.split('/').next().is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    is_scheme && (rest.starts_with("//") || !scheme.contains('.') && !is_port)
}

/// Whether a text begins with an IPv6 address as URLs write it.
fn is_bracketed_address(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    inside.is_some_and(|(address, _)| address.parse::<std::net::Ipv6Addr>().is_ok())
}

/// Whether the name can be written in a request. A URL's host may have characters that RFC 3986 section 3.2.2 has not.
fn check_host(url: &Url) -> Result<(), Reason> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]".contains(&byte);
    match url.host_str() {
        Some(host) if host.bytes().all(allowed) => Ok(()),
        _ => Err("has a host that no request can be written to".into()),
    }
}
