//! The limits a host keeps to itself, in the plainest arithmetic there is.

use std::collections::VecDeque;
use std::time::Duration;

/// A limit a host does not tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A bucket of `burst` tokens, full at first, that gains one token `every` so often; a request takes one.
    TokenBucket {
        /// Time in which one token comes back (200 ms are 5 requests a second).
        every: Duration,
        /// Tokens the bucket holds.
        burst: u32,
    },
    /// At most `count` requests in each window; windows follow each other from the far end's start.
    FixedWindow {
        /// Requests a window allows.
        count: u32,
        /// A window's length.
        per: Duration,
    },
    /// At most `count` admitted requests in any window of that length.
    SlidingWindow {
        /// Requests any window allows.
        count: u32,
        /// The window's length.
        per: Duration,
    },
    /// At most so many requests between arrival and the head of their answer.
    Concurrency(u32),
    /// Requests are answered by `workers`, each busy for `service` with one, and wait in order of arrival; where `depth`
    /// already wait, the answer is 503.
    SlowQueue {
        /// Requests served at once.
        workers: u32,
        /// Time one takes.
        service: Duration,
        /// Requests that may wait.
        depth: u32,
    },
}

/// A host's limits and how much of each is used.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Vec<Account>,
    /// The latest time seen: connections are stamped before they get here, so stamps may come out of order.
    latest: Duration,
}

/// What the limits say to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is let in and its answer is ready at this time, after so long in a queue where there is one.
    Admitted { ready: Duration, queued: Option<Duration> },
    /// It is refused, and would not be after this span.
    Refused { status: u16, retry: Duration },
}

/// What a limit could tell its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) limit: u32,
    pub(super) window: Duration,
    pub(super) remaining: u32,
    /// Until all of the limit is there again.
    pub(super) reset: Duration,
}

impl Ledger {
    pub(super) fn new(limits: &[Limit]) -> Self {
        Self { accounts: limits.iter().map(|&limit| Account::new(limit)).collect(), latest: Duration::ZERO }
    }

    /// Asks every limit, and charges them only where all have room.
    pub(super) fn admit(&mut self, now: Duration) -> Verdict {
        self.latest = self.latest.max(now);
        let now = self.latest;
        let refusal =
            self.accounts.iter_mut().filter_map(|account| account.refuses(now)).max_by_key(|&(_, retry)| retry);
        if let Some((status, retry)) = refusal {
            return Verdict::Refused { status, retry };
        }
        let mut queued = None;
        let mut ready = now;
        for account in &mut self.accounts {
            let Some((start, service)) = account.charge(now) else { continue };
            queued = queued.max(Some(start.saturating_sub(now)));
            ready = ready.max(start.saturating_add(service));
        }
        Verdict::Admitted { ready, queued }
    }

    /// An admitted request's answer is on its way.
    pub(super) fn leave(&mut self) {
        for account in &mut self.accounts {
            account.running = account.running.saturating_sub(1);
        }
    }

    /// How the first limit that counts requests stands.
    pub(super) fn standing(&mut self, now: Duration) -> Option<Standing> {
        let now = self.latest.max(now);
        self.accounts.iter_mut().find_map(|account| account.standing(now))
    }
}

#[derive(Debug)]
struct Account {
    limit: Limit,
    /// Tokens left (token bucket), or requests in the current window (fixed window).
    count: u32,
    /// When `count` was last brought up to date (token bucket), or the current window's beginning (fixed window).
    since: Duration,
    /// Admitted requests still in the window (sliding window), or starts still ahead (slow queue).
    times: VecDeque<Duration>,
    /// When each worker is free (slow queue).
    free: Vec<Duration>,
    /// Admitted requests whose answer is not yet on its way.
    running: u32,
}

impl Account {
    fn new(limit: Limit) -> Self {
        let (count, workers) = match limit {
            Limit::TokenBucket { burst, .. } => (burst, 0),
            Limit::SlowQueue { workers, .. } => (0, workers.max(1)),
            _ => (0, 0),
        };
        let free = vec![Duration::ZERO; usize::try_from(workers).unwrap_or(usize::MAX)];
        Self { limit, count, since: Duration::ZERO, times: VecDeque::new(), free, running: 0 }
    }

