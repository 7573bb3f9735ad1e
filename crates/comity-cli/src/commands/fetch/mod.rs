//! `comity fetch`: a list of URLs, politely.

pub(super) mod assemble;
pub(super) mod interrupt;
pub(super) mod reasons;
pub(super) mod verdict;
pub(super) mod watch;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use comity_fetch::keep::{Kept, Timestamp};
use comity_fetch::{End, Fetch, FetchError};
use tokio::sync::Notify;

use crate::exit::Exit;
use crate::flags::connection::ConnectionFlags;
use crate::flags::input::InputFlags;
use crate::flags::output::OutputFlags;
use crate::flags::pace::PaceFlags;
use crate::flags::request::RequestFlags;
use crate::flags::run::RunFlags;
use crate::flags::screen::ScreenFlags;
use crate::flags::shared::SharedFlags;
use crate::screen::words::count;
use crate::screen::{Screen, log, say, summary};
use watch::Watch;

/// Fetch a list of URLs politely
///
/// Each host is asked at the pace it accepts, robots.txt first; a refused request is asked again in its turn. Standard
/// output is data, standard error is words.
#[derive(Debug, Args)]
#[command(after_help = crate::exit::Exit::table())]
pub(crate) struct FetchCommand {
    #[command(flatten)]
    input: InputFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    shared: SharedFlags,
    #[command(flatten)]
    run: RunFlags,
    #[command(flatten)]
    request: RequestFlags,
    #[command(flatten)]
    connection: ConnectionFlags,
    #[command(flatten)]
    screen: ScreenFlags,
}

impl FetchCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        let quiet = self.screen.quiet();
        log::start(self.screen.verbose(), std::io::stderr().is_terminal());
        let sources = self.input.sources(std::io::stdin().is_terminal())?;
        let pace = self.pace.pace(std::env::var_os("COMITY_CONFIG"))?;
        let client = assemble::client(&self.connection)?;
        let requests = assemble::requests(self.request.options())?;
        let now = Timestamp::from_millis(comity::clock::wall().as_micros() / 1000);
        let keep = self.output.options(self.request.head, requests.user_agent(), now)?;
        let options = self.run.options(&pace, requests.product_token(), self.output.if_newer);

        self.output.check_report()?;
        let pacer = self.shared.pacer(pace.shared.as_deref(), &pace.builder)?;

        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
        // Heard from here on: a list that never ends, or never begins, can be interrupted too.
        let mut interrupted = {
            let _entered = runtime.enter();
            Box::pin(interrupt::interrupted()?)
        };
        let urls = self.input.urls.clone();
        let reading = runtime
            .spawn_blocking(move || assemble::list(&urls, &sources, &mut |error| say(&format!("comity: {error}"))));
        let read = runtime.block_on(async {
            tokio::select! {
                biased;
                () = &mut interrupted => None,
                read = reading => Some(read),
            }
        });
        let Some(read) = read else {
            runtime.shutdown_background();
            if !quiet {
                say("comity: interrupted while the list was being read; nothing was sent");
            }
            return Ok(Exit::Interrupted);
        };
        let (list, malformed) = read.context("cannot read the list")??;
        let listed = u64::from(list.len());
        let kept = assemble::kept(&keep)?;
        if !quiet {
            pace.warnings.iter().for_each(|warning| say(&format!("comity: {warning}")));
            if self.request.leaves_contact_out() {
                say(CONTACT_LEFT_OUT);
            } else if requests.names_no_contact() {
                say(NO_CONTACT);
            }
        }

        let closed = Arc::new(Notify::new());
        let screen = Screen::new(self.screen.show(std::io::stderr().is_terminal()));
        let mut watch = Watch::new(screen, quiet, self.output.prints_lines(), self.request.head, Arc::clone(&closed));
        let stop = async move {
            tokio::select! {
                () = interrupted => {}
                () = closed.notified() => {}
            }
        };
        let fetch = Fetch { pacer, client, requests, kept: kept.clone(), list, options };
        let ended = runtime.block_on(fetch.run(&mut watch, stop));
        // What is left of connections and look-ups must not hold up who pressed Ctrl-C.
        runtime.shutdown_timeout(SHUTDOWN);
        watch.clear();
        self.end(ended, &kept, &watch, listed, malformed)
    }

    fn end(
        &self,
        ended: Result<End, FetchError>,
        kept: &Kept,
        watch: &Watch,
        listed: u64,
        malformed: u64,
    ) -> Result<Exit> {
        let closed = kept.close();
        if !self.screen.quiet() {
            log::warnings().iter().for_each(|warning| say(&format!("comity: {warning}")));
        }
        let seen = watch.seen();
        let (report, stopped, error) = match ended {
            Ok(end) => (end.report, end.stopped, None),
            Err(error) => (seen.report(listed), None, Some(error)),
        };
        if !self.screen.quiet() {
            let beside = summary::Beside {
                stopped,
                broken_off: error.is_some(),
                earlier: listed.saturating_sub(summary::all(&report.totals)),
                output_closed: seen.output_closed,
                malformed,
                robots_unread: seen.robots_unread,
                broken: seen.broken,
                reasons: seen.reasons.lines(),
                hints: verdict::hints(&report.totals, seen, self.run.retries, self.output.remembers()),
            };
            say(&summary::summary(&report, &beside));
        }
        if let Some(error) = error {
            return Err(error.into());
        }
        if let Some(path) = &self.output.report {
            report.write(path)?;
        }
        let closed = closed?;
        if closed.unreadable_lines > 0 && !self.screen.quiet() {
            let lines = count(closed.unreadable_lines, "line");
            say(&format!("comity: {lines} of earlier runs could not be read and stand there as before"));
        }
        Ok(verdict::verdict(&report.totals, stopped, seen, malformed))
    }
}

/// H18: who runs this can be found, or is told that nobody finds them.
const NO_CONTACT: &str = "comity: no contact is named in the User-Agent: operators like to know whom to write to \
                          (--contact https://example.org/about-my-bot)";

/// A User-Agent of one's own is sent as it is (T13).
const CONTACT_LEFT_OUT: &str =
    "comity: --contact is not sent, because --user-agent is the whole User-Agent: name the contact in it";

/// Time for what still runs when all is said and done.
const SHUTDOWN: Duration = Duration::from_millis(200);
