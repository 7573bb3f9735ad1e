//! All that is known of one scope, a line a fact.

use super::seen::{Clocks, IntervalFrom, Seen, Trial, seconds};
use super::table::why;
use crate::screen::words::{self, clean, span};

/// The facts: what, and how it stands.
pub(crate) fn facts(seen: &Seen, clocks: &Clocks) -> Vec<(&'static str, String)> {
    let facts = [
        ("interval", interval(seen)),
        ("learned", learned(seen, clocks)),
        ("latency", bimodal(seen)),
        ("Crawl-delay", declared(seen).map(|delay| format!("{}, from its robots.txt", text(delay)))),
        ("last start", seen.last_start.map(|last| format!("{} ago", span(last.ago())))),
        ("next start", next_start(seen)),
        ("in flight", in_flight(seen)),
        ("pause", pause(seen, clocks)),
        ("restart", seen.trial.map(trial)),
        ("quota", quota(seen)),
        ("made slower", lowered(seen)),
        ("refused", refused(seen)),
        ("no answer", times(seen.no_answers)),
        ("server errors", times(seen.server_errors)),
        ("gave up", times(seen.give_ups).map(|times| format!("{times}, asked to wait longer than the limit"))),
        ("waiting", (!seen.waiting.is_empty()).then(|| waiting(&seen.waiting))),
    ];
    facts.into_iter().filter_map(|(what, text)| Some((what, text?))).collect()
}

/// A scope's name and its facts.
pub(super) fn lines(seen: &Seen, clocks: &Clocks) -> Vec<String> {
    let facts = facts(seen, clocks).into_iter().map(|(what, text)| format!("  {what:14} {text}"));
    std::iter::once(format!("{BOLD}{}{PLAIN}", clean(&seen.name))).chain(facts).collect()
}

fn interval(seen: &Seen) -> Option<String> {
    let from = match seen.interval_from {
        IntervalFrom::Set => "set",
        IntervalFrom::Learned => "learned",
        IntervalFrom::CrawlDelay => "Crawl-delay",
    };
    (seen.interval_secs > 0.0).then(|| format!("{} ({from})", text(seen.interval_secs)))
}

/// What was learned: the interval, where it is not said already, and from what.
fn learned(seen: &Seen, clocks: &Clocks) -> Option<String> {
    let interval = seen.learned_interval_secs.filter(|learned| *learned != seen.interval_secs);
    let interval = interval.map(|learned| format!("interval {}", text(learned)));
    let words = seen.learned.as_ref().map(|learned| learned.on_the_clock(clocks));
    match (interval, words) {
        (Some(interval), Some(words)) => Some(format!("{interval}: {words}")),
        (interval, words) => words.or(interval),
    }
}

fn bimodal(seen: &Seen) -> Option<String> {
    let bimodal = seen.learned.as_ref().is_some_and(|learned| learned.bimodal);
    bimodal.then(|| "the host answers in two ways: from a cache, and from what lies behind it".to_owned())
}

/// What was declared, likewise.
fn declared(seen: &Seen) -> Option<f64> {
    seen.crawl_delay_secs.filter(|_| seen.interval_from != IntervalFrom::CrawlDelay)
}

fn next_start(seen: &Seen) -> Option<String> {
    match seen.next_start.map(|next| next.ahead()) {
        None => Some("when an answer comes".to_owned()),
        Some(Some(ahead)) => Some(format!("in {}", span(ahead))),
        Some(None) => Some("now, where a place is free".to_owned()),
    }
}

fn in_flight(seen: &Seen) -> Option<String> {
    let learned = seen.learned.as_ref().and_then(|learned| learned.concurrency);
    let most = match (seen.most_in_flight, learned) {
        (Some(set), Some(learned)) if learned < set => format!(" of {learned} (learned, {set} at most)"),
        (Some(set), _) => format!(" of {set}"),
        (None, Some(learned)) => format!(" of {learned} (learned)"),
        (None, None) => String::new(),
    };
    let holders: Vec<String> =
        seen.places.iter().map(|held| format!("{} holds {}", clean(&held.member), held.places)).collect();
    let holders = if holders.is_empty() { String::new() } else { format!(": {}", some_of(&holders)) };
    (seen.in_flight > 0 || seen.places().is_some()).then(|| format!("{}{most}{holders}", seen.in_flight))
}

fn pause(seen: &Seen, clocks: &Clocks) -> Option<String> {
    let until = seen.pause?.until;
    let left = span(until.ahead().unwrap_or_default());
    Some(format!("until {} ({left}): {}", until.time_of_day(clocks), why(seen)))
}

fn trial(trial: Trial) -> String {
    match trial {
        Trial::Next => "after the pause one request goes first",
        Trial::InFlight => "after a pause one request went first; its answer is waited for",
    }
    .to_owned()
}

fn quota(seen: &Seen) -> Option<String> {
    let quota = seen.quota?;
    let limit = quota.limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
    Some(format!("{}{limit} left, anew in {}", quota.remaining, span(quota.resets.ahead().unwrap_or_default())))
}

fn lowered(seen: &Seen) -> Option<String> {
    let lowered = seen.lowered.as_ref()?;
    let status = lowered.status.map_or_else(|| "no answer".to_owned(), |status| format!("status {status}"));
    let [from, to] = [lowered.from_secs, lowered.to_secs].map(|secs| span(seconds(secs)));
    Some(format!("{from} → {to}, {} ago: {status}, asked by {}", span(lowered.at.ago()), clean(&lowered.by)))
}