    /// Brings the account up to `now`.
    fn advance(&mut self, now: Duration) {
        match self.limit {
            Limit::TokenBucket { every, burst } => {
                while self.count < burst && self.since + every <= now {
                    self.count += 1;
                    self.since += every;
                }
                if self.count == burst {
                    self.since = now;
                }
            }
            Limit::FixedWindow { per, .. } => {
                let begun = now.as_nanos() - now.as_nanos() % per.as_nanos().max(1);
                let begun = Duration::from_nanos(u64::try_from(begun).unwrap_or(u64::MAX));
                if begun > self.since {
                    (self.since, self.count) = (begun, 0);
                }
            }
            Limit::SlidingWindow { per, .. } => {
                while self.times.front().is_some_and(|&time| time + per <= now) {
                    self.times.pop_front();
                }
            }
            Limit::SlowQueue { .. } => {
                while self.times.front().is_some_and(|&start| start <= now) {
                    self.times.pop_front();
                }
            }
            Limit::Concurrency(_) => {}
        }
    }

    /// The refusing status and the time until there is room; `None` where there is.
    fn refuses(&mut self, now: Duration) -> Option<(u16, Duration)> {
        self.advance(now);
        let until = |then: Duration| then.saturating_sub(now);
        match self.limit {
            Limit::TokenBucket { every, .. } => (self.count == 0).then(|| (429, until(self.since + every))),
            Limit::FixedWindow { count, per } => (self.count >= count).then(|| (429, until(self.since + per))),
            Limit::SlidingWindow { count, per } => {
                let full = self.times.len() >= usize::try_from(count).unwrap_or(usize::MAX);
                full.then(|| (429, self.times.front().map_or(per, |&oldest| until(oldest + per))))
            }
            Limit::Concurrency(max) => (self.running >= max).then_some((429, UNKNOWN)),
            Limit::SlowQueue { depth, .. } => {
                let full = self.times.len() >= usize::try_from(depth).unwrap_or(usize::MAX);
                let busy = self.free.iter().all(|&free| free > now);
                (full && busy).then(|| (503, self.times.front().map_or(UNKNOWN, |&start| until(start))))
            }
        }
    }

    /// Takes what one request takes; where a worker serves it, says from when and how long.
    fn charge(&mut self, now: Duration) -> Option<(Duration, Duration)> {
        self.running += 1;
        match self.limit {
            Limit::TokenBucket { .. } => self.count -= 1,
            Limit::FixedWindow { .. } => self.count += 1,
            Limit::SlidingWindow { .. } => self.times.push_back(now),
            Limit::Concurrency(_) => {}
            Limit::SlowQueue { service, .. } => {
                if let Some(free) = self.free.iter_mut().min() {
                    let start = now.max(*free);
                    *free = start + service;
                    if start > now {
                        self.times.push_back(start);
                    }
                    return Some((start, service));
                }
            }
        }
        None
    }

    fn standing(&mut self, now: Duration) -> Option<Standing> {
        self.advance(now);
        let until = |then: Duration| then.saturating_sub(now);
        match self.limit {
            Limit::TokenBucket { every, burst } => Some(Standing {
                limit: burst,
                window: every.saturating_mul(burst),
                remaining: self.count,
                reset: until(self.since + every.saturating_mul(burst - self.count)),
            }),
            Limit::FixedWindow { count, per } => Some(Standing {
                limit: count,
                window: per,
                remaining: count.saturating_sub(self.count),
                reset: until(self.since + per),
            }),
            Limit::SlidingWindow { count, per } => Some(Standing {
                limit: count,
                window: per,
                remaining: count.saturating_sub(u32::try_from(self.times.len()).unwrap_or(u32::MAX)),
                reset: self.times.back().map_or(Duration::ZERO, |&newest| until(newest + per)),
            }),
            Limit::Concurrency(_) | Limit::SlowQueue { .. } => None,
        }
    }
}

