//! The same courtesy from the server's side: a guard in front of a server.
//!
//! [`Guard`] holds the limits and what each client has left of them; [`Guard::layer`] wraps a tower service, in axum or
//! under hyper, so that requests beyond them are answered with 429 or 503, an exact Retry-After and the RateLimit fields.
//! [`proxy`] is a reverse proxy to put it in front of any server; `comity guard` is the two together.
//!
//! ```text
//! key: whom it counts as ─► rules: which limits ─► state: gate, then all limits at once ─► layer: serve or answer
//!                                                                                     proxy: server ─ forward ─ upstream
//! ```

pub mod answer;
mod clock;
pub mod key;
pub mod layer;
pub mod proxy;
pub mod rules;
pub mod state;

pub use answer::Answers;
pub use comity_core::guard::{FixedWindow, LeakyBucket, Limit, ParameterError, TokenBucket};
pub use key::{ClientKey, ForwardedField, KeyBy, Network};
pub use layer::{GuardLayer, GuardService, PeerAddress};
pub use rules::{Counts, InFlight, OnStoreFailure, Queue, Route, RouteError, Rule, Settings, SettingsError};
pub use state::{Counted, Decision, Guard, Outcome, WouldRefuse};

/// The guide's example compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/guard.md")]
mod guide {}
