//! Flags about what is said while it runs.

use clap::{ArgAction, Args, ValueEnum};

/// What is said.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct ScreenFlags {
    /// Say nothing but errors: no progress, no notices, no summary
    #[arg(short = 'q', long)]
    quiet: bool,

    /// Say more: -v what is decided and why, -vv everything
    #[arg(short = 'v', long, action = ArgAction::Count)]
    verbose: u8,

    /// How progress is shown on standard error
    ///
    /// auto is a live view on a terminal and elsewhere a line every 30 s; always is the live view with -v too, and
    /// elsewhere a line every 5 s; plain is a line every 5 s, never is nothing. NO_COLOR switches colours off.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    progress: Progress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Progress {
    #[default]
    Auto,
    Always,
    Never,
    Plain,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// The live view.
    Live,
    /// A line every few seconds.
    Plain {
        /// How many.
        every_secs: u64,
    },
    /// Nothing.
    Nothing,
}

impl ScreenFlags {
    /// How progress is shown; `terminal` says whether standard error is one.
    pub(crate) fn show(&self, terminal: bool) -> Show {
        match self.progress {
            _ if self.quiet => Show::Nothing,
            Progress::Never => Show::Nothing,
            Progress::Always if terminal => Show::Live,
            Progress::Always => Show::Plain { every_secs: 5 },
            Progress::Plain => Show::Plain { every_secs: 5 },
            // Log lines and a live view would overwrite each other.
            Progress::Auto if terminal && self.verbose > 0 => Show::Plain { every_secs: 5 },
            Progress::Auto if terminal => Show::Live,
            Progress::Auto => Show::Plain { every_secs: 30 },
        }
    }

    /// Whether only errors are said.
    pub(crate) fn quiet(&self) -> bool {
        self.quiet
    }

    /// How much is logged, from 0.
    pub(crate) fn verbose(&self) -> u8 {
        self.verbose
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    fn show(words: &[&str], terminal: bool) -> Show {
        parse::<ScreenFlags>(words).unwrap().show(terminal)
    }

    #[test]
    fn progress_is_live_on_a_terminal_and_plain_elsewhere() {
        assert_eq!(show(&[], true), Show::Live);
        assert_eq!(show(&[], false), Show::Plain { every_secs: 30 });
        assert_eq!(show(&["--progress", "plain"], true), Show::Plain { every_secs: 5 });
        assert_eq!(show(&["--progress", "always", "-v"], true), Show::Live);
        assert_eq!(show(&["--progress", "always"], false), Show::Plain { every_secs: 5 });
        assert_eq!(show(&["--progress", "never"], true), Show::Nothing);
        assert_eq!(show(&["--progress", "always", "-q"], true), Show::Nothing);
        assert_eq!(show(&["-v"], true), Show::Plain { every_secs: 5 });
    }

    #[test]
    fn verbosity_is_counted() {
        assert_eq!(parse::<ScreenFlags>(&["-vv"]).unwrap().verbose(), 2);
        assert!(parse::<ScreenFlags>(&["--quiet"]).unwrap().quiet());
        refused::<ScreenFlags>(&["--progress", "often"], &["--progress", "'often'", "auto"]);
    }
}
