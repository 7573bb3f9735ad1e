//! `comity hosts`: the pace as the store knows it that is shared, live.

pub(crate) mod details;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod pick;
#[cfg(test)]
pub(crate) mod schema;
pub(crate) mod seen;
mod table;
mod view;
mod watch;

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comity_store::{Listing, Readable, StoreError};

use crate::exit::{Exit, Usage};
use crate::flags::look::LookFlags;
use crate::flags::shared::wrong;
use crate::flags::values;
use crate::screen::words::clean;
use crate::screen::{now, print, print_coloured, say};
use pick::Asked;
use seen::Clocks;
use view::{Room, View};
use watch::Frames;

/// Show the pace of every host that is shared, who uses it, and what holds it back
///
/// The scopes that matter now (busy, paused, waited for, started within ten minutes, refused), the most recently active
/// first, and the processes that share them. Nothing is sent to any host.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct HostsCommand {
    /// A host, a URL or a scope (*.example.org): all that is known of it and of the groups it is in
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// Show it again and again until Ctrl-C, in place on a terminal [default: every 1s]
    #[arg(
        long,
        value_name = "EVERY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1s",
        value_parser = every
    )]
    watch: Option<Duration>,

    /// Every scope, idle ones too, and as many as there are
    #[arg(long)]
    all: bool,

    /// Print JSON (schema/hosts.schema.json); with --watch an object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    look: LookFlags,
}

/// What was read, and when on both clocks.
pub(super) type Reading = (Listing, Clocks);

impl HostsCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        if let (Some(host), Some(_)) = (&self.host, self.watch)
            && every(host).is_ok()
        {
            return Err(Usage(format!("'{host}' is no host; how often is said as --watch={host}")).into());
        }
        let asked = self.host.as_deref().map(Asked::parse).transpose()?;
        let mut store = self.look.look()?;
        let view = View { asked, all: self.all };
        match self.watch {
            Some(every) => {
                let frames = Frames::new(view, self.json, std::io::stdout().is_terminal());
                watch::watch(store.as_mut(), frames, every)
            }
            None => once(store.as_mut(), &view, self.json),
        }
    }
}

/// Reads the store, and the wall clock right after it.
pub(super) fn read(store: &mut dyn Readable) -> Result<Reading, StoreError> {
    let listing = store.list()?;
    let clocks = Clocks::new(listing.now, now());
    Ok((listing, clocks))
}

/// Shows a store once.
fn once(store: &mut dyn Readable, view: &View, json: bool) -> Result<Exit> {
    let (listing, clocks) = read(store).map_err(wrong)?;
    let (unknown, exit) = verdict(view, &listing);
    if let Some(unknown) = unknown {
        say(&format!("comity: {unknown}"));
    }
    if json {
        print(&format!("{}\n", view.json(&listing, &clocks, false)?))?;
    } else if exit == Exit::Done && !(listing.scopes.is_empty() && listing.members.is_empty()) {
        let columns = if std::io::stdout().is_terminal() { size().0 } else { usize::MAX };
        let lines = view.lines(&listing, &clocks, Room { columns, rows: None });
        print_coloured(&format!("{}\n", lines.join("\n")))?;
    }
    Ok(exit)
}

/// What is to be said beside what is shown, and how the command ends.
fn verdict(view: &View, listing: &Listing) -> (Option<String>, Exit) {
    match &view.asked {
        Some(asked) => {
            let found = asked.find(listing);
            let exit = if found.scopes.is_empty() { Exit::Error } else { Exit::Done };
            ((exit == Exit::Error).then(|| view::unknown(asked, listing)), exit)
        }
        None if listing.scopes.is_empty() => {
            (Some(format!("no host is known yet in {}", clean(&listing.place))), Exit::Done)
        }
        None => (None, Exit::Done),
    }
}

/// Columns and rows of the terminal on standard output.
fn size() -> (usize, usize) {
    match terminal_size::terminal_size_of(std::io::stdout()) {
        Some((columns, rows)) if columns.0 > 0 && rows.0 > 0 => (columns.0.into(), rows.0.into()),
        _ => (80, 24),
    }
}

fn every(text: &str) -> Result<Duration, String> {
    match values::span(text)? {
        every if every < LEAST_EVERY => Err("allowed are times from 100ms on".to_owned()),
        every => Ok(every),
    }
}

const EXIT_CODES: &str = "Exit codes:
    0  shown
    1  nothing is known of HOST, or the shared store does not answer
    2  the command line or the configuration is wrong
  130  --watch was ended by Ctrl-C";

/// A reading costs the store something: nobody reads faster.
const LEAST_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::shared::{Place, PlaceFlags};
    use crate::flags::testing::{parse, refused};
    use fake::{Fake, known, listing};

    fn view(host: &str) -> View {
        View { asked: Some(Asked::parse(host).unwrap()), all: false }
    }

    #[test]
    fn a_host_of_which_nothing_is_known_is_named_and_ends_with_an_error() {
        let known = listing(vec![known("a.example")]);
        let (said, exit) = verdict(&view("B.example"), &known);
        assert_eq!((said.as_deref(), exit), (Some("nothing is known of b.example in a store"), Exit::Error));
        assert_eq!(verdict(&view("a.example"), &known), (None, Exit::Done));
    }

    #[test]
    fn a_store_that_knows_nothing_says_so_and_is_no_error() {
        let (said, exit) = verdict(&View::default(), &listing(Vec::new()));
        assert_eq!((said.as_deref(), exit), (Some("no host is known yet in a store"), Exit::Done));
    }

    #[test]
    fn before_the_first_run_nothing_is_known_and_that_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deeper").join("pace");
        let mut store = PlaceFlags::look(&Place::File(path.clone())).unwrap();
        let (listing, clocks) = read(store.as_mut()).unwrap();
        let (said, exit) = verdict(&View::default(), &listing);
        assert_eq!((said, exit), (Some(format!("no host is known yet in {}", path.display())), Exit::Done));
        let written: serde_json::Value =
            serde_json::from_str(&View::default().json(&listing, &clocks, false).unwrap()).unwrap();
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../../../schema/hosts.schema.json")).unwrap();
        schema::check(&schema, &schema, &written, "$");
        assert_eq!(written["scopes"].as_array().map(Vec::len), Some(0));
    }

    #[test]
    fn a_store_that_is_gone_is_an_error() {
        let mut store = Fake { listing: listing(Vec::new()), gone: true };
        let error = once(&mut store, &View::default(), false).unwrap_err();
        assert_eq!(error.to_string(), "the shared store does not answer: gone");
    }

    #[test]
    fn watch_takes_a_time_behind_an_equals_sign_so_that_a_host_is_none() {
        let watch = |words: &[&str]| {
            let command: HostsCommand = parse(words).unwrap();
            (command.watch, command.host)
        };
        assert_eq!(watch(&[]), (None, None));
        assert_eq!(watch(&["--watch", "a.example"]), (Some(Duration::from_secs(1)), Some("a.example".to_owned())));
        assert_eq!(watch(&["--watch=500ms"]), (Some(Duration::from_millis(500)), None));
        refused::<HostsCommand>(&["--watch=0"], &["--watch", "'0'", "100ms"]);
        refused::<HostsCommand>(&["--watch=often"], &["--watch", "'often'", "allowed"]);
    }
}
