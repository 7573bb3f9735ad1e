//! What every store of guards' state must do: a suite to run against each.
//!
//! A check gets a function that makes an empty store, and panics with what went wrong. [`every_check`] runs them all. Time
//! is virtual: a store under test takes the instants it is given.

use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};

use comity_core::guard::{FixedWindow, LeakyBucket, Limit, NamedLimit, ParameterError, Ruling, TokenBucket, Verdict};
use comity_core::time::Instant;

use super::{Buckets, Charge, Charges, Key, Taken};

/// Runs every check of this suite.
pub fn every_check<B: Buckets>(make: impl Fn() -> B) {
    a_burst_then_a_rate(&make);
    a_wait_is_exact(&make);
    the_rest_of_a_refill_step_is_kept(&make);
    a_refused_request_is_charged_nowhere(&make);
    the_longest_wait_of_those_that_refused_is_told(&make);
    every_key_and_every_limit_counts_by_itself(&make);
    a_cost_is_taken_whole_or_not_at_all(&make);
    a_window_holds_so_many_and_no_more(&make);
    a_leaky_bucket_says_when_to_start(&make);
    a_changed_limit_holds_for_what_is_remembered(&make);
    takes_at_once_are_one_after_the_other(&make);
}

/// `20 at once, then 1 per 60 s` (G1, field case G24).
pub fn a_burst_then_a_rate<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("per-client", TokenBucket::rate(1, SECOND * 60, 20)));
    for nth in 0..20 {
        admitted(&take(&store, 1_000, &[(&limit, b"a", 1)]), nth);
    }
    refused(&take(&store, 1_000, &[(&limit, b"a", 1)]), 0, 60_000);
    admitted(&take(&store, 61_000, &[(&limit, b"a", 1)]), 20);
    refused(&take(&store, 61_000, &[(&limit, b"a", 1)]), 0, 60_000);
}

/// Not admitted before the instant it was told, admitted at it (G2).
pub fn a_wait_is_exact<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("l", TokenBucket::new(1, 1, Duration::from_micros(333_333))));
    let at = Instant::from_nanos(5_000_000_000);
    let charges = [Charge { limit: &limit, key: Key::ALL, cost: 1 }];
    let ask = |at| settled(store.take(at, charges_of(&charges)));
    admitted(&ask(at), 0);
    let (_, retry) = ask(at).refused().unwrap_or_else(|| panic!("the only token is taken"));
    assert_eq!(retry, Duration::from_micros(333_333), "to the microsecond");
    assert!(ask(at.after(retry).before(Duration::from_micros(1))).refused().is_some(), "a microsecond early");
    admitted(&ask(at.after(retry)), 1);
}

/// A refill comes in whole steps, and the rest of a step counts for the next (G1), whether it was refused meanwhile or not
/// (G2).
pub fn the_rest_of_a_refill_step_is_kept<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("l", TokenBucket::new(2, 1, SECOND)));
    for at in [0, 0] {
        admitted(&take(&store, at, &[(&limit, b"a", 1)]), 0);
    }
    for at in [400, 800, 999] {
        refused(&take(&store, at, &[(&limit, b"a", 1)]), 0, 1000);
    }
    admitted(&take(&store, 1900, &[(&limit, b"a", 1)]), 1);
    admitted(&take(&store, 2000, &[(&limit, b"a", 1)]), 2);
    refused(&take(&store, 2999, &[(&limit, b"a", 1)]), 0, 1000);
    admitted(&take(&store, 3000, &[(&limit, b"a", 1)]), 3);
}

