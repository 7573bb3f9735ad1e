//! One pace across processes, as the far end sees it: real `comity fetch` processes, real stores, real faults.
//!
//! Nothing here asks the limiter how it did. Every test has an arm that must fail, or a control beside it.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test says so by failing")]
#![expect(clippy::print_stdout, reason = "the figures are wanted, with `--nocapture`")]

mod far_end;
mod late;
mod machine;
mod redis;
mod servers;
mod workers;
