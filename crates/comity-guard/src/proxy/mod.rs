//! The reverse proxy: a server with bounds on everything, and a service that passes requests on to one upstream.
//!
//! - [`server`]: listeners, HTTP/1.1 and HTTP/2, TLS, time-outs, graceful end. It runs any tower service.
//! - [`forward`]: [`Forward`], the service that sends each request to one upstream and streams the answer back.
//! - [`hop`], [`tunnel`], [`inflight`]: what any proxy needs, reverse or forward.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use comity_guard::proxy::{Bounds, Forward, Listen, Server, Settings};
//!
//! let forward = Forward::new("http://127.0.0.1:3000".parse()?, Settings::default())?;
//! let server = Server::bind(vec![Listen::plain("127.0.0.1:8080".parse()?)], Bounds::default()).await?;
//! server.run(forward, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

pub mod forward;
pub mod hop;
pub mod inflight;
pub mod server;
pub mod tunnel;

use crate::clock;

pub use forward::{Forward, Judged, Protocol, Settings, Upstream};
pub use inflight::{Guarded, Inflight};
pub use server::{Bounds, Certificates, Listen, Server};

/// Any error, owned.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
