//! What is said on standard error while it runs and at the end.
//!
//! The rooms [`view`], [`summary`] and [`words`] are pure: facts in, text out. [`live`] and [`plain`] show it.

pub(crate) mod frame;
mod live;
pub(crate) mod log;
mod meter;
mod plain;
pub(crate) mod summary;
pub(crate) mod view;
pub(crate) mod words;

use std::io::{ErrorKind, Write};

use comity_fetch::keep::KeepError;
use comity_fetch::{FetchError, Status};
use jiff::ZonedDateTime;
use jiff::tz::TimeZone;

use crate::flags::screen::Show;
use live::Live;
use plain::Plain;

/// Shows how far a run is.
pub(crate) enum Screen {
    /// The live view.
    Live(Live),
    /// A line every few seconds.
    Plain(Plain),
    /// Nothing.
    Nothing,
}

impl Screen {
    /// The screen that was asked for.
    pub(crate) fn new(show: Show) -> Self {
        match show {
            Show::Live => Self::Live(Live::new(colours())),
            Show::Plain { every_secs } => Self::Plain(Plain::new(every_secs)),
            Show::Nothing => Self::Nothing,
        }
    }

    /// Shows where the run is now.
    pub(crate) fn status(&mut self, status: &Status) {
        match self {
            Self::Live(live) => live.show(status, &now()),
            Self::Plain(plain) => {
                if let Some(line) = plain.line(status, &now()) {
                    say(&line);
                }
            }
            Self::Nothing => {}
        }
    }

    /// Does something that writes to the terminal, with the live view out of the way.
    pub(crate) fn aside<R>(&mut self, write: impl FnOnce() -> R) -> R {
        match self {
            Self::Live(live) => live.aside(write),
            _ => write(),
        }
    }

    /// Takes the live view away.
    pub(crate) fn clear(&mut self) {
        if let Self::Live(live) = self {
            live.clear();
        }
    }
}

/// Says something on standard error; colours are stripped where they are not wanted. Nobody to listen is no error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Writes data to standard output.
///
/// # Errors
/// When standard output does not take it.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes data with colours to standard output; they are stripped where they are not wanted.
///
/// # Errors
/// When standard output does not take it.
pub(crate) fn print_coloured(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether somebody stopped reading our output, which is no news to them.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kept = match error.downcast_ref::<FetchError>() {
        Some(FetchError::Keep(error)) => Some(error),
        Some(FetchError::Cookies(_)) => None,
        None => error.downcast_ref::<KeepError>(),
    };
    let io = error.downcast_ref::<std::io::Error>();
    kept.is_some_and(KeepError::is_broken_pipe) || io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The wall clock's time where this machine is.
pub(crate) fn now() -> ZonedDateTime {
    let micros = comity::clock::wall().as_micros();
    jiff::Timestamp::from_microsecond(micros).unwrap_or_default().to_zoned_datetime(TimeZone::system())
}

/// Whether colours are wanted on standard error.
fn colours() -> bool {
    anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never
}
