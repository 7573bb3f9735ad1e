//! The head of a request as it is passed on.

use std::fmt::Write as _;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Method, StatusCode, Uri, Version};

use super::settings::{Settings, Upstream};
use crate::proxy::hop::{self, Hop};
use crate::proxy::server::Peer;

/// What whoever stands in front found out about a request, as an extension of it. Without it, the peer is not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judged {
    /// The peer is a proxy whose `Forwarded` and `X-Forwarded-…` are to be believed: they are passed on with the peer
    /// added. Otherwise they are replaced.
    pub peer_trusted: bool,
}

/// What is the same for every request.
pub(super) struct Marks {
    via1: HeaderValue,
    via2: HeaderValue,
    /// The upstream's own name, where it is told instead of the client's `Host`.
    host: Option<HeaderValue>,
    default_host: HeaderValue,
}

impl Marks {
    pub(super) fn new(upstream: &Upstream, settings: &Settings) -> Option<Self> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if settings.name.is_empty() || !settings.name.bytes().all(is_token) {
            return None;
        }
        Some(Self {
            via1: HeaderValue::from_str(&format!("1.1 {}", settings.name)).ok()?,
            via2: HeaderValue::from_str(&format!("2 {}", settings.name)).ok()?,
            host: (!settings.keep_host).then(|| upstream.authority.clone()),
            default_host: upstream.authority.clone(),
        })
    }
}

