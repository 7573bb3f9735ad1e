//! Where a redirect leads.

use http::{HeaderValue, Method, StatusCode};
use percent_encoding::{AsciiSet, percent_encode};
use url::Url;

use super::MAX_URL;
use super::credentials::Credentials;
use super::error::RedirectError;

/// See [`Requests::redirect`](super::Requests::redirect).
pub(super) fn follow(
    method: &Method,
    status: StatusCode,
    location: &HeaderValue,
    base: &Url,
) -> Result<Option<(Method, Url)>, RedirectError> {
    let method = match status {
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND if *method == Method::POST => Method::GET,
        StatusCode::SEE_OTHER if *method != Method::HEAD => Method::GET,
        StatusCode::MOVED_PERMANENTLY
        | StatusCode::FOUND
        | StatusCode::SEE_OTHER
        | StatusCode::TEMPORARY_REDIRECT
        | StatusCode::PERMANENT_REDIRECT => method.clone(),
        _ => return Ok(None),
    };
    // Bytes beyond ASCII are sent back as they came, in whatever encoding they are.
    let location = percent_encode(location.as_bytes(), &AsciiSet::EMPTY).to_string();
    let location = location.trim();
    let wrong = |reason: &str| RedirectError::new(location, reason);
    if location.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut url = base.join(location).map_err(|error| wrong(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it is neither http nor https"));
    }
    if url.as_str().len() > MAX_URL {
        return Err(wrong("it is longer than 65,534 bytes"));
    }
    Credentials::take_from(&mut url);
    if url.fragment().is_none() {
        url.set_fragment(base.fragment());
    }
    Ok(Some((method, url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(location: &[u8], base: &str) -> Result<String, String> {
        let location = HeaderValue::from_bytes(location).unwrap();
        match follow(&Method::GET, StatusCode::FOUND, &location, &Url::parse(base).unwrap()) {
            Ok(led) => Ok(led.unwrap().1.into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn method(from: &Method, status: u16) -> Option<Method> {
        let location = HeaderValue::from_static("/b");
        let base = Url::parse("http://example.org/a").unwrap();
        follow(from, StatusCode::from_u16(status).unwrap(), &location, &base).unwrap().map(|(method, _)| method)
    }

    #[test]
    fn a_location_is_read_against_the_url_that_sent_it() {
        let base = "https://example.org/a/b?c#d";
        assert_eq!(to(b"../x?y", base).unwrap(), "https://example.org/x?y#d");
        assert_eq!(to(b" //Example.NET/x ", base).unwrap(), "https://example.net/x#d");
        assert_eq!(to(b"?q#own", base).unwrap(), "https://example.org/a/b?q#own");
        assert_eq!(to(b"http://example.org/", base).unwrap(), "http://example.org/#d");
        assert_eq!(to("/caf\u{e9}".as_bytes(), "http://h/").unwrap(), "http://h/caf%C3%A9");
        assert_eq!(to(b"/caf\xe9?\xe9", "http://h/").unwrap(), "http://h/caf%E9?%E9");
        assert_eq!(to("http://b\u{fc}cher.example/".as_bytes(), "http://h/").unwrap(), "http://xn--bcher-kva.example/");
    }

    #[test]
    fn a_server_does_not_choose_the_scheme_or_the_user() {
        assert_eq!(to(b"http://u:p@example.net/", "http://h/").unwrap(), "http://example.net/");
        for bad in ["ftp://example.org/", "file:///etc/passwd", "javascript:alert(1)", "data:,x", "mailto:a@b", ""] {
            assert!(to(bad.as_bytes(), "http://h/").is_err(), "{bad}");
        }
        assert!(to(b"http://[::1/", "http://h/").unwrap_err().contains("IPv6"));
        assert!(to("/x".repeat(40_000).as_bytes(), "http://h/").unwrap_err().len() < 400);
    }

    #[test]
    fn methods_change_as_rfc_9110_says() {
        for status in [301, 302, 303] {
            assert_eq!(method(&Method::POST, status), Some(Method::GET), "{status}");
            assert_eq!(method(&Method::HEAD, status), Some(Method::HEAD), "{status}");
        }
        for status in [307, 308] {
            assert_eq!(method(&Method::POST, status), Some(Method::POST), "{status}");
        }
        assert_eq!(method(&Method::PUT, 301), Some(Method::PUT));
        assert_eq!(method(&Method::PUT, 303), Some(Method::GET));
        for status in [200, 300, 304, 305, 306, 404] {
            assert_eq!(method(&Method::GET, status), None, "{status}");
        }
    }
}
