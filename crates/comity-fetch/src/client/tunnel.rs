//! A tunnel through a proxy: CONNECT (RFC 9110, 9.3.6).

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use url::Host;

use super::failure::{Failure, FailureKind};
use super::http1;
use super::proxy::Proxy;

/// Asks `proxy` at the other end of `tcp` for a tunnel to `host` and `port`, and gives the same stream back as that.
pub(super) async fn open(tcp: TcpStream, proxy: &Proxy, host: &Host<String>, port: u16) -> Result<TcpStream, Failure> {
    let failed = |reason: &str| {
        let text = format!("proxy {proxy} opened no tunnel to {host}:{port}: {reason}");
        Failure::before_sending(FailureKind::Connect, text)
    };
    let broken = |error: hyper::Error| failed(&super::failure::chain(&error)).caused_by(error);

    let target = format!("{host}:{port}");
    let target: Uri = target.parse().map_err(|_| failed("the host cannot be written in a request"))?;
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.method_mut() = Method::CONNECT;
    if let Some(authority) = target.authority().and_then(|authority| authority.as_str().parse().ok()) {
        request.headers_mut().insert(header::HOST, authority);
    }
    if let Some(authorization) = &proxy.authorization {
        request.headers_mut().insert(header::PROXY_AUTHORIZATION, authorization.clone());
    }
    *request.uri_mut() = target;

    let (mut sender, mut connection) = http1::settings().handshake(TokioIo::new(tcp)).await.map_err(broken)?;
    let mut answer = pin!(sender.send_request(request));
    let mut over = false;
    let response = poll_fn(|cx| {
        if !over {
            over = connection.poll_without_shutdown(cx).is_ready();
        }
        match answer.as_mut().poll(cx) {
            Poll::Pending if over => Poll::Ready(None),
            other => other.map(Some),
        }
    });
    let response = response.await.ok_or_else(|| failed("the proxy closed the connection"))?.map_err(broken)?;
    if !response.status().is_success() {
        return Err(failed(&response.status().to_string()));
    }
    if !over {
        poll_fn(|cx| connection.poll_without_shutdown(cx)).await.map_err(broken)?;
    }
    let parts = connection.into_parts();
    if !parts.read_buf.is_empty() {
        return Err(failed("bytes came through it before any were sent"));
    }
    Ok(parts.io.into_inner())
}
