//! The report as people read it: a row for each host of each arm, the controls as rows too, and what else there is to
//! say under it.

use std::fmt;

use super::law::Measure;
use super::report::{Arm, Control, ControlKind, ProcessReport, Report, Verdict};
use super::unit::words;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passes => "passes",
            Self::Fails => "fails",
            Self::Void => "void",
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Promised: {}.", self.promised())?;
        let rows = self.rows();
        let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or_default();
        writeln!(
            f,
            "\n{:width$} {:>7} {:>8} {:>9} {:>9} {:>10} {:>7} {:>6}  verdict",
            "", "workers", "requests", "least gap", "minimum", "under it", "rate/s", "×"
        )?;
        for row in &rows {
            let Measure { arrivals, least_gap, minimum, short_gaps, gaps, per_second, over_promised, .. } = row.measure;
            let number = |number: &Option<f64>| number.map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"));
            writeln!(
                f,
                "{:width$} {:>7} {arrivals:>8} {:>9} {:>9} {:>10} {:>7} {:>6}  {}",
                row.name,
                row.workers,
                least_gap.map_or_else(|| "-".to_owned(), words),
                words(*minimum),
                format!("{short_gaps} of {gaps}"),
                number(per_second),
                number(over_promised),
                row.verdict,
            )?;
        }
        if self.promise.burst > 1 {
            let burst = self.promise.burst;
            writeln!(f, "\nA gap is the time from an arrival to the one {burst} later; the rate leaves {burst} out.")?;
        }
        for arm in &self.arms {
            arm.say(f)?;
        }
        writeln!(f, "\nVerdict: {}", self.verdict)?;
        // What is wrong with an arm stands above already.
        let is_said = self.controls.iter().all(|control| control.as_it_must);
        self.why.iter().filter(|_| !is_said).try_for_each(|why| writeln!(f, "  {why}"))
    }
}

impl Report {
    fn promised(&self) -> String {
        let mut text = format!("one arrival every {} at each host", words(self.interval));
        if self.crawl_delay.is_some_and(|delay| delay == self.interval) {
            text.push_str(" (the Crawl-delay of its robots.txt)");
        }
        if self.promise.burst > 1 {
            text.push_str(&format!(", {} at once after a rest", self.promise.burst));
        }
        text.push_str(&format!(
            "; tolerance {}, and the jitter measured beside each arm",
            words(self.promise.tolerance)
        ));
        if let Some(refusing) = self.refusing {
            text.push_str(&format!("; {} for ", refusing.status));
            text.push_str(&match (refusing.first, refusing.every) {
                (0, every) => format!("one in {every} requests"),
                (1, 0) => "the first request".to_owned(),
                (first, 0) => format!("the first {first} requests"),
                (first, every) => format!("the first {first} requests and one in {every} after them"),
            });
            if let Some(span) = refusing.retry_after {
                text.push_str(&format!(", with Retry-After: {}", span.as_secs()));
            }
        }
        text
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows: Vec<Row<'_>> =
            self.controls.iter().filter(|control| control.beside.is_none()).map(Row::control).collect();
        for arm in &self.arms {
            rows.extend(arm.hosts.iter().take(HOSTS_SHOWN).map(|host| Row {
                name: host.host.clone(),
                workers: arm.workers,
                measure: &host.measure,
                verdict: host.verdict.to_string(),
            }));
            rows.extend(self.controls.iter().filter(|control| control.beside == Some(arm.workers)).map(Row::control));
        }
        rows
    }
}

struct Row<'a> {
    name: String,
    workers: u32,
    measure: &'a Measure,
    verdict: String,
}

