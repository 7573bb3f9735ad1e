//! `comity guard` as its operator and its clients meet it: the real binary, real sockets, a real server behind it.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod clients;
mod guide;
mod load;
mod signals;
mod told;
mod town;
mod wire;
mod wrong;
