//! An arm: so many processes of the judged program at once, until all have ended.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::controls;
use super::law::{Pause, during_pauses};
use super::plan::Plan;
use super::report::{Arm, Control, ControlKind, HostReport, ProcessReport, Seen, Verdict};
use super::stage::{self, ALONE, Memory, UNSHARED};
use super::table::against;
use super::unit::clean;
use super::worker::Worker;
use super::{AuditError, Event, Watch};
use crate::far_end::{Arrival, FarEnd, Unrecorded};
use crate::stop::Stop;

/// What every arm of a run uses.
pub(super) struct Ground<'a> {
    pub(super) plan: &'a Plan,
    pub(super) far_end: &'a FarEnd,
    pub(super) memory: &'a Memory,
    pub(super) stop: &'a Stop,
    pub(super) watch: &'a Watch,
}

/// Runs an arm with a control beside it.
pub(super) fn run(ground: &Ground<'_>, workers: u32) -> Result<(Arm, Control), AuditError> {
    let Ground { plan, far_end, memory, stop, .. } = *ground;
    far_end.clear();
    memory.clear();
    let before = far_end.unrecorded();
    let began = far_end.now();
    let over = Stop::new();
    let (processes, control) = std::thread::scope(|scope| {
        let control = scope.spawn(|| controls::alone(plan, far_end, &over, stop));
        let processes = crowd(ground, workers);
        over.now();
        (processes, control.join())
    });
    let (mut processes, took) = processes?;
    if stop.told() {
        return Err(AuditError::Stopped);
    }
    let control = control.map_err(|_| AuditError::Control("its thread panicked".into()))?;
    let control = control.map_err(|error| AuditError::Control(error.to_string()))?;

    let jitter = plan.law(Duration::ZERO).with_burst(1).judge(&control).ahead;
    let tolerance = plan.promise.tolerance + jitter;
    let measure = plan.law(tolerance).with_burst(1).judge(&control);
    let control = Control {
        kind: ControlKind::Alone,
        clients: 1,
        beside: Some(workers),
        jitter: Some(jitter),
        as_it_must: measure.keeps() && measure.gaps > 0 && controls::is_quiet(plan, jitter),
        measure,
    };

    let own = stage::hosts(workers, plan.hosts);
    let mut arrivals = far_end.arrivals();
    let arms: Vec<String> = plan.arms.iter().flat_map(|&workers| stage::hosts(workers, plan.hosts)).collect();
    arrivals.retain(|arrival| is_judged(&arrival.host, &own, &arms));
    for process in &mut processes {
        process.arrivals = arrivals.iter().filter(|a| stage::worker(a) == Some(process.worker)).count();
    }
    let hosts = host_reports(plan, tolerance, &own, &arrivals, began);
    let is_stray = |a: &&Arrival| !stage::is_robots(a) && stage::worker(a).is_none_or(|worker| worker >= workers);
    let unattributed = arrivals.iter().filter(is_stray).count();
    let mut arm = Arm {
        workers,
        requests_each: plan.requests,
        took,
        jitter,
        tolerance,
        verdict: Verdict::Passes,
        why: Vec::new(),
        notes: notes(&processes),
        hosts,
        processes,
        unattributed,
    };
    conclude(&mut arm, lost(before, far_end.unrecorded()));
    Ok((arm, control))
}

