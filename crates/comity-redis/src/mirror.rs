//! What this process knows of the store's records, and of its clock.

use core::time::Duration;
use std::collections::HashMap;

use comity_core::limits::all::Cells;
use comity_core::limits::{Limits, Member, Part, ScopeId, Snapshot, Windows};
use comity_core::policy::Learned;
use comity_core::time::{Instant, nanos};
use comity_store::{Memory, ScopeKind};

use crate::keys::Keys;
use crate::places::Places;
use crate::script::{Aged, Floor, Memory as Remembered, Record, Scope};
use crate::state::{State, instant, kind, micros, span, to_text, wait_micros};

/// The records this process has to do with.
pub(crate) struct Mirror {
    known: HashMap<ScopeId, Known>,
    by_key: HashMap<String, ScopeId>,
    keys: Keys,
    global: Option<String>,
    token: String,
    versions: u64,
    /// Counts the times that the store may have lost what this process knows.
    pub(crate) epoch: u32,
    /// The clock of records that have not been read yet.
    pub(crate) clock: StoreClock,
}

/// What is known of one scope's record.
pub(crate) struct Known {
    name: Box<str>,
    /// Where the record is; `None` where the scope is this process's own.
    pub(crate) key: Option<String>,
    /// Requests in flight that take places here.
    pub(crate) places: Places,
    /// Those under limits that a caller brought: they count towards a learned concurrency alone.
    pub(crate) guests: Places,
    pub(crate) raw: State,
    seen: bool,
    epoch: u32,
    /// The last call that changes the record by what the mirror has already.
    pub(crate) mutated: u64,
    /// The version of what was learned, as it will be once every call is answered; the one it was last begun anew from.
    pub(crate) version: Option<String>,
    pub(crate) rebased: Option<String>,
    /// It changed while the store was out of reach; and what of it the record must not be taken for.
    pub(crate) touched: bool,
    pub(crate) declared: bool,
    pub(crate) forgotten: bool,
    /// Until when it is not asked for, because the store cannot read it; whether that was said.
    pub(crate) apart: Instant,
    warned: bool,
    pub(crate) clock: StoreClock,
}

/// The store's clock beside this process's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StoreClock {
    /// They are one: a test gives the times.
    Given,
    /// Nanoseconds the store's is ahead; from an answer that took so long, at that time.
    Measured { ahead: i128, took: Duration, at: Instant },
}

impl StoreClock {
    /// As an answer told it.
    pub(crate) fn measured(micros: i64, sent: Instant, came: Instant) -> Self {
        let ahead = i128::from(micros) * 1000 - i128::from(came.as_nanos());
        Self::Measured { ahead, took: came.since(sent), at: came }
    }

    /// Takes another answer's word, where it is better: it came quicker, or the last is old or far off.
    ///
    /// An answer's instant is taken for that of its coming, so that what is told is never sooner than it is.
    pub(crate) fn hear(&mut self, micros: i64, sent: Instant, came: Instant) {
        let Self::Measured { ahead, took, at } = *self else { return };
        let heard = Self::measured(micros, sent, came);
        let Self::Measured { ahead: other, took: quick, .. } = heard else { return };
        let far_off = (other - ahead).unsigned_abs() > u128::from(nanos(FAR_OFF)) + quick.as_nanos() + took.as_nanos();
        if quick <= took || came.since(at) > OLD || far_off {
            *self = heard;
        }
    }

    /// The quickest answer's time.
    pub(crate) fn took(&self) -> Duration {
        match self {
            Self::Given => Duration::ZERO,
            Self::Measured { took, .. } => *took,
        }
    }

    /// An instant of the store's clock on this process's.
    pub(crate) fn local(&self, at: Instant) -> Instant {
        match self {
            Self::Given => at,
            Self::Measured { ahead, .. } => moved(at, -ahead),
        }
    }

    /// An instant of this process's clock on the store's.
    pub(crate) fn store(&self, at: Instant) -> Instant {
        match self {
            Self::Given => at,
            Self::Measured { ahead, .. } => moved(at, *ahead),
        }
    }

    /// What the store's is ahead.
    pub(crate) fn phase(&self) -> Duration {
        match self {
            Self::Given => Duration::ZERO,
            Self::Measured { ahead, .. } => Duration::from_nanos(u64::try_from(*ahead).unwrap_or(0)),
        }
    }
}

impl Mirror {
    pub(crate) fn new(keys: Keys, global: Option<String>, clock: StoreClock) -> Self {
        Self {
            known: HashMap::new(),
            by_key: HashMap::new(),
            keys,
            global,
            token: crate::members::random_name(),
            versions: 0,
            epoch: 0,
            clock,
        }
    }