/// Decide all, then charge all (field case G22).
pub fn a_refused_request_is_charged_nowhere<B: Buckets>(make: &impl Fn() -> B) {
    let store = make();
    let (own, all) =
        (named("own", TokenBucket::new(1, 1, SECOND * 60)), named("all", TokenBucket::new(3, 1, SECOND * 60)));
    admitted(&take(&store, 0, &[(&all, b"", 1), (&own, b"noisy", 1)]), 0);
    for at in 1..100 {
        refused(&take(&store, at, &[(&all, b"", 1), (&own, b"noisy", 1)]), 1, 60_000);
    }
    admitted(&take(&store, 100, &[(&all, b"", 1), (&own, b"one", 1)]), 1);
    let last = take(&store, 100, &[(&all, b"", 1), (&own, b"two", 1)]);
    admitted(&last, 2);
    assert_eq!(last.left().iter().map(|left| left.remaining).collect::<Vec<_>>(), [0, 0], "each limit's rest is told");
    refused(&take(&store, 100, &[(&all, b"", 1), (&own, b"three", 1)]), 0, 60_000);
    admitted(&take(&store, 100, &[(&own, b"three", 1)]), 3);
}

/// Whoever waits so long is let in by all of them.
pub fn the_longest_wait_of_those_that_refused_is_told<B: Buckets>(make: &impl Fn() -> B) {
    let store = make();
    let (short, long) =
        (named("short", TokenBucket::new(1, 1, SECOND)), named("long", TokenBucket::new(1, 1, SECOND * 9)));
    for limits in [[&short, &long], [&long, &short]] {
        let at = if limits[0] == &short { 0 } else { 20_000 };
        let both = [(limits[0], b"a".as_slice(), 1), (limits[1], b"a".as_slice(), 1)];
        admitted(&take(&store, at, &both), 0);
        let by = usize::from(limits[0] == &short);
        let verdict = take(&store, at, &both);
        refused(&verdict, by, 9000);
        assert_eq!(verdict.left()[1 - by].retry, Some(SECOND), "the other one's wait is told too");
        admitted(&take(&store, at + 9000, &both), 1);
    }
}

/// Nobody shares a bucket with anybody, however keys and names are put together.
pub fn every_key_and_every_limit_counts_by_itself<B: Buckets>(make: &impl Fn() -> B) {
    let store = make();
    let rate = || TokenBucket::new(1, 1, SECOND * 60);
    let limits = ["a", "ab", "b"].map(|name| named(name, rate()));
    let keys: [&[u8]; 8] = [b"", b"\0", b"b", b"\0b", b"b\0", b"ab", b"\xff", b":"];
    for round in 0..2 {
        for limit in &limits {
            for key in keys {
                let verdict = take(&store, round, &[(limit, key, 1)]);
                assert_eq!(verdict.refused().is_some(), round == 1, "{} {key:?} in round {round}", limit.name());
            }
        }
    }
}

/// A cost above one (G2).
pub fn a_cost_is_taken_whole_or_not_at_all<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("l", TokenBucket::new(10, 3, SECOND)));
    admitted(&take(&store, 0, &[(&limit, b"a", 7)]), 0);
    refused(&take(&store, 0, &[(&limit, b"a", 4)]), 0, 1000);
    admitted(&take(&store, 0, &[(&limit, b"a", 3)]), 1);
    // Ten are missing: ten thirds of a second, but the fourth step ends after four.
    refused(&take(&store, 0, &[(&limit, b"a", 10)]), 0, 4000);
    // One is missing: a third of a second, rounded up, although the step ends sooner.
    let retry = take(&store, 3999, &[(&limit, b"a", 10)]).refused();
    assert_eq!(retry, Some((0, Duration::from_micros(333_334))));
    admitted(&take(&store, 4000, &[(&limit, b"a", 10)]), 2);
}

/// A window begins with its first request, and nothing comes back before it ends (field cases G15, G24).
pub fn a_window_holds_so_many_and_no_more<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("l", FixedWindow::new(3, SECOND * 60)));
    for at in [5_000, 20_000, 64_000] {
        admitted(&take(&store, at, &[(&limit, b"a", 1)]), at);
    }
    refused(&take(&store, 64_999, &[(&limit, b"a", 1)]), 0, 1);
    for at in [65_000, 65_000, 65_000] {
        admitted(&take(&store, at, &[(&limit, b"a", 1)]), at);
    }
    refused(&take(&store, 65_000, &[(&limit, b"a", 1)]), 0, 60_000);
}

