//! Whom a request is for, and by which way it gets there.

use std::borrow::Cow;
use std::sync::Arc;

use http::uri::{Authority, Scheme, Uri};
use http::{HeaderValue, header};
use url::{Host, Position, Url};

use super::failure::{Failure, FailureKind, Request};
use super::options::Options;
use super::proxy::Proxy;

/// Scheme, host and port of a request (RFC 6454), in every form the wire wants.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) tls: bool,
    pub(super) host: Host<String>,
    pub(super) port: u16,
    authority: Authority,
    host_field: HeaderValue,
    /// Host and port for people.
    pub(super) place: String,
}

/// How an origin is reached; connections with equal keys may carry each other's requests.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) key: Arc<str>,
    pub(super) origin: Origin,
    pub(super) hop: Hop,
}

/// The first thing connected to.
#[derive(Debug)]
pub(super) enum Hop {
    /// The far end itself, or where `connect_to` put it.
    Direct { host: Host<String>, port: u16 },
    /// A proxy that takes whole URLs.
    Forward(Proxy),
    /// A proxy that opens a tunnel to host and port.
    Tunnel(Proxy, Host<String>, u16),
}

impl Origin {
    fn of(url: &Url) -> Result<Self, Failure> {
        let unfit = || unfit(url, "is no http or https URL with a host");
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(unfit()),
        };
        let host = url.host().ok_or_else(unfit)?.to_owned();
        let port = url.port_or_known_default().ok_or_else(unfit)?;
        // No userinfo: a password in a URL is not for the wire.
        let authority = &url[Position::BeforeHost..Position::AfterPort];
        Ok(Self {
            tls,
            port,
            authority: authority.parse().map_err(|_| unfit())?,
            host_field: HeaderValue::try_from(authority).map_err(|_| unfit())?,
            place: format!("{host}:{port}"),
            host,
        })
    }

    /// Whether `uri` is of this origin; one without an authority is taken to be.
    fn covers(&self, uri: &Uri) -> bool {
        let scheme = if self.tls { &Scheme::HTTPS } else { &Scheme::HTTP };
        let same_port = |port: u16| port == self.port;
        uri.scheme().is_none_or(|given| given == scheme)
            && uri.authority().is_none_or(|given| {
                given.host().eq_ignore_ascii_case(self.authority.host())
                    && given.port_u16().map_or(self.authority.port_u16().is_none(), same_port)
            })
    }

    /// Gives `request` the target and fields of a message sent by `form`.
    pub(super) fn address(&self, request: &mut Request, form: Form<'_>) -> Result<(), Failure> {
        if !self.covers(request.uri()) {
            let text = format!("a request for {} cannot be sent on a connection to {}", request.uri(), self.place);
            return Err(Failure::before_sending(FailureKind::Protocol, text));
        }
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        let whole = !matches!(form, Form::Origin);
        parts.scheme = whole.then_some(if self.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = whole.then(|| self.authority.clone());
        if parts.path_and_query.is_none() {
            parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
        }
        *request.uri_mut() = Uri::from_parts(parts).map_err(|error| {
            let text = format!("the request to {} has no usable target: {error}", self.place);
            Failure::before_sending(FailureKind::Protocol, text)
        })?;
        if !matches!(form, Form::Http2) && !request.headers().contains_key(header::HOST) {
            request.headers_mut().insert(header::HOST, self.host_field.clone());
        }
        if let Form::Absolute(Some(authorization)) = form {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
        }
        Ok(())
    }
}

/// How the request target is written.
#[derive(Clone, Copy)]
pub(super) enum Form<'a> {
    /// `/path?query` (RFC 9112, 3.2.1).
    Origin,
    /// The whole URL, for a proxy (RFC 9112, 3.2.2), with what it wants in `Proxy-Authorization`.
    Absolute(Option<&'a HeaderValue>),
    /// In pseudo-header fields (RFC 9113, 8.3.1).
    Http2,
}