    /// What is known of a scope, which may be nothing yet.
    pub(crate) fn known(&mut self, memory: &Memory, scope: ScopeId) -> &mut Known {
        use comity_store::Store as _;
        let name = memory.inspect(scope).map_or("", |(name, _)| name);
        let stale = self.known.get(&scope).is_none_or(|known| *known.name != *name);
        if stale {
            let shared = match memory.kind(scope) {
                Some(ScopeKind::Own) | None => false,
                _ => name != "*" || self.global.is_some(),
            };
            let key = shared.then(|| self.keys.scope(name, self.global.as_deref()));
            if let Some(key) = &key {
                self.by_key.insert(key.clone(), scope);
            }
            let known = Known {
                name: name.into(),
                key,
                places: Places::default(),
                guests: Places::default(),
                raw: State::default(),
                seen: false,
                epoch: self.epoch,
                mutated: 0,
                version: None,
                rebased: None,
                touched: false,
                declared: false,
                forgotten: false,
                apart: Instant::ZERO,
                warned: false,
                clock: self.clock,
            };
            if let Some(old) = self.known.insert(scope, known)
                && let Some(key) = old.key
                && self.by_key.get(&key) == Some(&scope)
            {
                self.by_key.remove(&key);
            }
        }
        match self.known.get_mut(&scope) {
            Some(known) => known,
            None => unreachable!("it was put there"),
        }
    }

    pub(crate) fn each(&mut self) -> impl Iterator<Item = (ScopeId, &mut Known)> {
        self.known.iter_mut().map(|(scope, known)| (*scope, known))
    }

    /// Which scope's record is there.
    pub(crate) fn scope_at(&self, key: &str) -> Option<ScopeId> {
        self.by_key.get(key).copied()
    }

    /// A version that nobody else makes.
    pub(crate) fn new_version(&mut self) -> String {
        self.versions += 1;
        format!("{}.{}", self.token, self.versions)
    }

    /// What a call says of a scope: its limits, the places, and what this process remembers.
    pub(crate) fn argument(&mut self, memory: &Memory, now: Instant, member: Member) -> Scope {
        let (version, epoch) = (self.new_version(), self.epoch);
        let cell = memory.cell(member.scope);
        let limits = cell.limits();
        let known = self.known(memory, member.scope);
        let heavy = known.epoch != epoch;
        let (fl, hv) = if heavy {
            let snapshot = cell.snapshot().shifted(|at| known.clock.store(at));
            let (floor, rest) = remembered(&snapshot, limits, version.clone());
            (Some(floor), Some(rest))
        } else if known.seen {
            let raw = &known.raw;
            let paused = raw.pu.filter(|_| raw.pr > 0);
            let floor = Floor { v: raw.v, w: raw.w, l: raw.l, pu: paused, pr: Some(raw.pr.min(1)), pn: Some(raw.pn) };
            (Some(floor), None)
        } else {
            (None, None)
        };
        let at = known.clock.store(now);
        Scope {
            part: (member.part == Part::Learned).then_some("l"),
            i: Some(wait_micros(limits.interval)).filter(|interval| *interval > 0),
            bu: limits.burst.get(),
            m: limits.in_flight.map(core::num::NonZeroU32::get),
            win: limits.windows.iter().map(|window| (window.count.get(), wait_micros(window.per))).collect(),
            lk: None,
            k: kind(&limits.policy),
            to: micros(Instant::ZERO.after(limits.policy.tolerance())),
            fi: wait_micros(limits.policy.fresh().interval()),
            pf: wait_micros(limits.policy.floor()),
            fc: limits.policy.fresh().in_flight(),
            own: Some(known.places.own),
            out: known.places.out,
            og: Some(known.guests.own),
            oo: known.guests.out,
            fg: known.raw.fg,
            sure: known.seen && !heavy && known.raw.x > micros(at),
            now: Some(micros(at)),
            fl,
            hv,
            ag: aged(&known.raw, at, limits, version),
            ..Scope::default()
        }
    }

    /// Takes a record from the answer to a call into the memory.
    pub(crate) fn restore(&mut self, memory: &mut Memory, call: u64, scope: ScopeId, record: &Record) -> Option<()> {
        let state = State::read(&record.s)?;
        let epoch = self.epoch;
        let known = self.known(memory, scope);
        (known.places.others, known.guests.others) = (record.o, record.g);
        // What is older than what this process did since would undo it.
        if call < known.mutated {
            return Some(());
        }
        let cell = memory.cell_mut(scope);
        let limits = cell.limits().clone();
        let clock = known.clock;
        let mut snapshot = state.snapshot(Some(&limits.policy)).shifted(|at| clock.local(at));
        snapshot.in_flight = known.places.all();
        snapshot.windows = match &record.log {
            Some(log) => Windows::kept(log.iter().map(|(at, count)| (clock.local(instant(*at)), *count)))
                .reaching(state.wc.unwrap_or(0), span(state.wl.unwrap_or(0))),
            None if limits.windows.is_empty() => Windows::default(),
            None => cell.snapshot().windows,
        };
        cell.restore(&snapshot);
        cell.set_guests(known.guests.all());
        known.version.clone_from(&state.bv);
        known.seen = true;
        known.epoch = epoch;
        known.touched = false;
        known.warned = false;
        known.raw = state;
        Some(())
    }

