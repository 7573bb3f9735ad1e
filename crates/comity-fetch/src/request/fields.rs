//! Which header fields go to whom.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::MAX_HEADERS;
use super::error::OptionError;
use super::header_line::HeaderLine;

/// The fields of every request of a run.
pub(super) struct Fields {
    /// For the origins that the list names.
    home: HeaderMap,
    /// For where redirects lead.
    away: HeaderMap,
    /// For robots.txt.
    robots: HeaderMap,
}

impl Fields {
    pub(super) fn new(lines: &[HeaderLine], user_agent: &HeaderValue) -> Result<Self, OptionError> {
        if lines.len() > MAX_HEADERS {
            return Err(OptionError::value("headers", &lines.len().to_string(), "allowed are at most 100"));
        }
        let mut home = HeaderMap::new();
        home.insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        home.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for line in lines {
            let (HeaderLine::Set(name, _) | HeaderLine::Remove(name)) = line;
            home.remove(name);
        }
        for line in lines {
            if let HeaderLine::Set(name, value) = line {
                home.append(name.clone(), value.clone());
            }
        }
        home.insert(header::USER_AGENT, user_agent.clone());

        let away = without(&home, is_secret);
        let robots = without(&away, is_conditional);
        Ok(Self { home, away, robots })
    }

    pub(super) fn to(&self, at_home: bool) -> HeaderMap {
        if at_home { self.home.clone() } else { self.away.clone() }
    }

    pub(super) fn to_robots(&self) -> HeaderMap {
        self.robots.clone()
    }
}

/// Puts an entry's own fields, sorted by name, in the place of those with the same names.
pub(super) fn replace(headers: &mut HeaderMap, own: &[(HeaderName, HeaderValue)], at_home: bool) {
    for same_name in own.chunk_by(|(a, _), (b, _)| a == b) {
        for (place, (name, value)) in same_name.iter().enumerate() {
            if !at_home && is_secret(name) {
                break;
            }
            if place == 0 {
                headers.insert(name.clone(), value.clone());
            } else {
                headers.append(name.clone(), value.clone());
            }
        }
    }
}

/// Removes what describes a body that is not sent (RFC 9110 section 15.4).
pub(super) fn remove_content(headers: &mut HeaderMap) {
    for name in CONTENT {
        headers.remove(name);
    }
}

/// Whether a field was given for one site's eyes. RFC 9110 section 15.4 names `Authorization` and `Cookie`, and asks to
/// think of others; keys of APIs have no common name, but their names say what they are.
pub(super) fn is_secret(name: &HeaderName) -> bool {
    SECRETS.iter().any(|word| name.as_str().contains(word))
}

fn is_conditional(name: &HeaderName) -> bool {
    name.as_str().starts_with("if-") || *name == header::RANGE || CONTENT.contains(name)
}

fn without(headers: &HeaderMap, left_out: fn(&HeaderName) -> bool) -> HeaderMap {
    headers.iter().filter(|(name, _)| !left_out(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

const SECRETS: [&str; 8] = ["auth", "cookie", "key", "token", "secret", "password", "session", "credential"];
const CONTENT: [HeaderName; 4] =
    [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::CONTENT_LANGUAGE, header::CONTENT_LOCATION];
