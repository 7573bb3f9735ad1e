//! Flags of the guard: where it listens, what it stands before, what holds, and what is told.

mod limits;
mod listen;
mod shared;
mod told;
mod upstream;

pub(crate) use limits::LimitFlags;
pub(crate) use listen::ListenFlags;
pub(crate) use shared::{GuardSharedFlags, guard, in_words};
pub(crate) use told::{LogTo, ToldFlags};
pub(crate) use upstream::UpstreamFlags;
