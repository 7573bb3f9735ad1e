//! The auditor's own clients, which tell whether a run can be believed (behaviour X5): a perfect one beside each arm,
//! which must pass, and perfect ones that share nothing, which must fail.

use std::io;
use std::time::Duration;

use super::plan::Plan;
use super::stage::{ALONE, UNSHARED};
use crate::clock::Clock;
use crate::control::control_while;
use crate::far_end::FarEnd;
use crate::stop::Stop;

/// Sends at the exact interval until the arm is over, and at least a few times; when what it sent arrived.
pub(super) fn alone(plan: &Plan, far_end: &FarEnd, over: &Stop, stop: &Stop) -> io::Result<Vec<Duration>> {
    let (interval, least) = (plan.interval(), least_requests(plan.interval()));
    let control = control_while(far_end, ALONE, |clock, sent| {
        let enough = || stop.told() || sent.len() >= MOST_REQUESTS || (sent.len() >= least && over.told());
        let Some(&last) = sent.last() else { return !stop.told() };
        let due = last.saturating_add(interval);
        while clock.now().saturating_add(SLICE) < due {
            if enough() {
                return false;
            }
            stop.wait(SLICE / 2);
        }
        clock.wait_until(due);
        !enough()
    })?;
    Ok(control.times)
}

/// Several clients, each at the exact interval and none knowing of the others; when what they sent arrived.
pub(super) fn unshared(plan: &Plan, far_end: &FarEnd, stop: &Stop) -> io::Result<Vec<Duration>> {
    let clients = clients(plan);
    // Past the burst, and a few more.
    let beyond = plan.promise.burst.div_ceil(clients - 1) + 2;
    let least = least_requests(plan.interval()).max(usize::try_from(beyond).unwrap_or(usize::MAX));
    let one = || {
        let mut next = |clock: &Clock, sent: &[Duration]| {
            if stop.told() || sent.len() >= least {
                return false;
            }
            let Some(&last) = sent.last() else { return true };
            let due = last.saturating_add(plan.interval());
            // It sleeps and does not spin: a little late is nothing against so many.
            while clock.now() < due {
                if stop.wait(due.saturating_sub(clock.now())) {
                    return false;
                }
            }
            true
        };
        control_while(far_end, UNSHARED, &mut next)
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(one)).collect();
        let mut times = Vec::new();
        for client in running {
            times.extend(client.join().unwrap_or_else(|_| Err(io::Error::other("a control's thread panicked")))?.times);
        }
        times.sort_unstable();
        Ok(times)
    })
}

/// How many clients share nothing: as many as the largest arm has workers, within reason.
pub(super) fn clients(plan: &Plan) -> u32 {
    let most = plan.arms.iter().max().copied().unwrap_or_default();
    most.min(FEW_CLIENTS).max(plan.promise.burst).clamp(2, MOST_CLIENTS)
}

/// Whether the control that went alone shows a machine quiet enough: its arrivals ran ahead of its pace by no more than
/// the tolerance or a quarter of the interval.
pub(super) fn is_quiet(plan: &Plan, jitter: Duration) -> bool {
    jitter <= plan.promise.tolerance.max(plan.interval() / 4)
}

/// Requests that tell enough: a second's worth, 4 to 20.
fn least_requests(interval: Duration) -> usize {
    let second = SECOND.as_nanos() / interval.as_nanos().max(1);
    usize::try_from(second).unwrap_or(usize::MAX).clamp(4, 20)
}

const SECOND: Duration = Duration::from_secs(1);

/// Clients that share nothing, unless a burst asks for more.
const FEW_CLIENTS: u32 = 8;
const MOST_CLIENTS: u32 = 32;

/// Requests of the control beside an arm: enough to know the machine, and room in the log for the arm.
const MOST_REQUESTS: usize = 10_000;

/// How often a control that waits looks whether it still has to.
const SLICE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::plan::Promise;

    fn plan(millis: u64, workers: u32, burst: u32) -> Plan {
        let promise = Promise { burst, ..Promise::new(Duration::from_millis(millis)) };
        Plan { arms: vec![1, workers], ..Plan::new(vec!["true".into()], promise) }
    }

    #[test]
    fn x5_controls_take_about_a_second_and_are_at_least_two() {
        let least = |millis| least_requests(Duration::from_millis(millis));
        assert_eq!([least(10), least(100), least(500), least(10_000)], [20, 10, 4, 4]);
        assert_eq!([clients(&plan(1, 1, 1)), clients(&plan(1, 6, 1)), clients(&plan(1, 256, 1))], [2, 6, 8]);
        assert_eq!([clients(&plan(1, 6, 20)), clients(&plan(1, 6, 1000))], [20, 32]);
    }

    #[test]
    fn x5_a_machine_too_restless_to_tell_is_not_quiet() {
        let quiet = |millis| is_quiet(&plan(100, 2, 1), Duration::from_millis(millis));
        assert_eq!([quiet(0), quiet(25), quiet(26)], [true, true, false]);
    }
}
