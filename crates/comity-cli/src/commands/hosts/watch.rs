//! The same again and again: in place on a terminal, below one another elsewhere.

use std::time::Duration;

use anyhow::{Context as _, Result};
use comity_store::{Readable, StoreError};

use super::super::fetch::interrupt;
use super::view::{Room, View};
use super::{Reading, read, size};
use crate::exit::Exit;
use crate::flags::shared::wrong;
use crate::screen::frame::Frame;
use crate::screen::words::{clean, middle};
use crate::screen::{print, say};

/// Shows a store until a person stops it.
///
/// # Errors
/// When the store is out of reach at first, or standard output does not take it. A store that is lost later is waited for.
pub(super) fn watch(store: &mut dyn Readable, mut frames: Frames, every: Duration) -> Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let mut interrupted = {
        let _entered = runtime.enter();
        Box::pin(interrupt::interrupted()?)
    };
    let mut reading = Ok(read(store).map_err(wrong)?);
    loop {
        let shown = frames.next(&reading, size())?;
        print(&shown.out)?;
        if let Some(said) = shown.said {
            say(&said);
        }
        // A store may have a runtime of its own: it is read outside of this one.
        let stopped = runtime.block_on(async {
            tokio::select! {
                biased;
                () = &mut interrupted => true,
                () = tokio::time::sleep(every) => false,
            }
        });
        if stopped {
            print(frames.end())?;
            return Ok(Exit::Interrupted);
        }
        reading = read(store);
    }
}

/// Readings in, what to write out.
#[derive(Debug)]
pub(super) struct Frames {
    view: View,
    form: Form,
    /// Why the store is out of reach, if it was at the last reading.
    lost: Option<String>,
    began: bool,
}

/// How readings follow one another.
#[derive(Debug)]
enum Form {
    /// Drawn over again.
    InPlace { frame: Frame, colours: bool },
    /// A block each, with an empty line between them.
    Blocks,
    /// A JSON object a line.
    Json,
}

/// What to write.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    /// To standard output.
    out: String,
    /// To standard error.
    said: Option<String>,
}

impl Frames {
    /// For standard output, which is a terminal or is none.
    pub(super) fn new(view: View, json: bool, terminal: bool) -> Self {
        let form = match (json, terminal) {
            (true, _) => Form::Json,
            (false, true) => Form::InPlace { frame: Frame::default(), colours: colours() },
            (false, false) => Form::Blocks,
        };
        Self { view, form, lost: None, began: false }
    }

    /// What to write for the next reading, on a terminal of so many columns and rows.
    fn next(&mut self, reading: &Result<Reading, StoreError>, (columns, rows): (usize, usize)) -> Result<Shown> {
        let room = match self.form {
            // A line as wide as the terminal would wrap, and the last row is the cursor's.
            Form::InPlace { .. } => {
                Room { columns: columns.saturating_sub(1), rows: Some(rows.saturating_sub(1).max(1)) }
            }
            _ => Room { columns: usize::MAX, rows: None },
        };
        let (listing, clocks) = match reading {
            Ok(reading) => reading,
            Err(error) => return Ok(self.lost(error, room)),
        };
        let said = self.lost.take().map(|_| "comity: the shared store answers again".to_owned());
        let began = std::mem::replace(&mut self.began, true);
        Ok(match &mut self.form {
            Form::Json => Shown { out: format!("{}\n", self.view.json(listing, clocks, true)?), said },
            Form::Blocks => {
                let lines = self.view.lines(listing, clocks, room).join("\n");
                let lines = anstream::adapter::strip_str(&lines).to_string();
                Shown { out: format!("{}{lines}\n", if began { "\n" } else { "" }), said }
            }
            Form::InPlace { frame, colours } => {
                let mut lines = self.view.lines(listing, clocks, room);
                if !*colours {
                    lines.iter_mut().for_each(|line| *line = anstream::adapter::strip_str(line).to_string());
                }
                Shown { out: frame.draw(lines, columns), said: None }
            }
        })
    }

    /// The store is out of reach: a person is told once, and what stood there is old.
    fn lost(&mut self, error: &StoreError, room: Room) -> Shown {
        let text = clean(&format!("{:#}; trying again", wrong(error.clone())));
        match &mut self.form {
            Form::InPlace { frame, .. } => {
                Shown { out: frame.draw(vec![middle(&text, room.columns)], room.columns + 1), said: None }
            }
            _ if self.lost.as_ref() == Some(&text) => Shown::default(),
            _ => {
                self.lost = Some(text.clone());
                Shown { out: String::new(), said: Some(format!("comity: {text}")) }
            }
        }
    }

