//! Who is asked: the scopes a request falls under.
//!
//! Scopes nest. A request to `https://api.example.org/v1/items` may fall under `api.example.org/v1` (a path prefix),
//! `api.example.org` (the host), `*.example.org` (a group, apex included) and `*` (all hosts together), and starts only
//! when all of them let it (behaviour T3). The host is found without its port, so that a site is one host however it is
//! reached (decision 11); an IP literal keeps its port, and a rule written for `host:port` makes that port a host of its
//! own.

mod host;
mod pattern;
mod rules;

pub use host::{HostKey, HostKeyError, Target};
pub use pattern::{Narrowing, Pattern, PatternError, Site};
pub use rules::{Rules, RulesBuilder, ScopeName};