impl<'a> Row<'a> {
    fn control(control: &'a Control) -> Self {
        let name = match control.kind {
            ControlKind::Alone => "  control: alone",
            ControlKind::Unshared => "control: unshared",
        };
        let verdict = match (control.kind, control.as_it_must) {
            (ControlKind::Alone, true) => "passes, as it must",
            (ControlKind::Alone, false) => "DOES NOT PASS",
            (ControlKind::Unshared, true) => "fails, as it must",
            (ControlKind::Unshared, false) => "DOES NOT FAIL",
        };
        Self { name: name.to_owned(), workers: control.clients, measure: &control.measure, verdict: verdict.to_owned() }
    }
}

impl Arm {
    /// What there is to say of the arm under the table.
    fn say(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let (took, jitter) = (words(self.took), words(self.jitter));
        writeln!(f, "\n{} {workers}: {} in {took}, jitter {jitter}", self.workers, self.verdict)?;
        for why in self.why.iter().chain(&self.notes) {
            writeln!(f, "  {why}")?;
        }
        for host in self.hosts.iter().filter(|host| host.refused > 0) {
            let (name, refused, during) = (&host.host, host.refused, host.during_pauses);
            writeln!(f, "  {name} refused {refused}; {during} came in a pause it had asked for")?;
        }
        let mut silent = 0;
        for process in self.processes.iter().take(PROCESSES_SHOWN) {
            match &process.said {
                Some(said) => writeln!(f, "  worker {} ({}): {said}", process.worker, process.outcome())?,
                None => silent += 1,
            }
        }
        let more = self.processes.len().saturating_sub(PROCESSES_SHOWN);
        if more > 0 {
            writeln!(f, "  and {more} more workers")?;
        }
        if silent > 0 && silent < self.processes.len() {
            writeln!(f, "  {silent} said nothing")?;
        }
        Ok(())
    }
}

impl ProcessReport {
    /// `6 arrived`, and how it ended where that was not well.
    fn outcome(&self) -> String {
        let ended = self.trouble().map(|trouble| format!(", {trouble}")).unwrap_or_default();
        format!("{} arrived{ended}", self.arrivals)
    }

    /// How it ended, where that was not well.
    pub(super) fn trouble(&self) -> Option<String> {
        match (self.timed_out, self.exit_code, self.signal) {
            (true, ..) => Some("ended at the time limit".to_owned()),
            (_, Some(0), _) => None,
            (_, Some(code), _) => Some(format!("exit code {code}")),
            (_, None, Some(signal)) => Some(format!("ended by signal {signal}")),
            (_, None, None) => Some("never ended".to_owned()),
        }
    }
}

/// What a host's measure has to say against it.
pub(super) fn against(measure: &Measure, burst: u32, during_pauses: usize) -> Vec<String> {
    let mut why = Vec::new();
    if measure.short_gaps > 0 {
        let (short, gaps, minimum) = (measure.short_gaps, measure.gaps, words(measure.minimum));
        why.push(match burst {
            1 => format!("{short} of {gaps} gaps are under {minimum}"),
            _ => format!("{short} of {gaps} times, {} requests came within less than {minimum}", burst + 1),
        });
    }
    if let Some(crowd) = measure.crowd {
        let (window, promised) = (words(crowd.window), crowd.promised);
        why.push(format!("{} requests came within {window}, where at most {promised} were promised", crowd.arrivals));
    }
    if during_pauses > 0 {
        let requests = if during_pauses == 1 { "request" } else { "requests" };
        why.push(format!("{during_pauses} {requests} came in a pause that a Retry-After had asked for"));
    }
    why
}

/// Hosts of an arm that have a row: all that an arm can be given; the JSON has what a program made up beyond them.
const HOSTS_SHOWN: usize = 100;

