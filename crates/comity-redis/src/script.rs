//! What a call of the scripts says, and what it answers: pure data, named as in `pace.lua` and `pulse.lua`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use crate::state::{Counted, Quota};

/// The script of claims and reports.
pub(crate) const PACE: &str = include_str!("pace.lua");
/// The script of guards' takes.
pub(crate) const GUARD: &str = include_str!("guard.lua");
/// The script of signs of life.
pub(crate) const PULSE: &str = include_str!("pulse.lua");

/// A call about the scopes of one slot.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Call {
    pub(crate) op: &'static str,
    /// This member.
    pub(crate) me: String,
    /// Microseconds that a member's places hold without a sign of life.
    pub(crate) lease: i64,
    /// The beginning of the channels that members listen on.
    pub(crate) wake: String,
    /// The time, where a test gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<i64>,
    /// Which of the keys is the generation's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gk: Option<usize>,
    /// The generation this process knows, and a name for one that begins now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r#gen: Option<String>,
    pub(crate) rid: String,
    /// When the generation began, where another was lost before it and the script cannot look by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) born: Option<i64>,
    /// Of a claim: its cost, how long ago it was asked for and due, starts wanted beside it, how far ahead they may lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) due: Option<i64>,
    pub(crate) want: u32,
    pub(crate) far: i64,
    /// Another slot let it start already: how much later it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) later: Option<i64>,
    /// Of a start that was used late: by how much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<i64>,
    pub(crate) sc: Vec<Scope>,
}

/// One scope of a call.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Scope {
    /// `l` where its own limits do not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) part: Option<&'static str>,
    /// Set interval, burst, places, windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) i: Option<i64>,
    pub(crate) bu: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) m: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) win: Vec<(u32, i64)>,
    /// Which of the keys is the windows' log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lk: Option<usize>,
    /// Policy, its burst tolerance, the interval of a new scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) k: Option<&'static str>,
    pub(crate) to: i64,
    pub(crate) fi: i64,
    /// The policy's floor.
    pub(crate) pf: i64,
    /// The concurrency of a new scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fc: Option<u32>,
    /// Places this process holds, and those it asked for and has no answer about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) own: Option<u32>,
    pub(crate) out: u32,
    /// The same of requests under limits that a caller brought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) og: Option<u32>,
    pub(crate) oo: u32,
    /// Times forgotten, as this process knows it; whether it knows that there is a record.
    pub(crate) fg: u32,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) sure: bool,
    /// What this process takes the store's clock for, and what it remembers on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) now: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fl: Option<Floor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hv: Option<Memory>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ag: Option<Aged>,
    /// Of a release: when the trial started that ends with it. Of a start that was used late: when it was to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tr: Option<i64>,
    /// Of a release: this process leaves, and waits here no more.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) gone: bool,
    /// Of a declaration: the Crawl-delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) c: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) taught: Option<Taught>,
}

/// What an answer teaches a scope.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Taught {
    /// When its request started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<i64>,
    /// A pause; one that grows from its least to a limit; or the host served it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wait: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grow: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<i64>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) served: bool,
    /// Units of pressure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) un: Option<u16>,
    /// What another policy learned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nb: Option<Learnt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) q: Option<Said>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<Counted>,
    /// The status, and whether the answer may have made it slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) st: Option<u16>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) by: bool,
}

/// What a process remembers of a scope, on the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Floor {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) v: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) w: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) l: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pu: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pr: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pn: Option<u8>,
}

/// The rest of what it remembers, sent where the store may have lost it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Memory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) k: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) b: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) i: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) d: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) s: Option<u16>,
    pub(crate) c: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) q: Option<Quota>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) log: Vec<i64>,
}

/// What a policy learned, less what its age takes from it: in place of version `v`, as version `nv`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Aged {
    pub(crate) v: String,
    pub(crate) b: String,
    pub(crate) i: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cn: Option<u32>,
    pub(crate) nv: String,
}

/// What a policy learned: compared with version `was`, set as version `v`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Learnt {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) was: Option<String>,
    pub(crate) b: String,
    pub(crate) i: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cn: Option<u32>,
    pub(crate) v: String,
}

/// An advertised quota as an answer said it; spans.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Said {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) li: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wi: Option<i64>,
    pub(crate) re: u64,
    pub(crate) rs: i64,
    pub(crate) hold: i64,
}

/// The answer to a [`Call`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// The store's clock.
    pub(crate) t: i64,
    pub(crate) g: Option<String>,
    pub(crate) gb: Option<i64>,
    /// The claim starts: when, bits of trials, how late it may be used, further starts and how late they may be.
    pub(crate) ok: bool,
    pub(crate) at: i64,
    pub(crate) tr: u32,
    pub(crate) late: Option<i64>,
    pub(crate) ahead: Vec<(i64, i64)>,
    /// Or it waits: until when, in which scope, because of what.
    pub(crate) till: Option<i64>,
    pub(crate) n: usize,
    pub(crate) why: Option<String>,
    pub(crate) more: Option<i64>,
    /// A record is gone that this process knew; or one needs its age told. Nothing was decided.
    pub(crate) lost: bool,
    pub(crate) age: bool,
    /// Scopes whose learned pace has another version by now.
    pub(crate) stale: Vec<usize>,
    pub(crate) s: Vec<Record>,
}

/// A scope in an answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Record {
    pub(crate) s: ByteBuf,
    /// The log of its windows: instants, and how many starts each stands for.
    pub(crate) log: Option<Vec<(i64, u32)>>,
    /// Places that others hold, and those of their requests under limits that callers brought.
    pub(crate) o: u32,
    pub(crate) g: u32,
}

/// A sign of life.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Pulse {
    pub(crate) me: String,
    pub(crate) token: String,
    pub(crate) lease: i64,
    pub(crate) rid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) r#gen: Option<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) leave: bool,
}

/// The answer to a [`Pulse`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Beat {
    pub(crate) t: i64,
    pub(crate) taken: bool,
    pub(crate) members: u32,
    pub(crate) rank: u32,
    pub(crate) g: Option<String>,
    pub(crate) gb: Option<i64>,
}

/// The members' record.
pub(crate) type Members = BTreeMap<String, Joined>;

/// A member in it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Joined {
    pub(crate) joined: i64,
    pub(crate) seen: i64,
}

/// As the argument of a script.
pub(crate) fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    // Into memory, of plain data: nothing of it can fail.
    rmp_serde::to_vec_named(value).unwrap_or_default()
}

/// From a script's answer.
pub(crate) fn unpack<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    rmp_serde::from_slice(bytes).ok()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_false(value: &bool) -> bool {
    !value
}
