//! What a run's exit code is, and what might help.

use comity_fetch::Stop;
use comity_fetch::keep::Counts;

use super::watch::Seen;
use crate::exit::Exit;
use crate::screen::words::count;

/// The worst of the causes.
pub(crate) fn verdict(totals: &Counts, stopped: Option<Stop>, seen: &Seen, malformed: u64) -> Exit {
    let causes = [
        (totals.robots > 0, Exit::Robots),
        (totals.skipped > 0, Exit::Skipped),
        (malformed > 0, Exit::Malformed),
        (totals.refused > 0 || totals.not_checked > 0, Exit::Limited),
        (seen.broken > 0, Exit::Broken),
        (totals.failed > 0, Exit::Failed),
        (stopped == Some(Stop::Limited), Exit::Stopped),
        (seen.output_closed, Exit::Error),
        // Where nobody reads the output, it is we who stopped the run.
        (stopped == Some(Stop::Interrupted) && !seen.output_closed, Exit::Interrupted),
    ];
    causes.into_iter().filter_map(|(holds, exit)| holds.then_some(exit)).max().unwrap_or(Exit::Done)
}

/// What might help; `remembers` says whether a next run could go on with this one.
pub(crate) fn hints(totals: &Counts, seen: &Seen, retries: Option<u32>, remembers: bool) -> Vec<String> {
    let mut hints = Vec::new();
    if seen.too_many > 0 && retries == Some(0) {
        hints.push(format!(
            "{} ended with a 429 because --retries is 0; with --retries 5 it is asked for again when the host's pause \
             is over",
            count(seen.too_many.into(), "request")
        ));
    }
    if let Some(shared) = &seen.shared
        && shared.losses > 0
    {
        hints.push(format!(
            "the shared pace at {} was out of reach {}, and {} started without it",
            shared.place,
            count(shared.losses.into(), "time"),
            count(shared.degraded, "request")
        ));
    }
    if remembers && totals.not_checked + totals.refused > 0 {
        hints.push("the same command with --resume goes on with what is left".to_owned());
    }
    hints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(totals: Counts, stopped: Option<Stop>, broken: u32, malformed: u64) -> Exit {
        verdict(&totals, stopped, &Seen { broken, ..Seen::default() }, malformed)
    }

    #[test]
    fn everything_fetched_is_zero() {
        let all = Counts { fetched: 10, unchanged: 5, retried: 3, ..Counts::default() };
        assert_eq!(code(all, None, 0, 0), Exit::Done);
        assert_eq!(code(Counts::default(), None, 0, 0), Exit::Done);
    }

    #[test]
    fn h01_h10_each_cause_has_its_code() {
        let none = Counts::default;
        assert_eq!(code(Counts { robots: 1, ..none() }, None, 0, 0), Exit::Robots);
        assert_eq!(code(Counts { skipped: 1, ..none() }, None, 0, 0), Exit::Skipped);
        assert_eq!(code(none(), None, 0, 1), Exit::Malformed);
        assert_eq!(code(Counts { refused: 1, ..none() }, None, 0, 0), Exit::Limited);
        assert_eq!(code(Counts { not_checked: 1, ..none() }, None, 0, 0), Exit::Limited);
        assert_eq!(code(none(), None, 20, 0), Exit::Broken);
        assert_eq!(code(Counts { failed: 1, ..none() }, None, 20, 0), Exit::Failed);
        assert_eq!(code(Counts { not_checked: 9, ..none() }, Some(Stop::Limited), 20, 0), Exit::Stopped);
    }

    #[test]
    fn h08_an_interrupted_run_ends_with_130() {
        let rest = Counts { not_checked: 9, failed: 1, ..Counts::default() };
        assert_eq!(code(rest, Some(Stop::Interrupted), 1, 1), Exit::Interrupted);
        let unread = Seen { output_closed: true, ..Seen::default() };
        assert_eq!(verdict(&rest, Some(Stop::Interrupted), &unread, 0), Exit::Error);
    }

    #[test]
    fn h04_a_429_without_retries_hints_at_the_setting() {
        let seen = Seen { too_many: 1, ..Seen::default() };
        let refused = Counts { refused: 1, ..Counts::default() };
        let hints_of = |retries| hints(&refused, &seen, retries, false);
        assert!(hints_of(Some(0))[0].contains("--retries"));
        assert!(hints_of(None).is_empty() && hints_of(Some(3)).is_empty());
        assert!(hints(&refused, &seen, None, true)[0].contains("--resume"));
    }
}