/// Processes whose own words are shown; the JSON has all.
const PROCESSES_SHOWN: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::law::Law;
    use crate::audit::plan::{Promise, Refusing};
    use crate::audit::report::HostReport;
    use std::time::Duration;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn measure(times: &[u64]) -> Measure {
        let law = Law { interval: ms(500), burst: 1, tolerance: ms(5) };
        law.judge(&times.iter().map(|&time| ms(time)).collect::<Vec<_>>())
    }

    fn report() -> Report {
        let control = |kind, beside, times: &[u64]| Control {
            kind,
            clients: 1,
            beside,
            jitter: None,
            measure: measure(times),
            as_it_must: true,
        };
        let host = HostReport {
            host: "audit-2.example".to_owned(),
            verdict: Verdict::Fails,
            why: Vec::new(),
            measure: measure(&[0, 100, 500]),
            refused: 1,
            during_pauses: 2,
            robots: 0,
            seen: Vec::new(),
        };
        let process = |worker, exit_code, said: Option<&str>| ProcessReport {
            worker,
            arrivals: 6,
            exit_code,
            signal: None,
            timed_out: false,
            said: said.map(str::to_owned),
        };
        let arm = Arm {
            workers: 2,
            requests_each: 6,
            took: ms(520),
            jitter: ms(0),
            tolerance: ms(5),
            verdict: Verdict::Fails,
            why: against(&host.measure, 1, 2),
            notes: vec!["worker 1: exit code 3".to_owned()],
            hosts: vec![host],
            processes: vec![process(0, Some(0), Some("6 sent")), process(1, Some(3), None)],
            unattributed: 0,
        };
        Report {
            verdict: Verdict::Fails,
            why: arm.why.clone(),
            command: vec!["x".to_owned()],
            promise: Promise::new(ms(500)),
            interval: ms(500),
            crawl_delay: None,
            refusing: Some(Refusing { status: 429, first: 1, every: 0, retry_after: Some(ms(2000)) }),
            controls: vec![
                control(ControlKind::Unshared, None, &[0, 0]),
                control(ControlKind::Alone, Some(2), &[0, 500]),
            ],
            arms: vec![arm],
        }
    }

    fn lines(report: &Report) -> Vec<String> {
        report.to_string().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn x6_the_report_has_a_row_for_each_arm_and_control_and_the_limiter_s_own_words_beside() {
        let told = lines(&report());
        for line in [
            "control: unshared 1 2 0.0 ms 495.0 ms 1 of 1 - - fails, as it must",
            "audit-2.example 2 3 100.0 ms 495.0 ms 2 of 2 4.00 2.00 fails",
            "control: alone 1 2 500.0 ms 495.0 ms 0 of 1 2.00 1.00 passes, as it must",
            "2 of 2 gaps are under 495.0 ms",
            "3 requests came within 500.0 ms, where at most 2 were promised",
            "2 requests came in a pause that a Retry-After had asked for",
            "audit-2.example refused 1; 2 came in a pause it had asked for",
            "worker 1: exit code 3",
            "worker 0 (6 arrived): 6 sent",
            "1 said nothing",
        ] {
            assert!(told.iter().any(|told| told == line), "{line}: {told:#?}");
        }
        assert!(told[0].contains("429 for the first request, with Retry-After: 2"), "{}", told[0]);
        assert_eq!(told.last().map(String::as_str), Some("Verdict: fails"), "what is said of an arm is said once");
    }

    #[test]
    fn x5_what_is_wrong_with_a_control_stands_under_the_verdict() {
        let mut report = report();
        (report.verdict, report.controls[0].as_it_must) = (Verdict::Void, false);
        report.why = vec!["2 clients that share nothing did not fail".to_owned()];
        let told = lines(&report);
        assert!(told.iter().any(|line| line.ends_with("DOES NOT FAIL")), "{told:#?}");
        assert_eq!(&told[told.len() - 2..], ["Verdict: void", "2 clients that share nothing did not fail"]);
    }

    #[test]
    fn a_burst_says_what_its_gaps_are() {
        let mut report = report();
        report.promise.burst = 3;
        assert!(report.to_string().contains("from an arrival to the one 3 later"), "{report}");
        assert!(report.to_string().contains("3 at once after a rest"), "{report}");
    }
}
