//! A tool let loose on an arm, and stopped when its time is over.

use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::arm::Arm;
use super::far_end::FarEnd;
use super::seen::{Seen, Span};
use super::tool::{Tool, Visit, last_words};

/// The programs that were built for this.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) comity: PathBuf,
    pub(super) far_end: PathBuf,
}

/// How the runs are to be.
#[derive(Clone, Debug, Default)]
pub(super) struct Manner {
    /// The policy comity is told.
    pub(super) policy: Option<String>,
    /// How long after a window's border a run begins.
    pub(super) phase: Duration,
    /// Whether what remembers runs a second time.
    pub(super) again: bool,
}

/// One tool at one arm: a first run, and a second one with what the first one left, once the hosts have rested.
pub(super) fn run(
    arm: &Arm,
    tool: &Tool,
    programs: &Programs,
    manner: &Manner,
    folder: &Path,
) -> anyhow::Result<Vec<Seen>> {
    let mut far_end = FarEnd::start(&programs.far_end, &arm.hosts)?;
    let visit = Visit { arm, port: far_end.port, folder, comity: &programs.comity, policy: manner.policy.as_deref() };
    let mut seen = vec![one(&mut far_end, tool, &visit, manner.phase, false)?];
    if manner.again && tool.remembers {
        rest(arm.recovery());
        seen.push(one(&mut far_end, tool, &visit, manner.phase, true)?);
    }
    Ok(seen)
}

fn one(far_end: &mut FarEnd, tool: &Tool, visit: &Visit<'_>, phase: Duration, again: bool) -> anyhow::Result<Seen> {
    let arm = visit.arm;
    let mut command = tool.command(visit)?;
    let now = far_end.now()?;
    let from = arm.window().map_or(now, |per| border(now, per) + phase);
    rest(from.saturating_sub(now));
    // What came from the far end's clock to the start of the process is the tool's time, too: some microseconds.
    let mut child = Running(command.spawn().with_context(|| format!("cannot start {}", tool.name))?);
    let until = from + arm.at_most;
    let ended = wait(&mut child.0, far_end, until)?;
    let over = far_end.now()?.min(until);
    if ended.is_none() {
        end(&mut child.0, far_end)?;
    }
    let log = far_end.report()?;
    ensure!(log.unrecorded == 0, "{} at {}: {} arrivals were not recorded", tool.name, arm.name, log.unrecorded);
    let exit = ended.and_then(|status| status.code());
    let seen = Seen::of(arm, tool.name, again, Span { from, until, over }, exit, &log.arrivals);
    let words = || format!("{} got nothing at {}; it said:\n{}", tool.name, arm.name, last_words(visit.folder));
    ensure!(seen.got() > 0, words());
    Ok(seen)
}

/// A tool that does not outlive its run, whatever becomes of that.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The border to begin at: one that was only just passed, or else the next.
fn border(now: Duration, per: Duration) -> Duration {
    let passed = now.as_nanos() % per.as_nanos();
    let passed = Duration::from_nanos(u64::try_from(passed).unwrap_or_default());
    if passed <= JUST_PASSED { now - passed } else { now - passed + per }
}

/// How the process ended; `None` where it had not by `until`.
fn wait(child: &mut Child, far_end: &mut FarEnd, until: Duration) -> anyhow::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = until.saturating_sub(far_end.now()?);
        if left.is_zero() {
            return Ok(None);
        }
        rest(LOOK.min(left));
    }
}

/// Asks the process to end, so that it can keep what it learned, and ends it where it does not.
fn end(child: &mut Child, far_end: &mut FarEnd) -> anyhow::Result<()> {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM);
    let until = far_end.now()? + GRACE;
    if wait(child, far_end, until)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "other programs are at work; there is nothing to do but wait")]
fn rest(span: Duration) {
    std::thread::sleep(span);
}

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// How long a process may take to end when asked.
const GRACE: Duration = Duration::from_secs(10);

/// A run that begins so little after a border is counted from it.
const JUST_PASSED: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_at_the_border_it_just_passed_or_at_the_next() {
        let (per, ms) = (Duration::from_secs(60), Duration::from_millis);
        assert_eq!(border(ms(5), per), ms(0));
        assert_eq!(border(ms(60_050), per), ms(60_000));
        assert_eq!(border(ms(60_051), per), ms(120_000));
    }
}
