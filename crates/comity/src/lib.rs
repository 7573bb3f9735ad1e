//! Courteous HTTP at full speed: one pace per host, for every request a program makes.
//!
//! A [`Pacer`] decides when each request may start. It finds the pace a host accepts, obeys what the host says
//! (`Retry-After`, a `Crawl-delay`, advertised quotas) and says why a request waits.
//!
//! ```
//! # async fn send(_: &url::Url) -> (u16, http::HeaderMap) { (200, http::HeaderMap::new()) }
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use comity::{Answer, Pacer, Profile, Settled};
//!
//! let pacer = Pacer::builder(Profile::Api).local();
//! let url = url::Url::parse("https://api.example.org/v1/items")?;
//! let mut permit = pacer.acquire(&url).await?; // waits for the host's turn
//! let answer = loop {
//!     let (status, headers) = send(&url).await;
//!     match permit.settle(&Answer::response(status, &headers)) {
//!         Settled::Retry(waiting) => permit = waiting.await?, // refused: again, ahead of later arrivals
//!         _ => break status,
//!     }
//! };
//! assert_eq!(answer, 200);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! The constructor says what the rate covers: [`Builder::local`] is this process alone, [`Builder::shared`] all who share a
//! store.
//!
//! A client needs none of that by hand: the modules `tower` (feature `tower`) and `reqwest` (feature `reqwest`) wrap one.
//!
//! # Metrics
//!
//! With the feature `metrics` the following is told to the `metrics` facade. No label names a host, so that their number
//! stays small; what is known of each host is in [`HostState`] ([`Pacer::hosts`], [`Pacer::explain`]).
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `comity_starts_total` | counter | | requests let start, retries included |
//! | `comity_wait_seconds` | histogram | | from being asked for to that start |
//! | `comity_refusals_total` | counter | `advice`: `given`, `none` | refusals, by whether they said for how long |
//! | `comity_refusal_wait_seconds` | histogram | | the waits they asked for |
//! | `comity_retries_total` | counter | | requests that went back into their queue |
//! | `comity_give_ups_total` | counter | `why`: `asked_too_long`, `no_retries_left`, `not_replayable` | requests that ended with a refusal |
//! | `comity_no_answers_total` | counter | `why`: `resolve`, `connect`, `timed_out`, `reset`, `uplink` | attempts without an answer |
//! | `comity_late_starts_total` | counter | | starts given up because they would have been used too late |
//! | `comity_queue_timeouts_total` | counter | | requests that waited as long as their caller wanted to |
//! | `comity_uplink_yields_total` | counter | | times most hosts were slow or silent together, and less may be in flight to all of them |

mod answer;
mod ask;
mod builder;
pub mod clock;
#[cfg(feature = "config")]
pub mod config;
mod counted;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod door;
mod driver;
mod engine;
mod error;
mod event;
mod explain;
mod inner;
mod keeping;
mod line;
mod pacer;
mod permit;
#[cfg(feature = "config")]
pub mod presets;
mod profile;
#[cfg(feature = "reqwest")]
pub mod reqwest;
mod standing;
mod telling;
#[cfg(feature = "tower")]
pub mod tower;
mod uplink;

pub use answer::Answer;
pub use ask::{Ask, RequestKind};
pub use builder::Builder;
pub use comity_core::limits::all::Origin;
pub use comity_core::limits::{Because, Limits, Partial, Source, Window, read_rate, read_span};
pub use comity_core::policy::{AdaptiveSettings, AimdSettings, Policy};
pub use comity_core::schedule::{GiveUp, Replay};
pub use comity_core::scope::{Pattern, Rules, RulesBuilder, Target};
pub use comity_core::signal::{NoAnswer, Reading, Signal, crawl_delay, request_rate};
pub use comity_store::OnFailure;
pub use error::{AcquireError, Delay};
pub use event::{Event, EventKind, Events};
pub use explain::{Explanation, HostState, Outlook, ScopeState};
pub use line::{InLine, Line};
pub use pacer::Pacer;
pub use permit::{Begin, Permit, Place, Settled, Waiting};
pub use profile::Profile;
pub use standing::Standing;
pub use uplink::Yielding;

/// The README's example compiles.
#[cfg(all(doctest, feature = "reqwest"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
