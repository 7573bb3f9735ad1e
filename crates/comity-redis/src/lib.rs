//! The shared store of many machines: Redis or Valkey.
//!
//! [`Redis`] keeps one pace for all processes that name the same server: a claim is one script and one round trip, on the
//! server's clock, for every scope it falls under. Where the server is out of reach, each goes on with its part of every
//! limit, slower and never faster, and joins again by itself.
//!
//! | key | what |
//! |---|---|
//! | `comity:1:{example.org}:api.example.org` | a scope's record, one msgpack map; its fields stand at the head of `pace.lua` |
//! | `comity:1:{example.org}:api.example.org#log` | the starts of its true windows, a list, where it has any |
//! | `comity:1:{*fleet}:*` | all hosts together, where the address says `?global=fleet`; else `*` is each process's own |
//! | `comity:1:{~}:members` | who shares the store, with their last signs of life |
//! | `comity:1:{~}:generation` | since when its state is, and whether another was lost before it |
//! | `comity:1:guard:{~}:LIMIT=KEY` | a bucket of guards ([`RedisBuckets`]): its tokens and an instant, as text |
//! | `comity:1:guard:{~}:members`, `…:generation` | the same for guards as for those that share a pace |
//! | `comity:1:wake:MEMBER` | the channel on which a member hears that a scope it waits in has changed |
//!
//! The tag in braces is the registrable domain, so a host and its domain's groups commit together, in a cluster too. A
//! record expires a minute after it could last have mattered. What the script decides with is the caller's: limits, costs
//! and tolerances come with each call. Where processes name different intervals for a host, the longest that any of them
//! lately asked with holds for all, or whoever has it would never start; a log of windows reaches as far back as any of them
//! needs. Where they learn by different policies, what the first learned stays, and the others go at a new host's pace, until
//! nobody has started under the first for an hour.
//!
//! An error that the server answers to one call is the trouble of that call's scopes: they go alone for a while, and all else
//! is shared. A store belongs to the process that opened it: in one that was forked off it is lost for good, because the
//! thread of its connection is not there; open another.
//!
//! ```no_run
//! use comity_redis::{Redis, Settings};
//!
//! let store = Redis::open("rediss://crawler:secret@store.example.org/0?global=fleet", Settings::default())?;
//! assert!(!store.member().is_empty());
//! # Ok::<(), comity_store::StoreError>(())
//! ```

mod arrivals;
mod calls;
mod claims;
mod clock;
mod connect;
mod guard;
mod keys;
mod link;
mod look;
mod members;
mod mirror;
mod places;
mod redis;
mod reserve;
mod script;
mod state;
mod teach;
mod url;

pub use crate::guard::{BucketSettings, RedisBuckets};
pub use crate::redis::{Redis, Settings};