fn refused(seen: &Seen) -> Option<String> {
    let refusals = &seen.refusals;
    let requests = (refusals.count > 0).then(|| words::count(refusals.count.into(), "request"))?;
    let last = match (refusals.last_status, refusals.last) {
        (Some(status), Some(last)) => format!("; the last {} ago, status {status}", span(last.ago())),
        _ => String::new(),
    };
    // A policy's sentence counts in refusals, too, and stands beside this.
    let learned = seen.learned.as_ref().is_some_and(|learned| (1..refusals.count).contains(&learned.refusals));
    let together = if learned { "; those refused together are one refusal to learn from" } else { "" };
    Some(format!("{requests}, {} with Retry-After{last}{together}", refusals.with_retry_after))
}

fn waiting(members: &[String]) -> String {
    some_of(&members.iter().map(|member| clean(member)).collect::<Vec<_>>())
}

/// As many as a person reads.
fn some_of(texts: &[String]) -> String {
    let told = texts.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(MOST_NAMES) {
        0 => told,
        more => format!("{told} and {more} more"),
    }
}

fn times(count: u32) -> Option<String> {
    match count {
        0 => None,
        1 => Some("once".to_owned()),
        count => Some(format!("{count} times")),
    }
}

fn text(secs: f64) -> String {
    span(seconds(secs))
}

const MOST_NAMES: usize = 10;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{NOW, adaptive, busy, clocks, known, refused};
    use comity_core::limits::{AdvertisedQuota, Pause, Restart};
    use std::time::Duration;

    #[test]
    fn the_details_are_what_the_store_knows() {
        let mut known = refused("a.example");
        known.state.quota = Some(AdvertisedQuota {
            limit: Some(100),
            window: None,
            remaining: 7,
            heard: NOW,
            resets: NOW.after(Duration::from_secs(40)),
        });
        known.state.tally.no_answers = 1;
        let told = lines(&Seen::of(&known, &clocks()), &clocks()).join("\n").replace(BOLD, "").replace(PLAIN, "");
        let wanted = "\
a.example
  interval       1 s (learned)
  last start     5 s ago
  next start     in 12 s
  in flight      0 of 1
  pause          until 13:48:12 (12 s): 429, Retry-After 30 s
  restart        after the pause one request goes first
  quota          7 of 100 left, anew in 40 s
  made slower    0.5 s → 1 s, 18 s ago: status 429, asked by two:22
  refused        3 requests, 2 with Retry-After; the last 18 s ago, status 429
  no answer      once
  waiting        one:1, two:22";
        assert_eq!(told, wanted, "\n{told}");
    }

    #[test]
    fn what_holds_is_said_once_and_what_it_hides_beside_it() {
        let mut known = known("a.example");
        known.state.crawl_delay = Duration::from_secs(10);
        let told = facts(&Seen::of(&known, &clocks()), &clocks());
        let told: Vec<String> = told[..2].iter().map(|(what, text)| format!("{what}: {text}")).collect();
        assert_eq!(told, ["interval: 10 s (Crawl-delay)", "learned: interval 1 s"]);
    }

    #[test]
    fn what_an_adaptive_policy_learned_is_told() {
        let mut known = adaptive("a.example");
        let learned = known.state.learned.in_flight().unwrap();
        let told = |known: &comity_store::Known| {
            let facts = facts(&Seen::of(known, &clocks()), &clocks());
            facts.into_iter().map(|(what, text)| format!("{what}: {text}")).collect::<Vec<_>>()
        };
        let lines = told(&known);
        assert!(lines.contains(&format!("in flight: 0 of {learned} (learned, 64 at most)")), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("learned: ")), "{lines:?}");
        known.most_in_flight = None;
        assert!(told(&known).contains(&format!("in flight: 0 of {learned} (learned)")));
        known.most_in_flight = Some(1);
        assert!(told(&known).contains(&"in flight: 0 of 1".to_owned()), "what was set is stricter");
    }

    #[test]
    fn requests_that_were_refused_are_not_the_refusals_that_taught() {
        let mut known = refused("a.example");
        let policy = comity_core::policy::Policy::Adaptive(Default::default());
        known.state.learned = policy.fresh();
        let at = NOW.before(Duration::from_secs(18));
        let fact = comity_core::policy::Fact {
            started: NOW.before(Duration::from_secs(19)),
            outcome: comity_core::policy::Outcome::Refused { advice: None },
            latency: None,
        };
        known.state.learned.taught(at, &fact, &policy);
        let told = lines(&Seen::of(&known, &clocks()), &clocks()).join("\n");
        assert!(told.contains("one refusal, at "), "{told}");
        assert!(
            told.contains(
                "3 requests, 2 with Retry-After; the last 18 s ago, status 429; those refused together are one"
            ),
            "{told}"
        );
    }

    #[test]
    fn who_holds_a_place_is_named() {
        let told = facts(&Seen::of(&busy("a.example"), &clocks()), &clocks());
        assert!(told.contains(&("in flight", "1 of 1: one:1 holds 1".to_owned())), "{told:?}");
    }

    #[test]
    fn a_pause_we_chose_says_so() {
        let mut known = known("a.example");
        known.state.pause = Pause::kept(NOW.after(Duration::from_secs(60)), Restart::Due, 1);
        known.state.tally.last_refusal = Some(503);
        let told = facts(&Seen::of(&known, &clocks()), &clocks());
        assert!(told.contains(&("pause", "until 13:49:00 (1 min): 503 without Retry-After".to_owned())), "{told:?}");
    }

    #[test]
    fn a_thousand_names_are_not_read_by_anybody() {
        let mut known = known("a.example");
        known.waiting = (0..1000).map(|n| format!("m:{n}")).collect();
        let told = facts(&Seen::of(&known, &clocks()), &clocks());
        assert!(told.iter().any(|(_, text)| text.ends_with("m:9 and 990 more")), "{told:?}");
    }
}