/// Starts the processes and waits for all of them; what they are to report but for their arrivals, and how long it took.
fn crowd(ground: &Ground<'_>, workers: u32) -> Result<(Vec<ProcessReport>, Duration), AuditError> {
    let Ground { plan, far_end, memory, stop, watch } = *ground;
    let directory = tempfile::Builder::new().prefix("comity-audit-").tempdir().map_err(AuditError::Lists)?;
    let mut settings = Vec::new();
    for worker in 0..workers {
        let path = directory.path().join(format!("urls-{worker}.txt"));
        fs::write(&path, stage::urls(plan, workers, worker, far_end.addr().port())).map_err(AuditError::Lists)?;
        settings.push(stage::settings(plan, workers, worker, far_end.addr(), &path));
    }
    let began = far_end.now();
    let mut running = Vec::new();
    for (worker, settings) in (0..workers).zip(&settings) {
        running.push(Worker::start(&plan.command, settings, plan.as_proxy, worker, watch)?);
    }

    let limit = plan.time_limit(workers);
    let expected = u64::from(workers) * u64::from(plan.requests);
    let mut timed_out = vec![false; running.len()];
    let mut asked = None;
    let unheard = Stop::new();
    loop {
        let mut waiting = 0;
        for worker in &mut running {
            waiting += u32::from(!worker.poll()?);
        }
        let elapsed = far_end.now().saturating_sub(began);
        watch(Event::Progress { workers, waiting, received: memory.received(), expected, elapsed });
        if waiting == 0 {
            break;
        }
        let stopped = stop.told();
        match asked {
            None if stopped || elapsed >= limit => {
                for (worker, timed_out) in running.iter_mut().zip(&mut timed_out) {
                    *timed_out = !stopped && !worker.poll()?;
                    worker.terminate();
                }
                asked = Some(elapsed);
            }
            Some(at) if elapsed >= at + GRACE => running.iter_mut().for_each(Worker::kill),
            _ => {}
        }
        // Once told, `stop` does not wait any more.
        (if stopped { &unheard } else { stop }).wait(LOOK);
    }
    let took = far_end.now().saturating_sub(began);
    let report = |((worker, process), timed_out): ((u32, &Worker), bool)| {
        let (exit_code, signal) = process.ended();
        ProcessReport { worker, arrivals: 0, exit_code, signal, timed_out, said: process.said() }
    };
    Ok(((0..workers).zip(&running).zip(timed_out).map(report).collect(), took))
}

/// Hosts of controls and of other arms are not this arm's affair; a name that nobody gave out is.
fn is_judged(host: &str, own: &[String], arms: &[String]) -> bool {
    let is_in = |names: &[String]| names.iter().any(|name| name == host);
    is_in(own) || !(is_in(arms) || host == ALONE || host == UNSHARED)
}

fn host_reports(
    plan: &Plan,
    tolerance: Duration,
    own: &[String],
    arrivals: &[Arrival],
    began: Duration,
) -> Vec<HostReport> {
    let mut hosts: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in arrivals {
        hosts.entry(&arrival.host).or_default().push(arrival);
    }
    // A host nobody came to is told of, unless all went another way.
    if hosts.keys().all(|&host| own.iter().any(|own| own == host)) {
        for host in own {
            hosts.entry(host).or_default();
        }
    }
    hosts.into_iter().map(|(host, arrivals)| host_report(plan, tolerance, host, &arrivals, began)).collect()
}

fn host_report(plan: &Plan, tolerance: Duration, host: &str, arrivals: &[&Arrival], began: Duration) -> HostReport {
    let is_refused = |arrival: &Arrival| {
        plan.refusing.is_some_and(|refusing| arrival.status == Some(refusing.status)) && !stage::is_robots(arrival)
    };
    let times: Vec<Duration> = arrivals.iter().map(|arrival| arrival.at).collect();
    let measure = plan.law(tolerance).judge(known(plan, arrivals, &times, tolerance));
    let span = plan.refusing.and_then(|refusing| refusing.retry_after);
    let pauses: Vec<Pause> = span.map_or_else(Vec::new, |span| {
        let answered = arrivals.iter().filter(|arrival| is_refused(arrival)).filter_map(|arrival| arrival.answered);
        answered.map(|from| Pause { from, until: from.saturating_add(span) }).collect()
    });
    let during_pauses = during_pauses(&times, &pauses, tolerance);
    let mut why = against(&measure, plan.promise.burst, during_pauses);
    let verdict = if !why.is_empty() {
        Verdict::Fails
    } else if measure.gaps == 0 {
        let host = clean(host, LONGEST_NAME);
        why.push(format!("{} arrived at {host}, too few to judge", arrivals.len()));
        Verdict::Void
    } else {
        Verdict::Passes
    };
    let seen = |arrival: &&Arrival| Seen {
        at: arrival.at.saturating_sub(began),
        worker: stage::worker(arrival),
        refused: is_refused(arrival),
    };
    HostReport {
        host: clean(host, LONGEST_NAME),
        verdict,
        why,
        measure,
        refused: arrivals.iter().filter(|arrival| is_refused(arrival)).count(),
        during_pauses,
        robots: arrivals.iter().filter(|arrival| stage::is_robots(arrival)).count(),
        seen: arrivals.iter().map(seen).collect(),
    }
}

