//! Files of cookies: JSON, and Netscape's cookies.txt.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use cookie_store::{Cookie, CookieDomain, CookieExpiration};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use url::Url;

use super::jar::Jar;
use crate::keep;
use crate::request::error::SaveError;

/// How a jar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Netscape,
}

impl Format {
    pub(super) fn of(path: &Path) -> Self {
        let is_text = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt"));
        if is_text { Self::Netscape } else { Self::Json }
    }
}

/// Reads a file of either format into `jar`. A line that is no cookie is passed over, unless none is one.
pub(super) fn read(text: &str, jar: &mut Jar) -> Result<(), String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.trim_start().starts_with('[') {
        let cookies: Vec<Cookie<'static>> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        cookies.into_iter().for_each(|cookie| jar.load(cookie));
        return Ok(());
    }
    let is_comment = |line: &&str| line.trim().is_empty() || line.starts_with('#') && !line.starts_with(HTTP_ONLY);
    let mut lines = text.lines().filter(|line| !is_comment(line)).peekable();
    let is_blank = lines.peek().is_none();
    let mut read = 0;
    for cookie in lines.filter_map(from_line) {
        jar.load(cookie);
        read += 1;
    }
    if read == 0 && !is_blank {
        return Err("it is neither a cookies.txt of seven columns parted by tabs, nor a list of cookies in JSON".into());
    }
    Ok(())
}

/// Writes what a jar holds, cookies for the session only included.
pub(super) fn write(jar: &Jar, format: Format) -> String {
    let cookies = jar.cookies();
    match format {
        // Cookies are text and times within the years 0 to 9999, so there is nothing that JSON could not hold.
        Format::Json => serde_json::to_string_pretty(&cookies).unwrap_or_else(|_| "[]".to_owned()) + "\n",
        Format::Netscape => cookies.into_iter().fold(HEADER.to_owned(), |mut text, cookie| {
            to_line(cookie, &mut text);
            text
        }),
    }
}

/// Gives `path` this content at once, for its owner's eyes only; a file that is there keeps its permissions.
pub(super) fn write_privately(path: &Path, bytes: &[u8]) -> Result<(), SaveError> {
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|there| !there.is_file()) {
        return Ok(keep::write_atomically(path, bytes)?);
    }
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written = tempfile::Builder::new().prefix(".comity-part-").tempfile_in(beside).and_then(|mut file| {
        if let Some(there) = there {
            file.as_file().set_permissions(there.permissions())?;
        }
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(std::io::Error::from)
    });
    written.map(drop).map_err(|source| SaveError::Write { path: path.to_owned(), source })
}

/// Domain, whether subdomains get it, path, whether it wants TLS, when it ends in seconds, name, value.
fn from_line(line: &str) -> Option<Cookie<'static>> {
    let (line, http_only) = match line.strip_prefix(HTTP_ONLY) {
        Some(line) => (line, true),
        None => (line, false),
    };
    let mut columns = line.split('\t');
    let [domain, subdomains, path, secure, ends, name] = [(); 6].map(|()| columns.next());
    // An empty value may have lost its column to an editor.
    let (name, value) = (name?, columns.next().unwrap_or_default());
    if columns.next().is_some() || name.is_empty() || name.contains(['=', ';']) || value.contains(';') {
        return None;
    }
    let host = domain?.trim_start_matches('.');
    let url = Url::parse(&format!("https://{host}/")).ok()?;
    let mut text = format!("{name}={value}; Path={}", path?);
    if subdomains?.eq_ignore_ascii_case("TRUE") {
        let _ = write!(text, "; Domain={host}");
    }
    if secure?.eq_ignore_ascii_case("TRUE") {
        text.push_str("; Secure");
    }
    if http_only {
        text.push_str("; HttpOnly");
    }
    // Some exporters write fractions, and -1 for a cookie of the session.
    match ends?.split('.').next()?.parse::<i64>().ok()? {
        ..=0 => {}
        ends => {
            let ends = Timestamp::from_second(ends.min(LAST)).ok()?;
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&ends).ok()?;
            let _ = write!(text, "; Expires={date}");
        }
    }
    Cookie::parse(text, &url).ok()
}

fn to_line(cookie: &Cookie<'_>, text: &mut String) {
    let (domain, subdomains) = match &cookie.domain {
        CookieDomain::HostOnly(host) => (host.clone(), "FALSE"),
        CookieDomain::Suffix(domain) => (format!(".{domain}"), "TRUE"),
        CookieDomain::NotPresent | CookieDomain::Empty => return,
    };
    let ends = match cookie.expires {
        CookieExpiration::AtUtc(ends) => ends.unix_timestamp(),
        CookieExpiration::SessionEnd => 0,
    };
    let http_only = if cookie.http_only() == Some(true) { HTTP_ONLY } else { "" };
    let secure = if cookie.secure() == Some(true) { "TRUE" } else { "FALSE" };
    let (name, value) = cookie.name_value();
    let path = &*cookie.path;
    let _ = writeln!(text, "{http_only}{domain}\t{subdomains}\t{path}\t{secure}\t{ends}\t{name}\t{value}");
}

/// curl's way to write the attribute, which the format did not have.
const HTTP_ONLY: &str = "#HttpOnly_";
/// What readers know the format by.
const HEADER: &str = "# Netscape HTTP Cookie File\n";
/// The end of the year 9999, as far as a date in a header goes.
const LAST: i64 = 253_402_300_799;
