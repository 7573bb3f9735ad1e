//! The HTTP client below the engine: connections, and one request on one of them.
//!
//! It follows no redirect, retries nothing and keeps no cookie; whoever paces the requests decides all of that. What it
//! gives instead is a *ready* connection: resolved, connected, shaken hands with. The pace is promised at the instant a
//! request is written, so everything slow has to be over before the permit is looked at a last time:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use comity_fetch::client::{Client, Options};
//!
//! let client = Client::new(Options::default())?;
//! let url = url::Url::parse("https://example.org/a?b=c")?;
//! let ready = client.ready(&url).await?;
//! // … take the permit here, check the clock …
//! let request = http::Request::get(url.as_str()).body(Default::default())?;
//! let response = ready.send(request).await?; // an HTTP/1.1 head is written when this is first polled
//! # drop(response);
//! # Ok(())
//! # }
//! ```
//!
//! HTTP/1.1 connections have no task of their own: whoever waits for the answer or reads the body drives the
//! connection, so no request hops between workers and the write happens where the permit was checked. HTTP/2
//! connections are shared and have one task each.

mod address;
mod body;
mod connect;
mod connect_to;
mod dial;
mod failure;
mod first;
mod http1;
mod no_proxy;
mod options;
mod origin;
mod pool;
mod proxy;
mod ready;
mod resolve;
mod shelf;
mod stream;
mod tls;
mod tunnel;

#[cfg(test)]
mod tests;

pub use body::ResponseBody;
pub use connect_to::ConnectTo;
pub use failure::{Failure, FailureKind, Request};
pub use no_proxy::NoProxy;
pub use options::{ClientError, HttpVersions, OptionError, Options, PoolBounds};
pub use proxy::{Proxies, Proxy};
pub use ready::{Client, Ready};
pub use resolve::Resolve;
