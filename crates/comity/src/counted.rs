//! What is counted through the `metrics` facade, where that feature is on; the names stand in the crate's documentation.
//!
//! No label names a host: their number has no bound. What is known of one host is in [`HostState`](crate::HostState).

#![cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "nothing is counted without the feature"))]

use std::time::Duration;

use comity_core::schedule::GiveUp;
use comity_core::signal::{NoAnswer, Signal};

/// A request started.
pub(crate) fn started(waited: Duration) {
    #[cfg(feature = "metrics")]
    {
        metrics::counter!("comity_starts_total").increment(1);
        metrics::histogram!("comity_wait_seconds").record(waited.as_secs_f64());
    }
}

/// An attempt ended.
pub(crate) fn settled(signal: &Signal) {
    #[cfg(feature = "metrics")]
    {
        if let Some(refusal) = &signal.authoritative.refusal {
            let advice = if refusal.wait.is_some() { "given" } else { "none" };
            metrics::counter!("comity_refusals_total", "advice" => advice).increment(1);
            if let Some(wait) = refusal.wait {
                metrics::histogram!("comity_refusal_wait_seconds").record(wait.as_secs_f64());
            }
        }
        if let comity_core::signal::Inferred::NoAnswer(why) = signal.inferred {
            metrics::counter!("comity_no_answers_total", "why" => no_answer(why)).increment(1);
        }
    }
}

/// A refused request goes back into its queue.
pub(crate) fn retried() {
    #[cfg(feature = "metrics")]
    metrics::counter!("comity_retries_total").increment(1);
}

/// A refused request ends with its refusal.
pub(crate) fn gave_up(why: GiveUp) {
    #[cfg(feature = "metrics")]
    metrics::counter!("comity_give_ups_total", "why" => give_up(why)).increment(1);
}

/// The limit above all hosts was put on, or cut (A10).
pub(crate) fn yielded() {
    #[cfg(feature = "metrics")]
    metrics::counter!("comity_uplink_yields_total").increment(1);
}

/// A start was given up because it would have been used too late.
pub(crate) fn too_late() {
    #[cfg(feature = "metrics")]
    metrics::counter!("comity_late_starts_total").increment(1);
}

/// A request waited as long as its caller wanted to.
pub(crate) fn queue_timed_out() {
    #[cfg(feature = "metrics")]
    metrics::counter!("comity_queue_timeouts_total").increment(1);
}

#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nothing is counted without the feature"))]
fn no_answer(why: NoAnswer) -> &'static str {
    match why {
        NoAnswer::Resolve => "resolve",
        NoAnswer::Connect => "connect",
        NoAnswer::TimedOut => "timed_out",
        NoAnswer::Reset => "reset",
        NoAnswer::Uplink => "uplink",
    }
}

#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nothing is counted without the feature"))]
fn give_up(why: GiveUp) -> &'static str {
    match why {
        GiveUp::AskedTooLong(_) => "asked_too_long",
        GiveUp::NoRetriesLeft => "no_retries_left",
        GiveUp::NotReplayable => "not_replayable",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_name_counted_is_documented_and_no_other() {
        let names = |text: &str, before: &str| -> std::collections::BTreeSet<String> {
            let name = |rest: &str| rest.split(|c: char| c != '_' && !c.is_ascii_lowercase()).next().map(str::to_owned);
            text.split(before)
                .skip(1)
                .filter_map(name)
                .filter(|rest| !rest.is_empty())
                .map(|rest| format!("comity_{rest}"))
                .collect()
        };
        let counted = names(include_str!("counted.rs"), "!(\"comity_");
        let documented = names(include_str!("lib.rs"), "//! | `comity_");
        assert_eq!(counted, documented);
        assert!(counted.len() > 5);
    }
}
