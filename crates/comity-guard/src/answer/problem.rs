//! Problem details (RFC 9457), with the types of draft-ietf-httpapi-ratelimit-headers section 5.

use std::fmt::Write;

use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};

/// Whether a client asks for JSON by name. `*/*` asks for nothing.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().take(MOST_LINES).any(|line| {
        let line = line.as_bytes();
        line.get(..LONGEST_LINE).unwrap_or(line).split(|byte| *byte == b',').any(|range| {
            let mut parts = range.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default();
            let json = [&b"application/problem+json"[..], b"application/json"];
            json.iter().any(|json| kind.eq_ignore_ascii_case(json)) && !parts.any(is_zero_weight)
        })
    })
}

/// A limit refused. The names are of letters, digits and `-_./*:` and need no escaping.
pub(super) fn quota_exceeded<'a>(status: StatusCode, names: impl Iterator<Item = &'a str>) -> String {
    let mut body = String::with_capacity(256);
    // Writing to a String does not fail.
    let _ = write!(
        body,
        r#"{{"type":"{TYPES}#quota-exceeded","title":"A limit on requests was reached","status":{},"violated-policies":["#,
        status.as_u16()
    );
    for (nth, name) in names.enumerate() {
        let comma = if nth > 0 { "," } else { "" };
        let _ = write!(body, "{comma}\"{name}\"");
    }
    body.push_str("]}");
    body
}

/// No place was free.
pub(super) fn reduced_capacity(status: StatusCode) -> String {
    format!(
        r#"{{"type":"{TYPES}#temporary-reduced-capacity","title":"Too much to do at the moment","status":{}}}"#,
        status.as_u16()
    )
}

/// `q=0`, `q=0.0`: not acceptable (RFC 9110 section 12.4.2).
fn is_zero_weight(parameter: &[u8]) -> bool {
    parameter.split_at_checked(2).is_some_and(|(name, value)| {
        name.eq_ignore_ascii_case(b"q=") && !value.is_empty() && value.iter().all(|byte| matches!(byte, b'0' | b'.'))
    })
}

const TYPES: &str = "https://iana.org/assignments/http-problem-types";
const MOST_LINES: usize = 4;
const LONGEST_LINE: usize = 1024;