    /// The store cannot read this scope's record: it is not asked for until then, and told everything after it. True where
    /// that was not so before.
    pub(crate) fn set_apart(&mut self, memory: &Memory, scope: ScopeId, until: Instant) -> bool {
        let epoch = self.epoch;
        let known = self.known(memory, scope);
        (known.apart, known.touched, known.epoch) = (until, false, epoch.wrapping_sub(1));
        !core::mem::replace(&mut known.warned, true)
    }

    /// The places of a scope in the memory: this process's alone, while it is alone.
    pub(crate) fn count_places(&mut self, memory: &mut Memory, alone: bool) {
        for (scope, known) in &self.known {
            if known.key.is_none() || !is_same(memory, *scope, &known.name) {
                continue;
            }
            let count = |places: &Places| if alone { places.own } else { places.all() };
            let cell = memory.cell_mut(*scope);
            cell.set_in_flight(count(&known.places));
            cell.set_guests(count(&known.guests));
        }
    }
}

/// Whether the table still has this scope at that place.
pub(crate) fn is_same(memory: &Memory, scope: ScopeId, name: &str) -> bool {
    use comity_store::Store as _;
    memory.inspect(scope).is_some_and(|(known, _)| known == name)
}

impl Known {
    pub(crate) fn is_in(&self, memory: &Memory, scope: ScopeId) -> bool {
        is_same(memory, scope, &self.name)
    }
}

/// All that a process remembers of a scope, on the store's clock.
fn remembered(snapshot: &Snapshot, limits: &Limits, version: String) -> (Floor, Remembered) {
    let at = |at: Instant| (at != Instant::ZERO).then(|| micros(at));
    let floor = Floor {
        v: snapshot.spacing.virtual_start().and_then(at),
        w: snapshot.pace.virtual_start().and_then(at),
        l: at(snapshot.last_start),
        pu: at(snapshot.pause.until()),
        pr: Some((snapshot.pause.restart() as u8).min(1)),
        pn: Some(snapshot.pause.repeats()),
    };
    let mut rest = Remembered {
        k: kind(&limits.policy),
        c: micros(Instant::ZERO.after(snapshot.crawl_delay)),
        ..Remembered::default()
    };
    match &snapshot.learned {
        Learned::Nothing => {}
        Learned::Pressure(pressure) => {
            let (drained, units, spacing) = pressure.to_keep();
            (rest.p, rest.d, rest.s) = (Some(units), Some(micros(drained)), Some(spacing));
        }
        learned if *learned == limits.policy.fresh() => {}
        learned => {
            rest.b = Some(to_text(learned));
            rest.i = Some(wait_micros(learned.interval()));
            rest.cn = learned.in_flight();
            rest.bv = Some(version);
        }
    }
    rest.q = snapshot.quota.map(|quota| crate::state::Quota {
        li: quota.limit.map(|limit| limit.min(crate::state::FAR.unsigned_abs())),
        wi: quota.window.map(wait_micros),
        re: quota.remaining.min(crate::state::FAR.unsigned_abs()),
        he: micros(quota.heard),
        rs: micros(quota.resets),
    });
    let starts = snapshot.windows.to_keep(usize::MAX);
    rest.log = starts.iter().flat_map(|(at, count)| core::iter::repeat_n(micros(*at), *count as usize)).collect();
    (floor, rest)
}

/// What is left of what was learned, where it is old.
fn aged(raw: &State, now: Instant, limits: &Limits, version: String) -> Option<Aged> {
    let (Some(last), Some(was), true) = (raw.l, &raw.bv, raw.k.as_deref() == kind(&limits.policy)) else { return None };
    let idle = now.since(instant(last));
    if idle < OLD_LESSON {
        return None;
    }
    let learned = raw.learned(Some(&limits.policy)).aged(idle, &limits.policy);
    let (interval, concurrency) = (wait_micros(learned.interval()), learned.in_flight());
    Some(Aged { v: was.clone(), b: to_text(&learned), i: interval, cn: concurrency, nv: version })
}

fn moved(at: Instant, by: i128) -> Instant {
    let nanos = (i128::from(at.as_nanos()) + by).clamp(1, i128::from(u64::MAX - 1));
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX - 1))
}

/// A measure of the clock this old gives way to any other.
const OLD: Duration = Duration::from_secs(2);
/// A clock that differs by so much has been set.
const FAR_OFF: Duration = Duration::from_millis(20);
/// What was learned is forgotten by and by after so long; as in the core, and a second sooner, for clocks differ.
const OLD_LESSON: Duration = Duration::from_secs(3599);
