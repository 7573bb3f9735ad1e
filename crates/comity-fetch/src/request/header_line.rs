//! A header field as a person writes it.

use std::str::FromStr;

use http::{HeaderName, HeaderValue, header};

use super::error::OptionError;
use super::fields::is_secret;

/// A line in curl's spelling: `Name: value` sends it, `Name;` sends it empty, `Name:` removes it from the defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderLine {
    /// Send this field.
    Set(HeaderName, HeaderValue),
    /// Do not send this default.
    Remove(HeaderName),
}

impl FromStr for HeaderLine {
    type Err = OptionError;

    fn from_str(line: &str) -> Result<Self, OptionError> {
        // What stands behind the name may be a secret.
        let wrong = |name: &str, allowed| OptionError::value("a header", name, allowed);
        let Some(at) = line.find([':', ';']) else {
            return Err(wrong(line, "allowed are \"Name: value\", \"Name:\" and \"Name;\""));
        };
        let (name, rest) = (line[..at].trim(), line[at + 1..].trim());
        let empty = line[at..].starts_with(';');
        if empty && !rest.is_empty() {
            return Err(wrong(name, "an empty field is written \"Name;\", with nothing behind it"));
        }
        let (name, value) = field(name, rest).map_err(|allowed| wrong(name, allowed))?;
        Ok(if empty || !rest.is_empty() { Self::Set(name, value) } else { Self::Remove(name) })
    }
}

/// A field that may be added to a request, or what is wrong with it.
pub(crate) fn field(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let name = HeaderName::try_from(name).map_err(|_| "a name has letters, digits and hyphens (RFC 9110, 5.1)")?;
    if name == header::HOST {
        return Err("Host is the URL's; --connect-to leads it to another machine");
    }
    if OF_THE_CONNECTION.contains(&name.as_str()) {
        return Err("it belongs to the connection, which sets it itself");
    }
    // `from_bytes` refuses line ends and other control characters, so a value cannot become a field.
    let mut value =
        HeaderValue::from_bytes(value.trim().as_bytes()).map_err(|_| "a value has no control characters")?;
    value.set_sensitive(is_secret(&name));
    Ok((name, value))
}

/// Fields that say how a message is framed or where it goes (RFC 9110 section 7.6.1, RFC 9112 section 6).
const OF_THE_CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<HeaderLine, String> {
        line.parse().map_err(|error: OptionError| error.to_string())
    }

    fn set(name: &'static str, value: &'static str) -> Result<HeaderLine, String> {
        Ok(HeaderLine::Set(HeaderName::from_static(name), HeaderValue::from_static(value)))
    }

    #[test]
    fn header_lines_mean_what_they_mean_to_curl() {
        assert_eq!(parse("X-One: 1"), set("x-one", "1"));
        assert_eq!(parse("X-One:1:2;3 "), set("x-one", "1:2;3"));
        assert_eq!(parse("X-One;"), set("x-one", ""));
        assert_eq!(parse("Accept:"), Ok(HeaderLine::Remove(header::ACCEPT)));
        assert_eq!(parse("Accept:  "), Ok(HeaderLine::Remove(header::ACCEPT)));
        assert!(parse("no field").unwrap_err().contains("Name: value"));
        assert!(parse("X-One; x").unwrap_err().contains("Name;"));
    }

    #[test]
    fn nothing_can_be_smuggled_in_by_a_header() {
        for line in ["X-One: a\r\nX-Two: b", "X-One: a\nb", "X-One: \0", "X One: a", ": a", "X-\u{e9}: a", "X\r\n-Y: 1"]
        {
            assert!(parse(line).is_err(), "{line:?}");
        }
        for line in ["Content-Length: 7", "Transfer-Encoding: chunked", "Connection: close", "host: example.org"] {
            assert!(parse(line).is_err(), "{line:?}");
        }
        let error = parse("X-Api-Key: s3cr3t\r\n").map(|line| format!("{line:?}"));
        assert!(!format!("{error:?}").contains("s3cr3t"));
        assert!(!parse("Bad Name: s3cr3t").unwrap_err().contains("s3cr3t"));
    }
}