/// Those that come too fast start later, and those beyond the burst are refused (field case G25).
pub fn a_leaky_bucket_says_when_to_start<B: Buckets>(make: &impl Fn() -> B) {
    let (store, limit) = (make(), named("l", LeakyBucket::new(1, SECOND, 5)));
    for nth in 0..6 {
        let verdict = take(&store, 900, &[(&limit, b"a", 1)]);
        let delayed_by = (nth > 0).then_some(0);
        assert_eq!(verdict.ruling(), Ruling::Admitted { start: ms(900 + 1000 * nth), delayed_by }, "request {nth}");
    }
    refused(&take(&store, 900, &[(&limit, b"a", 1)]), 0, 1000);
    let verdict = take(&store, 1900, &[(&limit, b"a", 1)]);
    assert_eq!(verdict.ruling(), Ruling::Admitted { start: ms(6900), delayed_by: Some(0) });
}

/// Limits are a setting, and what is remembered goes on under another.
pub fn a_changed_limit_holds_for_what_is_remembered<B: Buckets>(make: &impl Fn() -> B) {
    let store = make();
    let wide = named("l", TokenBucket::new(10, 1, SECOND));
    let narrow = named("l", TokenBucket::new(3, 1, SECOND));
    admitted(&take(&store, 0, &[(&wide, b"a", 2)]), 0);
    for nth in 0..3 {
        admitted(&take(&store, 0, &[(&narrow, b"a", 1)]), nth);
    }
    refused(&take(&store, 0, &[(&narrow, b"a", 1)]), 0, 1000);
    refused(&take(&store, 0, &[(&wide, b"a", 1)]), 0, 1000);
}

/// From several threads, and over several limits in any order.
pub fn takes_at_once_are_one_after_the_other<B: Buckets>(make: &impl Fn() -> B) {
    let store = make();
    let limits = ["one", "two", "three"].map(|name| named(name, TokenBucket::new(100, 1, SECOND * 60)));
    let admitted: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker: usize| {
                let (store, limits) = (&store, &limits);
                scope.spawn(move || {
                    let of = |nth: usize| (&limits[(worker + nth) % 3], b"a".as_slice(), 1);
                    (0..60).filter(|_| take(store, 5, &[of(0), of(1), of(2)]).refused().is_none()).count()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| panic!("a worker failed"))).sum()
    });
    assert_eq!(admitted, 100, "as many as there are tokens, of 240");
}

/// The verdict, whether it comes at once or late.
pub fn settled(taken: Taken) -> Verdict {
    let mut future = match taken {
        Taken::Now(verdict) => return verdict,
        Taken::Later(future) => future,
    };
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(verdict) => return verdict,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn take<B: Buckets>(store: &B, at: u64, charges: &[(&NamedLimit, &[u8], u32)]) -> Verdict {
    let charges: Vec<Charge<'_>> = charges
        .iter()
        .map(|(limit, key, cost)| Charge { limit, key: Key::new(key).unwrap_or(Key::ALL), cost: *cost })
        .collect();
    settled(store.take(ms(at), charges_of(&charges)))
}

fn charges_of<'a>(charges: &'a [Charge<'a>]) -> Charges<'a> {
    Charges::new(charges).unwrap_or_else(|error| panic!("{error}"))
}

fn admitted(verdict: &Verdict, nth: u64) {
    assert!(verdict.refused().is_none(), "request {nth} should be let in: {verdict:?}");
}

fn refused(verdict: &Verdict, by: usize, retry_ms: u64) {
    assert_eq!(verdict.refused(), Some((by, Duration::from_millis(retry_ms))), "{verdict:?}");
}

fn named(name: &str, limit: Result<impl Into<Limit>, ParameterError>) -> NamedLimit {
    limit.and_then(|limit| NamedLimit::new(name, limit.into())).unwrap_or_else(|error| panic!("{error}"))
}

fn ms(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

const SECOND: Duration = Duration::from_secs(1);