/// What a host that cannot know says about when it will have room.
const UNKNOWN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn admitted(ledger: &mut Ledger, times: &[u64]) -> Vec<bool> {
        times.iter().map(|&time| matches!(ledger.admit(ms(time)), Verdict::Admitted { .. })).collect()
    }

    fn admitted_after(queued: u64, ready: u64) -> Verdict {
        Verdict::Admitted { ready: ms(ready), queued: Some(ms(queued)) }
    }

    #[test]
    fn a_token_bucket_lets_a_burst_through_and_then_one_a_refill() {
        let mut ledger = Ledger::new(&[Limit::TokenBucket { every: ms(100), burst: 2 }]);
        assert_eq!(
            admitted(&mut ledger, &[1000, 1000, 1000, 1099, 1100, 1101]),
            [true, true, false, false, true, false]
        );
        assert_eq!(ledger.admit(ms(1130)), Verdict::Refused { status: 429, retry: ms(70) });
        // However long it rests, it holds no more than its burst.
        assert_eq!(admitted(&mut ledger, &[9000, 9000, 9000]), [true, true, false]);
    }

    #[test]
    fn a_fixed_window_forgets_at_its_border() {
        let mut ledger = Ledger::new(&[Limit::FixedWindow { count: 2, per: ms(1000) }]);
        assert_eq!(admitted(&mut ledger, &[900, 950, 999, 1000, 1000, 1001]), [true, true, false, true, true, false]);
        assert_eq!(ledger.admit(ms(1600)), Verdict::Refused { status: 429, retry: ms(400) });
    }

    #[test]
    fn a_sliding_window_has_no_border() {
        let mut ledger = Ledger::new(&[Limit::SlidingWindow { count: 2, per: ms(1000) }]);
        assert_eq!(admitted(&mut ledger, &[900, 950, 1000, 1899, 1900, 1949]), [true, true, false, false, true, false]);
        assert_eq!(ledger.admit(ms(1949)), Verdict::Refused { status: 429, retry: ms(1) });
    }

    #[test]
    fn concurrency_counts_what_has_not_left() {
        let mut ledger = Ledger::new(&[Limit::Concurrency(2)]);
        assert_eq!(admitted(&mut ledger, &[1, 1, 1]), [true, true, false]);
        ledger.leave();
        assert_eq!(admitted(&mut ledger, &[1, 1]), [true, false]);
    }

    #[test]
    fn a_slow_queue_answers_in_turn_and_refuses_past_its_depth() {
        let mut ledger = Ledger::new(&[Limit::SlowQueue { workers: 1, service: ms(100), depth: 2 }]);
        assert_eq!(ledger.admit(ms(0)), admitted_after(0, 100));
        assert_eq!(ledger.admit(ms(10)), admitted_after(90, 200));
        assert_eq!(ledger.admit(ms(20)), admitted_after(180, 300));
        assert_eq!(ledger.admit(ms(30)), Verdict::Refused { status: 503, retry: ms(70) });
        assert_eq!(ledger.admit(ms(100)), admitted_after(200, 400));
    }

    #[test]
    fn two_workers_serve_two_at_once() {
        let mut ledger = Ledger::new(&[Limit::SlowQueue { workers: 2, service: ms(100), depth: 0 }]);
        assert_eq!(admitted(&mut ledger, &[0, 0, 50, 100]), [true, true, false, true]);
    }

    #[test]
    fn a_request_one_limit_refuses_costs_the_others_nothing() {
        let mut ledger = Ledger::new(&[
            Limit::FixedWindow { count: 2, per: ms(10_000) },
            Limit::TokenBucket { every: ms(100), burst: 1 },
        ]);
        assert_eq!(admitted(&mut ledger, &[0, 0, 0, 0, 100, 200]), [true, false, false, false, true, false]);
    }

    #[test]
    fn stamps_out_of_order_do_not_turn_time_back() {
        let mut ledger = Ledger::new(&[Limit::SlidingWindow { count: 1, per: ms(100) }]);
        assert_eq!(admitted(&mut ledger, &[200, 150, 299, 300]), [true, false, false, true]);
    }

    #[test]
    fn a_limit_can_tell_how_it_stands() {
        let mut ledger = Ledger::new(&[Limit::TokenBucket { every: ms(100), burst: 3 }]);
        ledger.admit(ms(1000));
        ledger.admit(ms(1000));
        let standing = Standing { limit: 3, window: ms(300), remaining: 1, reset: ms(200) };
        assert_eq!(ledger.standing(ms(1000)), Some(standing));
    }
}