impl Way {
    /// The way to `url` under `options`.
    pub(super) fn to(url: &Url, options: &Options) -> Result<Self, Failure> {
        let origin = Origin::of(url)?;
        let instead = super::connect_to::instead(&options.connect_to, &origin.host, origin.port);
        let elsewhere = instead.is_some();
        let (host, port) = instead.unwrap_or_else(|| (origin.host.clone(), origin.port));
        let hop = match options.proxies.proxy_for(url) {
            None => Hop::Direct { host, port },
            // A proxy that is handed a URL connects to the host in it; only a tunnel leads elsewhere.
            Some(proxy) if origin.tls || elsewhere => Hop::Tunnel(proxy.clone(), host, port),
            Some(proxy) => Hop::Forward(proxy.clone()),
        };
        Ok(Self { key: key(url).into(), origin, hop })
    }

    /// How a request on an HTTP/1.1 connection of this way is addressed.
    pub(super) fn form(&self) -> Form<'_> {
        match &self.hop {
            Hop::Forward(proxy) => Form::Absolute(proxy.authorization.as_ref()),
            Hop::Direct { .. } | Hop::Tunnel(..) => Form::Origin,
        }
    }
}

/// What connections are kept under: scheme, host and port as `Url` normalises them.
pub(super) fn key(url: &Url) -> Cow<'_, str> {
    if url.username().is_empty() && url.password().is_none() {
        Cow::Borrowed(&url[..Position::AfterPort])
    } else {
        Cow::Owned(format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterPort]))
    }
}

fn unfit(url: &Url, why: &str) -> Failure {
    Failure::before_sending(FailureKind::Protocol, format!("{} {why}", &url[..Position::BeforeQuery]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(url: &str) -> Way {
        Way::to(&Url::parse(url).unwrap(), &Options::default()).unwrap()
    }

    #[test]
    fn userinfo_and_default_ports_make_no_difference() {
        assert_eq!(&*way("http://u:p@Example.org:80/a").key, "http://example.org");
        assert_eq!(&*way("http://example.org/b?c#d").key, "http://example.org");
        assert_eq!(&*way("https://[::1]:8443/").key, "https://[::1]:8443");
        assert_eq!(way("http://u:p@example.org:8080/").origin.host_field, "example.org:8080");
    }

    #[test]
    fn a_request_is_written_in_the_form_the_way_wants() {
        let origin = way("http://u:p@example.org:8080/").origin;
        let addressed = |uri: &str, form: Form<'_>| {
            let mut request = Request::default();
            *request.uri_mut() = uri.parse().unwrap();
            origin.address(&mut request, form).unwrap();
            request
        };
        let request = addressed("http://u:p@example.org:8080/a?b", Form::Origin);
        assert_eq!(request.uri(), "/a?b");
        assert_eq!(request.headers()[header::HOST], "example.org:8080");
        assert_eq!(addressed("/a", Form::Absolute(None)).uri(), "http://example.org:8080/a");
        assert_eq!(addressed("http://example.org:8080?b", Form::Origin).uri(), "/?b");
        let request = addressed("/a", Form::Http2);
        assert_eq!((request.uri().to_string().as_str(), request.headers().len()), ("http://example.org:8080/a", 0));
    }

    #[test]
    fn a_request_for_somebody_else_is_not_sent() {
        let origin = way("http://example.org/").origin;
        for uri in ["http://example.net/", "https://example.org/", "http://example.org:81/"] {
            let mut request = Request::default();
            *request.uri_mut() = uri.parse().unwrap();
            let failure = origin.address(&mut request, Form::Origin).unwrap_err();
            assert!(failure.not_sent() && failure.kind() == FailureKind::Protocol, "{failure}");
        }
        assert!(Way::to(&Url::parse("ftp://example.org/").unwrap(), &Options::default()).is_err());
    }
}
