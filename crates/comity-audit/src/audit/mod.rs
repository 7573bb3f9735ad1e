//! `comity audit`: a program judged by what a far end received of it.
//!
//! The program runs as N real processes at once, each told of hosts that exist only here. What arrives is recorded with
//! one monotonic clock and held against the promise. Nothing in the verdict asks the program, and every run has controls:
//! a perfect client beside each arm, and perfect clients that share nothing (behaviours X4 to X6).
//!
//! ```text
//! plan ─ stage (hosts, what a process is told) ─► worker (group) ─► far end ─► arm ─ law ─► report ─ table, JSON
//!                                      controls ─────────────────┘
//! ```

mod arm;
mod controls;
mod group;
pub mod law;
mod plan;
mod report;
mod stage;
mod table;
mod unit;
mod worker;

use std::io;
use std::sync::Arc;
use std::time::Duration;

pub use self::plan::{Plan, PlanError, Promise, Refusing};
pub use self::report::{Arm, Control, ControlKind, HostReport, ProcessReport, Report, Seen, Verdict};

use self::arm::Ground;
use self::law::Measure;
use self::stage::Memory;
use crate::far_end::FarEnd;
use crate::stop::Stop;

/// Is told what happens while an audit runs, from several threads.
pub type Watch = Arc<dyn Fn(Event<'_>) + Send + Sync>;

/// What happens while an audit runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The controls that share nothing begin.
    Controls,
    /// Where an arm is; told about a hundred times a second.
    Progress {
        /// The arm's processes.
        workers: u32,
        /// Those that have not ended.
        waiting: u32,
        /// Requests received.
        received: u64,
        /// Requests that were asked for.
        expected: u64,
        /// Time since it began.
        elapsed: Duration,
    },
    /// A process printed a line.
    Line {
        /// Which one.
        worker: u32,
        /// The line, without its end; of a very long one its beginning.
        line: &'a str,
    },
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The plan cannot be run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// There is no program to run.
    #[error("there is no program to run")]
    NoCommand,
    /// The program cannot be started.
    #[error("cannot start '{program}'")]
    Start {
        /// Its name.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The lists of URLs cannot be written.
    #[error("cannot write the lists of URLs")]
    Lists(#[source] io::Error),
    /// A control could not be run.
    #[error("a control could not be run: {0}")]
    Control(String),
    /// The far end, a thread or a wait failed.
    #[error("the audit cannot go on")]
    Io(#[from] io::Error),
    /// Somebody said stop.
    #[error("stopped")]
    Stopped,
}

/// Runs an audit: starts a far end on a free loopback port, the controls, and arm after arm. Blocks until done; when
/// `stop` is told, the processes are ended and so is the audit.
///
/// # Errors
/// A plan that cannot be run, a program that cannot be started, and what the machine refuses.
pub fn run(plan: &Plan, stop: &Stop, watch: &Watch) -> Result<Report, AuditError> {
    plan.check()?;
    let memory = Arc::new(Memory::default());
    let far_end = FarEnd::start(stage::world(plan, &memory))?;
    watch(Event::Controls);
    let unshared = controls::unshared(plan, &far_end, stop).map_err(|error| AuditError::Control(error.to_string()))?;
    let ground = Ground { plan, far_end: &far_end, memory: &memory, stop, watch };
    let mut arms = Vec::new();
    let mut controls = Vec::new();
    for &workers in &plan.arms {
        if stop.told() {
            return Err(AuditError::Stopped);
        }
        let (arm, control) = arm::run(&ground, workers)?;
        arms.push(arm);
        controls.push(control);
    }
    // By the most lenient law that any arm was judged by.
    let tolerance = arms.iter().map(|arm| arm.tolerance).max().unwrap_or_default();
    controls.insert(0, unshared_control(plan, plan.law(tolerance).judge(&unshared)));
    let (verdict, why) = conclude(&arms, &controls);
    Ok(Report {
        verdict,
        why,
        command: plan.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        promise: plan.promise,
        interval: plan.interval(),
        crawl_delay: plan.crawl_delay,
        refusing: plan.refusing,
        controls,
        arms,
    })
}

fn unshared_control(plan: &Plan, measure: Measure) -> Control {
    Control {
        kind: ControlKind::Unshared,
        clients: controls::clients(plan),
        beside: None,
        jitter: None,
        as_it_must: !measure.keeps(),
        measure,
    }
}

/// The whole run's verdict: void where a control came out wrong, whatever the arms look like; then a broken promise, then
/// an arm that says nothing.
fn conclude(arms: &[Arm], controls: &[Control]) -> (Verdict, Vec<String>) {
    let wrong: Vec<String> = controls.iter().filter(|control| !control.as_it_must).map(Control::complaint).collect();
    if !wrong.is_empty() {
        return (Verdict::Void, wrong);
    }
    for verdict in [Verdict::Fails, Verdict::Void] {
        let such: Vec<&Arm> = arms.iter().filter(|arm| arm.verdict == verdict).collect();
        if !such.is_empty() {
            let why =
                |arm: &&Arm| arm.why.iter().map(|why| format!("{} workers: {why}", arm.workers)).collect::<Vec<_>>();
            return (verdict, such.iter().flat_map(why).collect());
        }
    }
    (Verdict::Passes, Vec::new())
}

impl Control {
    /// What is wrong with it.
    fn complaint(&self) -> String {
        match self.kind {
            ControlKind::Unshared => {
                let clients = self.clients;
                format!("{clients} clients that share nothing did not fail: nothing could have, so nothing was shown")
            }
            ControlKind::Alone if self.measure.gaps == 0 => {
                "too little arrived of the perfect client: the far end or the machine was stuck".to_owned()
            }
            ControlKind::Alone => {
                let jitter = unit::words(self.jitter.unwrap_or_default());
                format!(
                    "the perfect client's requests arrived up to {jitter} early: this machine is too restless to tell"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn plan() -> Plan {
        Plan::new(vec!["true".into()], Promise::new(Duration::from_millis(100)))
    }

    fn control(kind: ControlKind, as_it_must: bool) -> Control {
        let measure = Measure { gaps: 3, ..Measure::default() };
        Control { kind, clients: 2, beside: None, jitter: None, as_it_must, measure }
    }

    fn arm(verdict: Verdict) -> Arm {
        Arm {
            workers: 2,
            requests_each: 6,
            took: Duration::ZERO,
            jitter: Duration::ZERO,
            tolerance: Duration::ZERO,
            verdict,
            why: if verdict == Verdict::Passes { Vec::new() } else { vec!["because".to_owned()] },
            notes: Vec::new(),
            hosts: Vec::new(),
            processes: Vec::new(),
            unattributed: 0,
        }
    }

    #[test]
    fn x5_a_run_whose_controls_come_out_otherwise_is_void_and_says_why() {
        let good = || [control(ControlKind::Alone, true), control(ControlKind::Unshared, true)];
        let arms = [arm(Verdict::Passes), arm(Verdict::Fails), arm(Verdict::Void)];
        assert_eq!(conclude(&arms[..1], &good()), (Verdict::Passes, vec![]));
        assert_eq!(conclude(&arms, &good()), (Verdict::Fails, vec!["2 workers: because".to_owned()]));
        assert_eq!(conclude(&arms[2..], &good()).0, Verdict::Void);
        for (kind, told) in [(ControlKind::Alone, "restless"), (ControlKind::Unshared, "did not fail")] {
            let (verdict, why) = conclude(&arms, &[control(kind, false)]);
            assert_eq!((verdict, why.len()), (Verdict::Void, 1));
            assert!(why[0].contains(told), "{why:?}");
        }
    }

    #[test]
    fn x5_clients_that_share_nothing_fail_and_where_they_would_not_the_run_is_void() {
        let mut plan = plan();
        let far_end = FarEnd::start(stage::world(&plan, &Arc::default())).unwrap();
        let times = controls::unshared(&plan, &far_end, &Stop::new()).unwrap();
        assert_eq!(times.len(), 20);
        let control = unshared_control(&plan, plan.law(Duration::from_millis(30)).judge(&times));
        assert!(control.as_it_must && control.measure.over_promised.is_some_and(|over| over > 1.5), "{control:?}");
        // A promise of anything at all: they keep it, which shows that nothing could break it.
        plan.promise.burst = 1000;
        assert!(!unshared_control(&plan, plan.law(Duration::ZERO).judge(&times)).as_it_must);
    }

    #[test]
    fn stopped_before_it_began_there_is_no_report() {
        let stop = Stop::new();
        stop.now();
        let watch: Watch = Arc::new(|_| {});
        assert!(matches!(run(&plan(), &stop, &watch), Err(AuditError::Stopped)));
    }
}
