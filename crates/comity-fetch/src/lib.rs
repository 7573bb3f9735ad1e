//! Fetch a list of URLs politely: robots.txt, redirects, retries, and what is kept of the answers.
//!
//! ```text
//! list ─ one queue a site ─► line (the pacer's) ─► attempt: connect · begin · send · settle ─► keep
//!                              ▲ robots.txt first      │ refused: back in line, ahead of later ones
//!                              └───────────────────────┴ redirect: a start on the host it leads to
//! ```

pub mod client;
pub mod keep;
pub mod list;
pub mod request;
pub mod robots;
mod run;

pub use run::{End, Fetch, FetchError, HostLine, Observer, Options, SharedPace, Status, Stop};
