//! The client, and a connection ready for one request.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use http::Response;
use url::Url;

use super::body::ResponseBody;
use super::connect::connect;
use super::failure::{Failure, FailureKind, Request};
use super::first::First;
use super::options::{ClientError, HttpVersions, Options};
use super::origin::{self, Form, Way};
use super::pool::{Link, Pool};
use super::tls::Tls;

/// Connections to many hosts. A clone is cheap and shares them.
#[derive(Clone)]
pub struct Client(Arc<Shared>);

/// What all clones of a client share.
pub(super) struct Shared {
    options: Options,
    made: Instant,
    tls: Tls,
    pool: Pool,
    first: First,
}

impl Client {
    /// A client with `options`. No file but `ca_file` is read and no connection made.
    ///
    /// # Errors
    /// `ca_file` cannot be read or holds no usable certificate.
    pub fn new(options: Options) -> Result<Self, ClientError> {
        let (tls, pool) = (Tls::new(&options)?, Pool::new(options.pool));
        Ok(Self(Arc::new(Shared { options, made: now(), tls, pool, first: First::default() })))
    }

    /// A connection ready for one request to `url`: an idle one, a share of an HTTP/2 one, or a new one with all
    /// handshakes done. Nothing of a request is sent.
    ///
    /// # Errors
    /// Of kind `Resolve`, `Connect`, `Tls` or `TimedOut`, and `Protocol` for a URL that is not `http` or `https`; always
    /// [`not_sent`](Failure::not_sent). The connect time-out is the only one here.
    pub async fn ready(&self, url: &Url) -> Result<Ready, Failure> {
        if let Some(link) = self.0.pool.take(&origin::key(url), now()) {
            return Ok(self.lend(link, true));
        }
        // A handshake in progress is kilobytes; boxed, whoever only takes an idle connection does not carry them.
        Box::pin(self.open(url)).await
    }

    async fn open(&self, url: &Url) -> Result<Ready, Failure> {
        let way = Arc::new(Way::to(url, &self.0.options)?);
        let shareable = way.origin.tls && self.0.options.http_versions == HttpVersions::Auto;
        if !shareable {
            return Ok(self.lend(self.connect(way).await?, false));
        }
        let key = Arc::clone(&way.key);
        let leader = self.0.first.enter(&key).await;
        if leader.is_none()
            && let Some(link) = self.0.pool.take(&key, now())
        {
            return Ok(self.lend(link, true));
        }
        let link = self.connect(way).await?;
        match &link {
            Link::Http1(_) => self.0.first.only_http1(&key),
            Link::Http2(share) => self.0.keep(Link::Http2(share.clone())),
        }
        drop(leader);
        Ok(self.lend(link, false))
    }

    async fn connect(&self, way: Arc<Way>) -> Result<Link, Failure> {
        let Shared { options, made, tls, .. } = &*self.0;
        connect(options, tls, way, now().saturating_duration_since(*made)).await
    }

    fn lend(&self, link: Link, reused: bool) -> Ready {
        Ready { link: Some(link), reused, client: Arc::clone(&self.0) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn keep(&self, link: Link) {
        self.pool.put(link, now());
    }
}

/// A connection that waits for one request to the origin it was made ready for. Dropped unused, it is kept for another.
pub struct Ready {
    /// `None` only once sent or dropped.
    link: Option<Link>,
    reused: bool,
    client: Arc<Shared>,
}

impl Ready {
    /// Whether a request went over this connection before. The far end may then close it at any moment, also while the
    /// next request is on its way.
    pub fn reused(&self) -> bool {
        self.reused
    }

    /// Whether the far end has not closed the connection, as far as this end has heard. Reads from the socket, never
    /// waits.
    pub fn is_alive(&mut self) -> bool {
        self.link.as_mut().is_some_and(Link::is_ready)
    }

    /// Sends `request` and waits for the head of the answer; the body comes after.
    ///
    /// The URI may be absolute or only path and query; userinfo in it is not sent. Written is what the connection
    /// wants: path and query to the far end, the whole URL to a proxy. A `Host` field is added where there is none. On
    /// HTTP/1.1 the request is written when this is first polled.
    ///
    /// # Errors
    /// Of kind `Reset`, `Tls` or `Protocol`. When the connection turned out dead before anything was written, the
    /// failure says [`not_sent`](Failure::not_sent) and gives the request back.
    pub async fn send(mut self, mut request: Request) -> Result<Response<ResponseBody>, Failure> {
        let Some(link) = self.link.take() else {
            // Only `send` and `drop` take the link, and both end `self`.
            return Err(Failure::before_sending(FailureKind::Protocol, "the connection was used before".to_owned()));
        };
        let way = Arc::clone(link.way());
        let (response, connection) = match link {
            Link::Http1(connection) => {
                way.origin.address(&mut request, way.form())?;
                connection.send(request).await?
            }
            Link::Http2(mut share) => {
                way.origin.address(&mut request, Form::Http2)?;
                let answer = share.sender.try_send_request(request).await;
                let response = answer.map_err(|mut error| {
                    let unsent = error.take_message();
                    Failure::of_exchange(&way.origin.place, error.into_error(), unsent)
                })?;
                (response, None)
            }
        };
        let client = Arc::clone(&self.client);
        Ok(response.map(|incoming| ResponseBody::new(incoming, way, connection, client)))
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // A share of an HTTP/2 connection is in the pool already.
        if let Some(Link::Http1(mut connection)) = self.link.take()
            && connection.is_ready()
        {
            self.client.keep(Link::Http1(connection));
        }
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = self.link.as_ref().map(|link| link.way().origin.place.as_str());
        f.debug_struct("Ready").field("to", &to).field("reused", &self.reused).finish()
    }
}

#[expect(clippy::disallowed_methods, reason = "the age of a socket is no part of any pace; nobody could pass it in")]
fn now() -> Instant {
    Instant::now()
}