/// Makes a request's head fit to be passed on; the status to answer with where it is not.
///
/// Afterwards the target is in origin form and has no host, `Host` is the only name of one, and nothing of the client's
/// connection is left.
pub(super) fn rewrite(head: &mut Parts, marks: &Marks) -> Result<Hop, StatusCode> {
    if head.method == Method::CONNECT {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    check_framing(&head.headers)?;
    check_expectation(&head.headers)?;
    let host = host(head, marks)?;
    head.uri = origin_form(&head.method, &mut head.uri)?;

    let is_http2 = head.version == Version::HTTP_2;
    // HTTP/2 has no `Connection` to name `TE` in (RFC 9113, 8.2.2).
    let trailers = is_http2 && hop::accepts_trailers(&head.headers);
    let mut hop = hop::strip(&mut head.headers);
    hop.trailers |= trailers;
    if is_http2 {
        hop.upgrade = None;
    }

    let peer = head.extensions.get::<Peer>().copied();
    let trusted = head.extensions.get::<Judged>().is_some_and(|judged| judged.peer_trusted);
    let headers = &mut head.headers;
    headers.remove(header::EXPECT);
    if hop.trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    forwarded(headers, peer, &host, trusted);
    headers.insert(header::HOST, marks.host.clone().unwrap_or(host));
    headers.append(header::VIA, if is_http2 { marks.via2.clone() } else { marks.via1.clone() });
    Ok(hop)
}

/// Refuses what two servers could frame differently (RFC 9112, 6.1): any coding but one `chunked`.
fn check_framing(headers: &HeaderMap) -> Result<(), StatusCode> {
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(()) };
    if codings.next().is_some() || !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    if headers.contains_key(header::CONTENT_LENGTH) {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(())
}

/// The server has dealt with `100-continue`; there is no other (RFC 9110, 10.1.1).
fn check_expectation(headers: &HeaderMap) -> Result<(), StatusCode> {
    let known = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    if headers.get_all(header::EXPECT).iter().all(known) { Ok(()) } else { Err(StatusCode::EXPECTATION_FAILED) }
}

/// The host asked for: of the target where it has one, else of the one `Host` (RFC 9112, 3.2).
fn host(head: &mut Parts, marks: &Marks) -> Result<HeaderValue, StatusCode> {
    let mut lines = head.headers.get_all(header::HOST).iter();
    let (first, second) = (lines.next(), lines.next());
    if second.is_some() || first.is_none() && head.version == Version::HTTP_11 {
        return Err(StatusCode::BAD_REQUEST);
    }
    let host = match (head.uri.authority(), first) {
        (Some(authority), _) => {
            let authority = authority.as_str();
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            HeaderValue::from_str(host).map_err(|_| StatusCode::BAD_REQUEST)?
        }
        (None, Some(host)) => host.clone(),
        (None, None) => marks.default_host.clone(),
    };
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(byte);
    if host.is_empty() || !host.as_bytes().iter().all(allowed) {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(host)
}

/// The path and query alone. What was asked of the server as a whole stays so (`*`).
fn origin_form(method: &Method, uri: &mut Uri) -> Result<Uri, StatusCode> {
    let relative = uri.scheme().is_none() && uri.authority().is_none();
    let path = uri.path_and_query().map(PathAndQuery::as_str);
    let whole = path == Some("*") && *method == Method::OPTIONS;
    if !whole && path.is_some_and(|path| !path.starts_with(['/', '?'])) || relative && path.is_none() {
        return Err(StatusCode::BAD_REQUEST);
    }
    if relative {
        return Ok(std::mem::take(uri));
    }
    let mut parts = http::uri::Parts::default();
    let path = uri.path_and_query().cloned();
    parts.path_and_query = Some(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    Uri::from_parts(parts).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Says whom the request is from (RFC 7239, and the fields older than it).
fn forwarded(headers: &mut HeaderMap, peer: Option<Peer>, host: &HeaderValue, trusted: bool) {
    if !trusted {
        for name in [FORWARDED, FOR, PROTO, HOST] {
            headers.remove(name);
        }
        for name in &OTHERS {
            headers.remove(name);
        }
    }
    let Some(peer) = peer else { return };
    let ip = peer.address.ip().to_canonical();
    let proto = if peer.tls { "https" } else { "http" };

    let mut element = String::with_capacity(96);
    let written = match ip {
        IpAddr::V4(ip) => write!(element, "for={ip};host="),
        IpAddr::V6(ip) => write!(element, "for=\"[{ip}]\";host="),
    };
    debug_assert!(written.is_ok(), "a String takes all");
    // The host is made of characters that need no escape within quotes.
    let host_text = host.to_str().unwrap_or_default();
    let quote = if host_text.bytes().any(|byte| b":[](),;=".contains(&byte)) { "\"" } else { "" };
    for part in [quote, host_text, quote, ";proto=", proto] {
        element.push_str(part);
    }
    add(headers, FORWARDED, element);
    add(headers, FOR, ip.to_string());
    headers.entry(PROTO).or_insert(HeaderValue::from_static(proto));
    headers.entry(HOST).or_insert_with(|| host.clone());
}

/// Adds a member to a list field, in a line with those that came.
fn add(headers: &mut HeaderMap, name: HeaderName, member: String) {
    let mut line = Vec::new();
    for value in headers.get_all(&name) {
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(b", ");
    }
    let line = if line.is_empty() { member.into_bytes() } else { [line, member.into_bytes()].concat() };
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(line)) {
        headers.insert(name, value);
    }
}

const FORWARDED: HeaderName = header::FORWARDED;
const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Others of the family, which upstreams may believe: an untrusted peer does not set them.
const OTHERS: [HeaderName; 4] = [
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-server"),
    HeaderName::from_static("x-forwarded-prefix"),
    HeaderName::from_static("x-real-ip"),
];

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn marks() -> Marks {
        Marks::new(&"http://127.0.0.1:3000".parse().unwrap(), &Settings::default()).unwrap()
    }

    fn parts(method: &str, target: &str, lines: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in lines {
            request = request.header(*name, *value);
        }
        let peer = Peer { address: "192.0.2.7:1000".parse().unwrap(), tls: false };
        request.extension(peer).body(()).unwrap().into_parts().0
    }

    fn field<'a>(head: &'a Parts, name: &str) -> &'a str {
        head.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    #[test]
    fn the_target_is_in_origin_form_and_names_the_host() {
        let mut head = parts("GET", "http://user@example.org:81/a?b", &[("host", "other")]);
        rewrite(&mut head, &marks()).unwrap();
        assert_eq!(head.uri, "/a?b");
        assert_eq!(field(&head, "host"), "example.org:81");
        let mut head = parts("OPTIONS", "*", &[("host", "a")]);
        rewrite(&mut head, &marks()).unwrap();
        assert_eq!(head.uri, "*");
    }

    #[test]
    fn bad_heads_are_refused() {
        for (method, target, lines, status) in [
            ("GET", "/", &[][..], 400),
            ("GET", "/", &[("host", "a"), ("host", "b")], 400),
            ("GET", "/", &[("host", "a b")], 400),
            ("GET", "/", &[("host", "a/b")], 400),
            ("GET", "/", &[("host", "")], 400),
            ("GET", "*", &[("host", "a")], 400),
            ("CONNECT", "a:1", &[("host", "a")], 501),
            ("POST", "/", &[("host", "a"), ("transfer-encoding", "gzip, chunked")], 501),
            ("POST", "/", &[("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], 501),
            ("POST", "/", &[("host", "a"), ("transfer-encoding", "chunked"), ("content-length", "3")], 400),
            ("POST", "/", &[("host", "a"), ("expect", "miracles")], 417),
        ] {
            let refused = rewrite(&mut parts(method, target, lines), &marks()).unwrap_err();
            assert_eq!(refused.as_u16(), status, "{method} {target} {lines:?}");
        }
    }

    #[test]
    fn g10_untrusted_peers_headers_are_replaced() {
        let lines = &[
            ("host", "example.org"),
            ("x-forwarded-for", "198.51.100.1"),
            ("forwarded", "for=198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-real-ip", "198.51.100.1"),
        ];
        let mut head = parts("GET", "/", lines);
        rewrite(&mut head, &marks()).unwrap();
        assert_eq!(field(&head, "x-forwarded-for"), "192.0.2.7");
        assert_eq!(field(&head, "forwarded"), "for=192.0.2.7;host=example.org;proto=http");
        assert_eq!(field(&head, "x-forwarded-proto"), "http");
        assert_eq!(field(&head, "x-forwarded-host"), "example.org");
        assert_eq!(field(&head, "x-real-ip"), "");
    }

    #[test]
    fn g10_trusted_peers_headers_are_added_to() {
        let lines = &[
            ("host", "example.org:8080"),
            ("x-forwarded-for", "spoof"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-proto", "https"),
        ];
        let mut head = parts("GET", "/", lines);
        head.extensions.insert(Judged { peer_trusted: true });
        head.extensions.insert(Peer { address: "[2001:db8::1]:1".parse().unwrap(), tls: true });
        rewrite(&mut head, &marks()).unwrap();
        assert_eq!(field(&head, "x-forwarded-for"), "spoof, 203.0.113.9, 2001:db8::1");
        assert_eq!(field(&head, "forwarded"), "for=\"[2001:db8::1]\";host=\"example.org:8080\";proto=https");
        assert_eq!(field(&head, "x-forwarded-proto"), "https");
    }

    #[test]
    fn via_is_added_and_expectations_go() {
        let mut head = parts("PUT", "/", &[("host", "a"), ("via", "1.0 fred"), ("expect", "100-Continue")]);
        rewrite(&mut head, &marks()).unwrap();
        let via: Vec<_> = head.headers.get_all("via").iter().collect();
        assert_eq!(via, ["1.0 fred", "1.1 comity-guard"]);
        assert_eq!(field(&head, "expect"), "");
    }
}