    /// What to write at the end: the shell's prompt comes below.
    fn end(&self) -> &'static str {
        match self.form {
            Form::InPlace { .. } => "\n",
            _ => "",
        }
    }
}

/// Whether colours are wanted on standard output.
fn colours() -> bool {
    anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{Fake, busy, clocks, known, listing};

    const SIZE: (usize, usize) = (80, 24);

    fn reading(names: &[&str]) -> Result<Reading, StoreError> {
        Ok((listing(names.iter().map(|name| known(name)).collect()), clocks()))
    }

    fn gone() -> Result<Reading, StoreError> {
        Err(StoreError::OutOfReach("gone".to_owned()))
    }

    fn frames(form: Form) -> Frames {
        Frames { view: View::default(), form, lost: None, began: false }
    }

    #[test]
    fn on_a_terminal_each_reading_is_drawn_over_the_last() {
        let mut frames = frames(Form::InPlace { frame: Frame::default(), colours: false });
        let first = frames.next(&reading(&["a.example"]), SIZE).unwrap().out;
        assert!(first.starts_with("a store at ") && !first.contains('\x1b') && !first.ends_with('\n'), "{first:?}");
        assert_eq!(
            frames.next(&reading(&["a.example"]), SIZE).unwrap(),
            Shown::default(),
            "nothing new, nothing drawn"
        );
        let rows = first.matches("\r\n").count();
        let second = frames.next(&reading(&["a.example", "b.example"]), SIZE).unwrap().out;
        assert!(second.starts_with(&format!("\r\x1b[{rows}A\x1b[J")), "{second:?}");
        let lost = frames.next(&gone(), SIZE).unwrap();
        assert!(lost.out.ends_with("the shared store does not answer: gone; trying again"), "{lost:?}");
        assert!(frames.next(&reading(&["a.example"]), SIZE).unwrap().out.contains("a.example"));
        assert_eq!(frames.end(), "\n");
    }

    #[test]
    fn colours_are_left_out_where_nobody_wants_them() {
        let out = |colours| {
            let mut frames = frames(Form::InPlace { frame: Frame::default(), colours });
            frames.next(&reading(&["a.example"]), SIZE).unwrap().out
        };
        assert!(out(true).contains("\x1b[1m") && !out(false).contains('\x1b'));
    }

    #[test]
    fn elsewhere_a_block_follows_a_block() {
        let mut frames = frames(Form::Blocks);
        let first = frames.next(&reading(&["a.example"]), (10, 2)).unwrap().out;
        assert!(first.starts_with("a store at 2026-11-30 13:48:00 UTC\nscope "), "{first:?}");
        assert!(!first.contains('\x1b') && first.ends_with('\n'), "{first:?}");
        assert_eq!(frames.next(&reading(&["a.example"]), (10, 2)).unwrap().out, format!("\n{first}"));
        assert_eq!(frames.end(), "");
    }

    #[test]
    fn json_is_an_object_a_line() {
        let mut frames = frames(Form::Json);
        for _ in 0..2 {
            let out = frames.next(&reading(&["a.example"]), SIZE).unwrap().out;
            assert_eq!(out.matches('\n').count(), 1);
            let written: serde_json::Value = serde_json::from_str(&out).unwrap();
            assert_eq!(written["scopes"][0]["name"], "a.example");
        }
    }

    #[test]
    fn a_store_that_is_lost_and_found_is_told_of_once_each() {
        let mut frames = frames(Form::Json);
        assert_eq!(frames.next(&reading(&[]), SIZE).unwrap().said, None);
        let said = frames.next(&gone(), SIZE).unwrap();
        assert_eq!(said.said.as_deref(), Some("comity: the shared store does not answer: gone; trying again"));
        assert_eq!(said.out, "");
        assert_eq!(frames.next(&gone(), SIZE).unwrap(), Shown::default());
        let found = frames.next(&reading(&[]), SIZE).unwrap();
        assert_eq!(found.said.as_deref(), Some("comity: the shared store answers again"));
        assert_eq!(frames.next(&reading(&[]), SIZE).unwrap().said, None);
    }

    #[test]
    fn a_store_that_is_gone_at_first_ends_it() {
        let mut store = Fake { listing: listing(vec![busy("a.example")]), gone: true };
        let error = watch(&mut store, frames(Form::Blocks), Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "the shared store does not answer: gone");
    }
}
