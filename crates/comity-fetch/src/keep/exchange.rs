//! A request and the head of its response, and both as HTTP/1.1 writes them.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, COOKIE, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};
use url::Url;

use super::time::Timestamp;

/// What is known when a response's head has arrived.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The URL asked, at this hop.
    pub url: &'a Url,
    /// `GET` or `HEAD`.
    pub method: &'a Method,
    /// The request's headers as sent.
    pub request_headers: &'a HeaderMap,
    /// The protocol spoken.
    pub version: Version,
    /// The response's status.
    pub status: StatusCode,
    /// Its reason phrase, where it was another than the usual one.
    pub reason: Option<&'a [u8]>,
    /// The response's headers as received: the body must be handed over with its content coding as received too.
    pub headers: &'a HeaderMap,
    /// The address that answered.
    pub peer: Option<IpAddr>,
    /// When the request was sent.
    pub at: Timestamp,
}

impl Exchange<'_> {
    /// The request head, without what would let a reader of the archive in: `Authorization`, `Proxy-Authorization`, `Cookie`.
    pub(super) fn request_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(self.method.as_str().as_bytes());
        head.push(b' ');
        head.extend_from_slice(self.url.path().as_bytes());
        if let Some(query) = self.url.query() {
            head.push(b'?');
            head.extend_from_slice(query.as_bytes());
        }
        head.extend_from_slice(b" HTTP/1.1\r\n");
        if !self.request_headers.contains_key(HOST) {
            field(&mut head, "host", self.url[url::Position::BeforeHost..url::Position::AfterPort].as_bytes());
        }
        for (name, value) in self.request_headers {
            if ![AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE].contains(name) {
                field(&mut head, name.as_str(), value.as_bytes());
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    /// The response head. The body comes to us with its chunks joined, so a `Transfer-Encoding` that was true on the
    /// wire is kept under a name no reader acts on.
    pub(super) fn response_head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(512);
        let version = if self.version == Version::HTTP_10 { "HTTP/1.0 " } else { "HTTP/1.1 " };
        head.extend_from_slice(version.as_bytes());
        head.extend_from_slice(self.status.as_str().as_bytes());
        head.push(b' ');
        let usual = self.status.canonical_reason().unwrap_or_default().as_bytes();
        head.extend(self.reason.unwrap_or(usual).iter().filter(|byte| !matches!(byte, b'\r' | b'\n')));
        head.extend_from_slice(b"\r\n");
        for (name, value) in self.headers {
            let name = if name == TRANSFER_ENCODING { "x-crawler-transfer-encoding" } else { name.as_str() };
            field(&mut head, name, value.as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head
    }
}

fn field(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn heads_read_as_http_1_1_without_secrets_or_chunking() {
        let url = Url::parse("https://a.test:8443/x?y=1#z").unwrap();
        let mut request_headers = HeaderMap::new();
        request_headers.insert(AUTHORIZATION, HeaderValue::from_static("Basic c2VjcmV0"));
        request_headers.insert(COOKIE, HeaderValue::from_static("session=1"));
        request_headers.insert("accept", HeaderValue::from_static("*/*"));
        let mut headers = HeaderMap::new();
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        headers.append("x-odd", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        headers.append("x-odd", HeaderValue::from_static("again"));
        let exchange = Exchange {
            url: &url,
            method: &Method::GET,
            request_headers: &request_headers,
            version: Version::HTTP_2,
            status: StatusCode::OK,
            reason: None,
            headers: &headers,
            peer: None,
            at: Timestamp::default(),
        };
        assert_eq!(exchange.request_head(), b"GET /x?y=1 HTTP/1.1\r\nhost: a.test:8443\r\naccept: */*\r\n\r\n");
        assert_eq!(
            exchange.response_head(),
            b"HTTP/1.1 200 OK\r\nx-crawler-transfer-encoding: chunked\r\nx-odd: caf\xe9\r\nx-odd: again\r\n\r\n"
        );
        let odd = Exchange { reason: Some(b"Fine\r\nX-Evil: 1"), version: Version::HTTP_10, ..exchange };
        assert!(odd.response_head().starts_with(b"HTTP/1.0 200 FineX-Evil: 1\r\n"));
    }
}
