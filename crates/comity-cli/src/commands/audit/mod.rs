//! `comity audit`: a program, or a server's log, judged by what arrived.

mod log;
mod picture;
mod progress;

use std::io::IsTerminal as _;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use clap::Args;
use comity_audit::Stop;
use comity_audit::audit::{self, AuditError, Plan, Report, Verdict, Watch};

use super::fetch::interrupt;
use crate::exit::{Exit, Usage};
use crate::flags::audit::{FarEndFlags, FoundFlags, ProcessFlags, PromiseFlags, plan};
use crate::screen::{is_broken_pipe, print, say};
use progress::Progress;

/// Judge a program by what a server received of it
///
/// The program, in whatever language, is run as several processes at once. A far end on this machine plays the hosts they
/// visit and records every arrival; two controls of its own tell whether the run can be believed. Nothing leaves this
/// machine, unless the program sends it elsewhere. With --log, a server's own access log is judged instead.
#[derive(Debug, Args)]
#[command(after_help = crate::exit::Exit::audit_table())]
pub(crate) struct AuditCommand {
    #[command(flatten)]
    promise: PromiseFlags,
    #[command(flatten)]
    processes: ProcessFlags,
    #[command(flatten)]
    far_end: FarEndFlags,
    #[command(flatten)]
    found: FoundFlags,
}

impl AuditCommand {
    /// An audit that could not be carried out is void: only a promise that was seen broken is a failure.
    pub(crate) fn run(self) -> Result<Exit> {
        match self.judge() {
            Err(error) if !error.is::<Usage>() => {
                if !is_broken_pipe(&error) {
                    say(&format!("comity: {error:#}"));
                }
                Ok(Exit::Void)
            }
            result => result,
        }
    }

    fn judge(&self) -> Result<Exit> {
        if !self.found.log.is_empty() {
            return log::judge(&self.found.log, &self.promise.promise(None)?, self.found.json);
        }
        let plan = plan(&self.promise, &self.processes, &self.far_end)?;
        let drawing = self.found.check_picture()?;
        let Some(report) = self.audit(plan)? else { return Ok(Exit::Interrupted) };
        if self.found.json {
            print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            print(&report.to_string())?;
        }
        if let Some((path, kind)) = drawing {
            picture::write(&report, path, kind)?;
        }
        Ok(match report.verdict {
            Verdict::Passes => Exit::Done,
            Verdict::Fails => Exit::Fails,
            Verdict::Void => Exit::Void,
        })
    }

    /// Runs it; `None` where it was interrupted.
    fn audit(&self, plan: Plan) -> Result<Option<Report>> {
        let stop = Arc::new(Stop::new());
        let progress = Progress::new(self.found.show(std::io::stderr().is_terminal()), self.found.show_output);
        let progress = Arc::new(Mutex::new(progress));
        let watch: Watch = {
            let progress = Arc::clone(&progress);
            Arc::new(move |event| progress.lock().unwrap_or_else(PoisonError::into_inner).note(event))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        let ended = runtime.block_on(async {
            let interrupted = interrupt::interrupted()?;
            let mut running = {
                let stop = Arc::clone(&stop);
                tokio::task::spawn_blocking(move || audit::run(&plan, &stop, &watch))
            };
            tokio::select! {
                biased;
                ended = &mut running => return Ok(ended?),
                () = interrupted => stop.now(),
            }
            anyhow::Ok(running.await?)
        })?;
        progress.lock().unwrap_or_else(PoisonError::into_inner).clear();
        match ended {
            Ok(report) => Ok(Some(report)),
            Err(AuditError::Stopped) => {
                if !self.found.quiet {
                    say("comity: interrupted; the processes were ended and nothing was judged");
                }
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
