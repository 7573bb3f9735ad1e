//! What was seen, for people and for programs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::arm::{Arm, Goal};
use super::seen::Seen;
use super::tool::OURS;

/// The arms' tables, one after the other; goals stand beside our own runs.
pub(super) fn table(arms: &[Arm], seen: &[Seen]) -> String {
    let mut text = String::new();
    for arm in arms {
        let runs: Vec<&Seen> = seen.iter().filter(|run| run.arm == arm.name).collect();
        if runs.is_empty() {
            continue;
        }
        let _ = writeln!(
            text,
            "\n{}: {}; {} URLs, {} s at most",
            arm.name,
            arm.about,
            arm.urls * arm.hosts.len(),
            arm.at_most.as_secs_f64()
        );
        let _ = writeln!(
            text,
            "  {:16} {:>18} {:>8} {:>7} {:>8} {:>8} {:>7} {:>6} {:>6}  goals",
            "", "got of possible", "refused", "%", "seconds", "rate/s", "used %", "queue", "wait"
        );
        for run in runs {
            let _ = writeln!(text, "  {}", row(arm, run));
        }
    }
    text
}

/// The goals that were missed, in words.
pub(super) fn missed(arms: &[Arm], seen: &[Seen]) -> Vec<String> {
    let mut missed = Vec::new();
    for run in seen {
        let goals = arms.iter().filter(|arm| arm.name == run.arm).flat_map(|arm| goals(arm, run));
        missed.extend(
            goals
                .filter(|&&goal| !run.reaches(goal))
                .map(|&goal| format!("{}, {}: {}", run.arm, name(run), words(goal))),
        );
    }
    missed
}

/// Every run with its goals.
pub(super) fn json(arms: &[Arm], seen: &[Seen]) -> Value {
    let run = |run: &Seen| {
        let arm = arms.iter().find(|arm| arm.name == run.arm);
        let goals = arm.map(|arm| goals(arm, run)).unwrap_or_default().iter();
        let goals: Vec<Value> = goals.map(|&goal| json!({"goal": words(goal), "reached": run.reaches(goal)})).collect();
        json!({
            "arm": run.arm, "tool": run.tool, "again": run.again, "exit": run.exit, "seconds": run.seconds,
            "got": run.got(), "possible": run.possible(), "refused": run.refused(), "rate": run.rate(),
            "hosts": run.hosts, "goals": goals,
        })
    };
    json!({"runs": seen.iter().map(run).collect::<Vec<_>>()})
}

/// The run's tool, and whether it could know the hosts.
pub(super) fn name(run: &Seen) -> String {
    if run.again { format!("{}, again", run.tool) } else { run.tool.to_owned() }
}

fn row(arm: &Arm, run: &Seen) -> String {
    let got = format!("{} of {} {:3.0} %", run.got(), run.possible(), run.got_percent().floor());
    let number = |number: Option<f64>| number.map_or("–".to_owned(), |number| format!("{number:.2}"));
    let goals: Vec<String> = goals(arm, run)
        .iter()
        .map(|&goal| format!("{}{}", words(goal), if run.reaches(goal) { "" } else { " MISSED" }))
        .collect();
    // The rests of several hosts' lists are nobody's pace.
    let used = if run.hosts.len() == 1 { format!("{:.1}", run.used()) } else { "–".to_owned() };
    let row = format!(
        "{:16} {got:>18} {:>8} {:>7.2} {:>8.1} {:>8.2} {:>7} {:>6} {:>6}  {}",
        name(run),
        run.refused(),
        run.refused_percent(),
        run.seconds,
        run.rate(),
        used,
        number(run.queue()),
        number(run.wait()),
        goals.join(", ")
    );
    row.trim_end().to_owned()
}

/// Peers have no goals.
fn goals<'a>(arm: &'a Arm, run: &Seen) -> &'a [Goal] {
    match (run.tool == OURS, run.again) {
        (false, _) => &[],
        (true, false) => &arm.cold,
        (true, true) => &arm.again,
    }
}

fn words(goal: Goal) -> String {
    match goal {
        Goal::Got(percent) => format!("got ≥ {percent} %"),
        Goal::Refused(most) => format!("refused ≤ {most}"),
        Goal::Seconds(most) => format!("≤ {most} s"),
        Goal::Used(percent) => format!("used ≥ {percent} %"),
        Goal::RefusedPercent(most) => format!("refused ≤ {most} %"),
        Goal::Queue(most) => format!("queue ≤ {most}"),
    }
}
