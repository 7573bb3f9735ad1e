//! The log of `-v`, on standard error; without it, what stores warn of.

use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::now;
use super::words::clean;

/// What stores warned of and nobody has been told yet.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Starts the log. A second start is passed over. Without `-v` only what stores warn of is kept, for [`warnings`].
pub(crate) fn start(verbose: u8, colours: bool) {
    if verbose == 0 {
        let kept = tracing_subscriber::fmt::layer()
            .with_writer(|| Kept)
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .with_target(false);
        let of_stores = STORES.map(|target| (target, LevelFilter::WARN));
        let _ = tracing_subscriber::registry().with(Targets::new().with_targets(of_stores)).with(kept).try_init();
        return;
    }
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(verbose > 1)
        .with_timer(TimeOfDay)
        .fmt_fields(debug_fn(move |to, field, value| write_field(to, verbose, field, value)));
    let _ = tracing_subscriber::registry().with(targets(verbose)).with(layer).try_init();
}

/// Takes what stores warned of since it was last taken.
pub(crate) fn warnings() -> Vec<String> {
    std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Keeps each line that is written to it.
struct Kept;

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MOST_WARNINGS {
            warnings.push(String::from_utf8_lossy(bytes).trim().to_owned());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Our own rooms speak first; what is below them only at `-vv`.
fn targets(verbose: u8) -> Targets {
    let (ours, others) = match verbose {
        0 => (LevelFilter::OFF, LevelFilter::OFF),
        1 => (LevelFilter::DEBUG, LevelFilter::WARN),
        _ => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    Targets::new().with_default(others).with_target("comity", ours)
}

/// A field as ` name=value`, the message bare. What a program would want to see of a value is for `-vv`.
fn write_field(to: &mut Writer<'_>, verbose: u8, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let Some(text) = field_text(verbose, &format!("{value:?}")) else { return Ok(()) };
    if field.name() == "message" { write!(to, "{text}") } else { write!(to, " {}={text}", field.name()) }
}

/// A value as it is shown; at `-v` nothing of one that says nothing or that only a program reads.
fn field_text(verbose: u8, value: &str) -> Option<String> {
    let text = clean(value);
    if verbose > 1 {
        return Some(text);
    }
    let shown = text.strip_prefix("Some(").and_then(|inner| inner.strip_suffix(')')).unwrap_or(&text);
    let is_structure = shown.contains(" { ");
    (shown != "None" && !is_structure).then(|| shown.to_owned())
}

/// `13:48:05`, where this machine is.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        write!(to, "{}", now().strftime("%H:%M:%S"))
    }
}

/// The rooms whose warnings everybody is told.
const STORES: [&str; 3] = ["comity_store", "comity_machine", "comity_redis"];
/// Warnings kept until somebody takes them.
const MOST_WARNINGS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn ours_speak_before_others() {
        assert!(targets(1).would_enable("comity_fetch::run", &Level::DEBUG));
        assert!(!targets(1).would_enable("hyper", &Level::INFO));
        assert!(targets(2).would_enable("hyper", &Level::DEBUG));
        assert!(!targets(0).would_enable("comity", &Level::ERROR));
    }

    #[test]
    fn values_are_for_people_at_v_and_whole_at_vv() {
        let shown = |value: &str| field_text(1, value);
        assert_eq!(shown("a.example").as_deref(), Some("a.example"));
        assert_eq!(shown("Some(2s)").as_deref(), Some("2s"));
        assert_eq!(shown("None"), None);
        assert_eq!(shown("Authoritative { refusal: Some(Refusal { wait: 2s }), quota: None }"), None);
        assert_eq!(field_text(2, "None").as_deref(), Some("None"));
        assert_eq!(shown("x\x1b[2J").as_deref(), Some("x [2J"));
    }
}
