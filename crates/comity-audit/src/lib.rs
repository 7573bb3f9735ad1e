//! The far end: servers that record what arrives, and what their records say about a client's pace.
//!
//! A limiter's own report is not evidence. What a server received is (behaviour X4), so this crate depends on no other of
//! ours: the witness may not share a clock or arithmetic with the accused.
//!
//! - [`far_end`]: one listener that plays any number of hosts, each with limits it does not tell of, and logs arrivals.
//! - [`arrivals`]: gaps, rates and windows of a log.
//! - [`audit`]: a program judged as N real processes, beside clients whose pace is known.
//! - [`control`]: a perfect client, to learn how much of what the far end sees is the machine's own unrest.
//! - [`access_log`]: the same of what a server logged itself.
//! - [`picture`]: arrivals and gaps drawn.
//! - [`town`]: the small town of hosts that `comity demo` visits.
//!
//! ```
//! use comity_audit::arrivals::Gaps;
//! use comity_audit::far_end::{FarEnd, Host, Limit, World};
//! use std::time::Duration;
//!
//! # fn main() -> std::io::Result<()> {
//! let strict = Host::new().limit(Limit::TokenBucket { every: Duration::from_millis(500), burst: 2 });
//! let far_end = FarEnd::start(World::new().host("strict.example", strict))?;
//! let url = far_end.url("strict.example", "/page/1"); // every name is served at far_end.addr()
//! # assert!(url.starts_with("http://strict.example:"));
//!
//! // … let a client loose on it, then:
//! let gaps = Gaps::of(&far_end.times("strict.example"));
//! assert_eq!(gaps.below(Duration::from_millis(500)), 0);
//! # Ok(())
//! # }
//! ```

pub mod access_log;
pub mod arrivals;
pub mod audit;
mod clock;
pub mod control;
pub mod far_end;
pub mod picture;
mod stop;
pub mod town;

pub use stop::Stop;