/// The times from which a Crawl-delay could be known: the last one before the first robots.txt was answered, and all
/// after it. Without a Crawl-delay, and where nobody asked for it, all.
fn known<'a>(plan: &Plan, arrivals: &[&Arrival], times: &'a [Duration], tolerance: Duration) -> &'a [Duration] {
    if plan.crawl_delay.is_none() {
        return times;
    }
    let answers = arrivals.iter().filter(|arrival| stage::is_robots(arrival)).filter_map(|arrival| arrival.answered);
    let Some(answered) = answers.min() else { return times };
    let before = times.partition_point(|&time| time <= answered + tolerance);
    &times[before.saturating_sub(1)..]
}

fn notes(processes: &[ProcessReport]) -> Vec<String> {
    let mut troubles: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for process in processes {
        if let Some(trouble) = process.trouble() {
            troubles.entry(trouble).or_default().push(process.worker);
        }
    }
    let note = |(trouble, workers): (String, Vec<u32>)| format!("{} {}: {trouble}", who(&workers).0, who(&workers).1);
    troubles.into_iter().map(note).collect()
}

/// `worker 3`, `workers 0, 1, 2 and 9 more`.
fn who(workers: &[u32]) -> (&'static str, String) {
    let listed: Vec<String> = workers.iter().take(WORKERS_LISTED).map(u32::to_string).collect();
    let more = workers.len().saturating_sub(WORKERS_LISTED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (if workers.len() == 1 { "worker" } else { "workers" }, format!("{}{more}", listed.join(", ")))
}

/// What could not be recorded during the arm, in words.
fn lost(before: Unrecorded, after: Unrecorded) -> Option<String> {
    let turned_away = after.turned_away - before.turned_away;
    let (malformed, overflowed) = (after.malformed - before.malformed, after.overflowed - before.overflowed);
    let lost = [
        (turned_away, "connections were turned away because too many were open"),
        (malformed, "requests were no HTTP"),
        (overflowed, "arrivals found no room in the log"),
    ];
    lost.into_iter().find(|&(count, _)| count > 0).map(|(count, what)| format!("{count} {what}"))
}

/// The arm's verdict: a promise that was seen broken is broken; one that was not is kept only where enough was seen.
fn conclude(arm: &mut Arm, lost: Option<String>) {
    let failing: Vec<_> = arm.hosts.iter().filter(|host| host.verdict == Verdict::Fails).collect();
    if !failing.is_empty() {
        let why = |host: &&HostReport| host.why.iter().map(|why| format!("{}: {why}", host.host)).collect::<Vec<_>>();
        arm.why = failing.iter().flat_map(why).collect();
        arm.verdict = Verdict::Fails;
        return;
    }
    arm.why = arm.hosts.iter().flat_map(|host| host.why.clone()).collect();
    arm.why.extend(lost);
    let least = usize::try_from(arm.requests_each).unwrap_or(usize::MAX).min(2);
    if arm.unattributed == 0 {
        let few: Vec<u32> = arm.processes.iter().filter(|p| p.arrivals < least).map(|p| p.worker).collect();
        if !few.is_empty() {
            let (noun, list) = who(&few);
            arm.why.push(format!("too little arrived of {noun} {list} to judge {} together", arm.workers));
        }
    } else {
        let all: usize = arm.hosts.iter().map(|host| host.seen.len()).sum();
        if all < least * arm.processes.len() {
            arm.why.push(format!("{all} arrived, too few to judge {} workers", arm.workers));
        }
    }
    if !arm.why.is_empty() {
        arm.verdict = Verdict::Void;
    }
}

/// How often it is looked whether processes have ended.
const LOOK: Duration = Duration::from_millis(10);

/// What processes get to end by themselves.
const GRACE: Duration = Duration::from_millis(500);

/// Characters of a host's name that are shown: no real one is longer.
const LONGEST_NAME: usize = 253;

/// Workers named in a sentence.
const WORKERS_LISTED: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::plan::{Promise, Refusing};

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn plan() -> Plan {
        Plan::new(vec!["true".into()], Promise::new(ms(500)))
    }

    fn arrival(path: &str, at: u64, status: u16) -> Arrival {
        Arrival {
            host: "audit-2.example".into(),
            path: path.into(),
            at: ms(at),
            answered: Some(ms(at + 1)),
            status: Some(status),
            ..Arrival::default()
        }
    }

    fn report(plan: &Plan, arrivals: &[Arrival]) -> HostReport {
        host_report(plan, ms(5), "audit-2.example", &arrivals.iter().collect::<Vec<_>>(), ms(0))
    }

    fn arm(arrivals: &[(u32, u64)]) -> Arm {
        let sent: Vec<_> = arrivals.iter().map(|&(worker, at)| arrival(&format!("/w{worker}/1"), at, 200)).collect();
        let process = |worker| ProcessReport {
            worker,
            arrivals: arrivals.iter().filter(|(by, _)| *by == worker).count(),
            exit_code: Some(i32::from(worker == 1)),
            signal: None,
            timed_out: false,
            said: None,
        };
        let processes: Vec<_> = (0..2).map(process).collect();
        Arm {
            workers: 2,
            requests_each: 6,
            took: ms(1),
            jitter: ms(0),
            tolerance: ms(5),
            verdict: Verdict::Passes,
            why: Vec::new(),
            notes: notes(&processes),
            hosts: vec![report(&plan(), &sent)],
            processes,
            unattributed: 0,
        }
    }

    fn concluded(arrivals: &[(u32, u64)], lost: Option<&str>) -> Arm {
        let mut arm = arm(arrivals);
        conclude(&mut arm, lost.map(str::to_owned));
        arm
    }

    #[test]
    fn an_arm_passes_only_where_every_worker_was_seen() {
        let kept = concluded(&[(0, 0), (1, 500), (0, 1000), (1, 1500)], None);
        assert_eq!((kept.verdict, kept.why.len()), (Verdict::Passes, 0));
        assert_eq!(kept.notes, ["worker 1: exit code 1"]);
        let one_absent = concluded(&[(0, 0), (0, 500), (0, 1000)], None);
        assert_eq!(one_absent.verdict, Verdict::Void);
        assert!(one_absent.why[0].contains("worker 1"), "{:?}", one_absent.why);
        assert_eq!(concluded(&[], None).verdict, Verdict::Void);
        let lost = concluded(&[(0, 0), (1, 500), (0, 1000), (1, 1500)], Some("3 requests were no HTTP"));
        assert_eq!((lost.verdict, lost.why.len()), (Verdict::Void, 1));
    }

    #[test]
    fn an_arm_that_broke_the_promise_fails_however_little_was_seen() {
        let broken = concluded(&[(0, 0), (0, 300)], Some("3 requests were no HTTP"));
        assert_eq!(broken.verdict, Verdict::Fails);
        assert!(broken.why[0].contains("1 of 1 gaps are under 495.0 ms"), "{:?}", broken.why);
    }

    #[test]
    fn a_refused_pause_that_is_not_kept_is_seen() {
        let mut plan = plan();
        plan.refusing = Some(Refusing { status: 429, first: 1, every: 0, retry_after: Some(Duration::from_secs(2)) });
        let hasty = report(&plan, &[arrival("/w0/1", 0, 429), arrival("/w1/1", 500, 200), arrival("/w0/1", 2000, 200)]);
        assert_eq!((hasty.refused, hasty.during_pauses, hasty.verdict), (1, 1, Verdict::Fails));
        let patient = report(&plan, &[arrival("/w0/1", 0, 429), arrival("/w0/1", 2001, 200)]);
        assert_eq!((patient.during_pauses, patient.verdict), (0, Verdict::Passes));
    }

    #[test]
    fn x7_a_crawl_delay_holds_from_when_it_could_be_known() {
        let mut plan = plan();
        plan.crawl_delay = Some(Duration::from_secs(2));
        let crawl = |times: &[u64]| {
            let path = |n: usize| if n == 1 { "/robots.txt" } else { "/w0/1" };
            let arrivals: Vec<_> = times.iter().enumerate().map(|(n, &at)| arrival(path(n), at, 200)).collect();
            report(&plan, &arrivals)
        };
        let kept = crawl(&[0, 100, 2100, 4100]);
        assert_eq!((kept.verdict, kept.measure.arrivals, kept.robots), (Verdict::Passes, 3, 1));
        assert_eq!(crawl(&[0, 100, 600, 4100]).verdict, Verdict::Fails);
        // Nobody asked: then the promise is broken by the first short gap.
        let unasked = report(&plan, &[arrival("/w0/1", 0, 200), arrival("/w0/2", 500, 200)]);
        assert_eq!(unasked.verdict, Verdict::Fails);
    }

    #[test]
    fn only_hosts_of_the_arm_are_judged_and_names_nobody_gave_out() {
        let (own, arms) = (stage::hosts(2, 1), [stage::hosts(2, 1), stage::hosts(4, 1)].concat());
        let hosts = ["audit-2.example", "127.0.0.1", "audit-9.example", "audit-4.example", ALONE, UNSHARED];
        assert_eq!(hosts.map(|host| is_judged(host, &own, &arms)), [true, true, true, false, false, false]);
    }
}
