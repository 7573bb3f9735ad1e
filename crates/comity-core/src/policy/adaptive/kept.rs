//! The state as few bytes: what a table of millions of hosts and every store keeps.
//!
//! Two instants are whole; others are spans from one of them. A span has 26 bits of precision (1 part in 67 million) and 6
//! of exponent.

use core::time::Duration;

use super::concurrency::Concurrency;
use super::octaves::Octaves;
use super::rate::{Phase, Rate};
use super::strain::Strain;
use super::{Adaptive, LAST, LONGEST, State};
use crate::policy::bytes::{Reader, Writer};
use crate::time::{Instant, nanos};

/// Its size.
pub(super) const BYTES: usize = 125;

/// The interval that holds: in an episode that between trials, though never a shorter one.
pub(super) fn pace(bytes: &[u8; BYTES]) -> u64 {
    let mut from = Reader::new(bytes);
    let (interval, trial) = (span(&mut from).max(1), span(&mut from));
    strain(&mut from).slower(interval).max(trial)
}

/// Requests in flight at most: one while the host refuses.
pub(super) fn in_flight(bytes: &[u8; BYTES]) -> u32 {
    let mut from = Reader::new(bytes);
    span(&mut from);
    if span(&mut from) != 0 {
        return 1;
    }
    let strain = strain(&mut from);
    strain.fewer(u32::from(u16(&mut from).clamp(1, MOST)))
}

impl State {
    pub(super) fn pack(&self) -> Adaptive {
        let Self { rate, concurrency, octaves, strain, changed, last, stale } = self;
        let mut bytes = [0; BYTES];
        let mut out = Writer::new(&mut bytes);
        // First what is asked for at every start.
        put(&mut out, rounded_up(rate.interval));
        put(&mut out, rate.trial);
        let (times, served) = strain.parts();
        out.u16(times);
        out.u8(served);
        out.u16(concurrency.most);
        for value in [rate.good, rate.bad, rate.rest, rate.held, rate.hold] {
            put(&mut out, value);
        }
        out.instant(rate.cycle);
        out.instant(rate.empty);
        for (at, since) in [
            (rate.refused, rate.empty),
            (rate.refused_last, rate.refused),
            (rate.step_began, rate.cycle),
            (concurrency.began, rate.cycle),
        ] {
            put(&mut out, nanos(at.since(since)));
        }
        // Nothing counts that started before the change (A9).
        put(&mut out, rounded_up(nanos(changed.since(rate.cycle))));
        put(&mut out, nanos(last.since(rate.cycle)));
        out.u32(rate.since_empty);
        out.u32(rate.admitted);
        out.u32(rate.step_admitted);
        out.u32(rate.span);
        out.u16(rate.episodes);
        out.u16(rate.step_size);
        out.u16(rate.sure);
        out.u8(rate.phase as u8
            | u8::from(rate.advised) << 2
            | u8::from(concurrency.first) << 3
            | u8::from(rate.shared) << 4);
        out.u8(rate.tries);
        out.u8(*stale);
        out.u32(concurrency.base);
        out.u16(concurrency.known);
        out.u16(concurrency.count);
        out.u16(concurrency.wait);
        out.u8(concurrency.fails);
        put(&mut out, concurrency.sum);
        put(&mut out, concurrency.squares);
        out.u64(octaves.bits());
        debug_assert_eq!(out.len(), BYTES);
        Adaptive { bytes }
    }

    pub(super) fn unpack(adaptive: &Adaptive) -> Self {
        let from = &mut Reader::new(&adaptive.bytes);
        let (interval, trial) = (span(from).clamp(1, LONGEST), span(from));
        let strain = strain(from);
        let most = u16(from).clamp(1, MOST);
        let [good, bad, rest, held, hold] = [0; 5].map(|_| span(from));
        let [cycle, empty] = [0; 2].map(|_| from.instant().unwrap_or_default().min(LAST));
        let refused = after(empty, span(from));
        let refused_last = after(refused, span(from));
        let [step_began, began, changed, last] = [0; 4].map(|_| after(cycle, span(from)));
        let [since_empty, admitted, step_admitted, window] = [0; 4].map(|_| from.u32().unwrap_or_default());
        let [episodes, step_size, sure] = [0; 3].map(|_| u16(from));
        let step_size = step_size.min(MOST);
        let flags = u8(from);
        let phase = match flags & 3 {
            0 => Phase::Cold,
            1 => Phase::Search,
            2 => Phase::Settled,
            _ => Phase::Probe,
        };
        let (tries, stale) = (u8(from).min(MOST_DOUBLINGS), u8(from));
        let base = from.u32().unwrap_or_default();
        let [known, count, wait] = [0; 3].map(|_| u16(from));
        let count = count.min(u16::MAX - 1);
        let fails = u8(from).min(MOST_DOUBLINGS);
        let [sum, squares] = [0; 2].map(|_| span(from));
        let octaves = Octaves::of_bits(from.u64().unwrap_or_default());
        let advised = flags & 4 != 0;
        let first = flags & 8 != 0;
        let rate = Rate {
            phase,
            interval,
            trial,
            good,
            bad,
            empty,
            since_empty,
            refused,
            refused_last,
            cycle,
            admitted,
            rest,
            advised,
            tries,
            shared: flags & 16 != 0,
            sure,
            held,
            episodes,
            step_began,
            step_admitted,
            step_size,
            hold,
            span: window,
        };
        let concurrency = Concurrency { most, base, known, count, sum, squares, began, wait, fails, first };
        Self { rate, concurrency, octaves, strain, changed, last, stale }
    }
}

fn u8(from: &mut Reader<'_>) -> u8 {
    from.u8().unwrap_or_default()
}

fn u16(from: &mut Reader<'_>) -> u16 {
    from.u16().unwrap_or_default()
}

fn strain(from: &mut Reader<'_>) -> Strain {
    let times = u16(from);
    Strain::of(times, u8(from))
}

fn after(since: Instant, span: u64) -> Instant {
    since.after(Duration::from_nanos(span)).min(LAST)
}

/// The next span that has no more than 26 bits: a floor holds to the nanosecond (A8).
fn rounded_up(span: u64) -> u64 {
    span.saturating_add((1 << exponent(span)) - 1)
}

fn exponent(span: u64) -> u32 {
    (u64::BITS - span.leading_zeros()).saturating_sub(PRECISION)
}

/// A span with 26 bits of precision.
fn put(out: &mut Writer<'_>, span: u64) {
    let exponent = exponent(span);
    out.u32(exponent << PRECISION | (span >> exponent) as u32);
}

fn span(from: &mut Reader<'_>) -> u64 {
    let word = from.u32().unwrap_or_default();
    let precise = u64::from(word & ((1 << PRECISION) - 1));
    precise.checked_shl(word >> PRECISION).unwrap_or(u64::MAX).min(nanos(LAST.since(Instant::ZERO)))
}

const PRECISION: u32 = 26;
// No state has more, and what is added to as much or multiplied by it does not overflow.
const MOST: u16 = 1 << 14;
const MOST_DOUBLINGS: u8 = 15;
