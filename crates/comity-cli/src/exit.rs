//! How the command ends: the exit codes, in one place.

use std::process::ExitCode;

/// A cause to end with; the worst of a run's causes is its exit code. Declared from the least to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Every URL was fetched.
    Done,
    /// Some are disallowed by robots.txt.
    Robots,
    /// Some were not asked for, by our own decision.
    Skipped,
    /// Some lines of the list are no URLs.
    Malformed,
    /// Some were refused, or not checked: limited, no robots.txt to be had, or the run ended first.
    Limited,
    /// Some links are broken.
    Broken,
    /// Some were never answered.
    Failed,
    /// `--stop-when-limited` ended the run.
    Stopped,
    /// What was audited does not keep its promise.
    Fails,
    /// An audit shows nothing.
    Void,
    /// Another error.
    Error,
    /// A person stopped it.
    Interrupted,
    /// The command line was wrong: nothing was done, so nothing competes with it.
    Usage,
}

impl Exit {
    /// All that a fetch can end with, by code.
    pub(crate) const ALL: [Self; 11] = [
        Self::Done,
        Self::Error,
        Self::Usage,
        Self::Failed,
        Self::Broken,
        Self::Limited,
        Self::Stopped,
        Self::Malformed,
        Self::Skipped,
        Self::Robots,
        Self::Interrupted,
    ];

    /// What an audit can end with, by code.
    pub(crate) const AUDIT: [Self; 5] = [Self::Done, Self::Fails, Self::Usage, Self::Void, Self::Interrupted];

    /// The code.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Failed => 3,
            Self::Broken => 4,
            Self::Limited => 5,
            Self::Stopped => 6,
            Self::Malformed => 7,
            Self::Skipped => 8,
            Self::Robots => 9,
            // As of grep and diff: a script asks for 0 or 1, and anything else is no answer.
            Self::Fails => 1,
            Self::Void => 10,
            Self::Interrupted => 130,
        }
    }

    /// What it means.
    pub(crate) const fn meaning(self) -> &'static str {
        match self {
            Self::Done => {
                "every URL was fetched: an answer is an answer, whatever its status; 304 and what an earlier run fetched count"
            }
            Self::Error => {
                "another error: an output that cannot be written, an unreadable file, a shared store that does not answer"
            }
            Self::Usage => "the command line or the configuration is wrong; nothing was sent",
            Self::Failed => {
                "some URLs have no usable answer: no connection, a time-out, a broken body, a 304 that nobody asked for"
            }
            Self::Broken => "with --head: some links are broken (answered with a status of 400 or more)",
            Self::Limited => {
                "some URLs were refused, or not checked: limited, robots.txt could not be read, or the run ended first"
            }
            Self::Stopped => "--stop-when-limited ended the run; --resume goes on with it",
            Self::Malformed => "some lines of the list are no URLs; all others were fetched",
            Self::Skipped => "some URLs were skipped: too many errors in a row, a Crawl-delay over the limit",
            Self::Robots => "some URLs were disallowed by robots.txt",
            Self::Fails => "fails: what arrived breaks the promise",
            Self::Void => {
                "void: nothing can be said, because a control came out wrong, too little arrived, or the audit could not be carried out"
            }
            Self::Interrupted => {
                "interrupted (Ctrl-C, SIGTERM, a closed terminal); what is done is whole, --resume goes on with it"
            }
        }
    }

    /// What it means of an audit.
    pub(crate) const fn meaning_of_audit(self) -> &'static str {
        match self {
            Self::Done => "passes: what arrived keeps the promise, and the controls came out as they must",
            Self::Usage => "the command line is wrong; nothing was run",
            Self::Interrupted => "interrupted (Ctrl-C, SIGTERM, a closed terminal); the processes were ended",
            other => other.meaning(),
        }
    }

    /// The table of an audit for `--help`.
    pub(crate) fn audit_table() -> String {
        let mut text = String::from("Exit codes:\n");
        for exit in Self::AUDIT {
            text.push_str(&format!("  {:>3}  {}\n", exit.code(), exit.meaning_of_audit()));
        }
        text
    }

    /// The table for `--help`, the worst cause first where several hold.
    pub(crate) fn table() -> String {
        let mut text = String::from("Exit codes (where several causes hold, the worst: ");
        let mut causes = Self::ALL.to_vec();
        causes.retain(|exit| !matches!(exit, Self::Done | Self::Usage));
        causes.sort();
        let order: Vec<String> = causes.iter().rev().map(|exit| exit.code().to_string()).collect();
        text.push_str(&order.join(", "));
        text.push_str("):\n");
        for exit in Self::ALL {
            text.push_str(&format!("  {:>3}  {}\n", exit.code(), exit.meaning()));
        }
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A command line or configuration that cannot be obeyed; says which part, its value and what is allowed.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_code_of_its_own() {
        let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert!(codes.is_sorted(), "the table is in the order of its codes");
        codes.dedup();
        assert_eq!(codes.len(), Exit::ALL.len());
        assert_eq!((Exit::Done.code(), Exit::Usage.code(), Exit::Interrupted.code()), (0, 2, 130));
    }

    #[test]
    fn an_audit_answers_with_0_and_1_and_all_else_is_no_answer() {
        let codes = Exit::AUDIT.map(Exit::code);
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        assert_eq!((Exit::Done.code(), Exit::Fails.code()), (0, 1));
        assert!(Exit::audit_table().contains("   10  void"), "{}", Exit::audit_table());
    }

    #[test]
    fn h01_h10_the_worst_cause_wins() {
        let worst = |causes: &[Exit]| causes.iter().copied().max().unwrap();
        assert_eq!(worst(&[Exit::Limited, Exit::Broken, Exit::Robots]), Exit::Broken);
        assert_eq!(worst(&[Exit::Malformed, Exit::Limited]), Exit::Limited);
        assert_eq!(worst(&[Exit::Stopped, Exit::Failed]), Exit::Stopped);
        assert_eq!(worst(&[Exit::Interrupted, Exit::Error]), Exit::Interrupted);
        assert!(Exit::table().contains("130, 1, 6, 3, 4, 5, 7, 8, 9"), "{}", Exit::table());
    }
}
