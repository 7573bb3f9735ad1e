//! A report as people read it: a row for each policy in each world, and under it what else there is to say.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use crate::report::{Arm, Figure, Report, Spread, World};

/// A report as a table.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// What is shown.
    pub report: &'a Report,
    /// Whether the least and the greatest value over the seeds stand beside each mean.
    pub spread: bool,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let worlds = &self.report.worlds;
        for (nth, block) in blocks(worlds).enumerate() {
            if nth > 0 {
                writeln!(f)?;
            }
            write(f, &rows(block, self.spread))?;
        }
        let notes: Vec<String> = worlds.iter().flat_map(notes).chain(fewer_seeds(worlds)).collect();
        if !notes.is_empty() {
            writeln!(f)?;
        }
        notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        planes(f, worlds)
    }
}

/// Worlds that are read by the same columns: neighbours with lists, and neighbours without.
pub(crate) fn blocks(worlds: &[World]) -> impl Iterator<Item = &[World]> {
    worlds.chunk_by(|a, b| a.urls.is_some() == b.urls.is_some())
}

/// The columns that say something of these worlds.
pub(crate) fn columns(worlds: &[World]) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| column.is_wanted(worlds)).collect()
}

/// One figure as a column.
pub(crate) struct Column {
    /// What stands above it.
    pub(crate) head: &'static str,
    figure: Figure,
    unit: Unit,
    /// Whether it stands there where no world has the figure.
    always: bool,
}

#[derive(Clone, Copy)]
enum Unit {
    /// A share in per cent, with so many digits.
    Percent(usize),
    /// A count or a number of seconds, with so many digits.
    Number(usize),
    /// Seconds, as milliseconds where that is short.
    Time,
}

/// Cells of one line: two names, then the figures.
#[derive(Default)]
struct Row {
    names: [String; 2],
    cells: Vec<String>,
}

impl Column {
    fn is_wanted(&self, worlds: &[World]) -> bool {
        let has = |world: &World| world.arms.iter().any(|arm| arm.mean(self.figure).is_some());
        match self.figure {
            // URLs are told of where there is a list of them to get through.
            Figure::Got | Figure::GivenUp | Figure::Ended => worlds.iter().any(|world| world.urls.is_some()),
            Figure::Failed => worlds.iter().flat_map(|world| &world.arms).any(|arm| arm.mean(self.figure) > Some(0.0)),
            _ => self.always || worlds.iter().any(has),
        }
    }

    /// The figure of one policy in one world.
    pub(crate) fn cell(&self, arm: &Arm, spread: bool) -> String {
        arm.spread(self.figure).map_or_else(|| NOTHING.to_owned(), |value| self.unit.words(value, spread))
    }
}

impl Unit {
    fn words(self, Spread { mean, least, most }: Spread, spread: bool) -> String {
        let (factor, digits, name) = match self {
            Self::Percent(digits) => (100.0, digits, " %"),
            Self::Number(digits) => (1.0, digits, ""),
            Self::Time if most < 1.0 => (1000.0, 0, " ms"),
            Self::Time => (1.0, 2, " s"),
        };
        let mut words = format!("{:.digits$}{name}", factor * mean);
        if spread {
            let _ = write!(words, " ({:.digits$}–{:.digits$})", factor * least, factor * most);
        }
        words
    }
}

impl Row {
    fn head(columns: &[&Column]) -> Self {
        Self {
            names: ["".to_owned(), "policy".to_owned()],
            cells: columns.iter().map(|column| column.head.to_owned()).collect(),
        }
    }

    fn of(world: &World, arm: &Arm, columns: &[&Column], spread: bool) -> Self {
        Self {
            names: [world.name.clone(), arm.policy.clone()],
            cells: columns.iter().map(|column| column.cell(arm, spread)).collect(),
        }
    }
}

fn rows(worlds: &[World], spread: bool) -> Vec<Row> {
    let columns = columns(worlds);
    let mut rows = vec![Row::head(&columns)];
    for (nth, world) in worlds.iter().enumerate() {
        // Several policies in each world are read world by world.
        if nth > 0 && (world.arms.len() > 1 || worlds[nth - 1].arms.len() > 1) {
            rows.push(Row::default());
        }
        rows.extend(world.arms.iter().map(|arm| Row::of(world, arm, &columns, spread)));
    }
    rows
}

/// Writes names to the left and figures to the right of their columns.
fn write(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let width = |text: &String| text.chars().count();
    let name_width = |name: usize| rows.iter().map(|row| width(&row.names[name])).max().unwrap_or(0);
    let cell_width = |cell| rows.iter().filter_map(|row| row.cells.get(cell)).map(width).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, |head| head.cells.len())).map(cell_width).collect();
    for row in rows {
        let mut line = format!("{:2$}  {:3$}", row.names[0], row.names[1], name_width(0), name_width(1));
        for (cell, width) in row.cells.iter().zip(&widths) {
            let _ = write!(line, "  {cell:>width$}");
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What there is to say of a world beside its figures.
fn notes(world: &World) -> Vec<String> {
    let mut notes = Vec::new();
    for arm in &world.arms {
        let runs = arm.runs.len();
        let two_ways = arm.runs.iter().filter(|run| run.hosts.iter().any(|host| host.bimodal)).count();
        if two_ways > 0 {
            let seeds = if runs == 1 { String::new() } else { format!(" ({two_ways} of {runs} seeds)") };
            notes.push(format!("{}: {} says that a host answers in two ways{seeds}", world.name, arm.policy));
        }
        let uplinks: Vec<_> = arm.runs.iter().filter_map(|run| run.uplink).collect();
        if let (Some(used), Some(wait)) = (
            Spread::of(uplinks.iter().map(|uplink| Some(uplink.used))),
            Spread::of(uplinks.iter().map(|uplink| Some(uplink.wait))),
        ) {
            let lost: u64 = uplinks.iter().map(|uplink| uplink.lost).sum();
            notes.push(format!(
                "{}: {} used {} of its uplink, where answers waited {}; {lost} were lost",
                world.name,
                arm.policy,
                Unit::Percent(1).words(used, false),
                Unit::Time.words(wait, false),
            ));
        }
    }
    notes
}

/// Policies that were run from fewer seeds than the others of their world, each once.
fn fewer_seeds(worlds: &[World]) -> BTreeSet<String> {
    let of_world = |world: &World| {
        let most = world.arms.iter().map(|arm| arm.runs.len()).max().unwrap_or(0);
        let fewer = world.arms.iter().filter(|arm| arm.runs.len() < most);
        let note =
            |arm: &Arm| format!("{} was run from {} of {most} seeds (--seeds for more)", arm.policy, arm.runs.len());
        fewer.map(note).collect::<Vec<_>>()
    };
    worlds.iter().flat_map(of_world).collect()
}

fn planes(f: &mut fmt::Formatter<'_>, worlds: &[World]) -> fmt::Result {
    for world in worlds {
        let Some(plane) = &world.plane else { continue };
        writeln!(f)?;
        for (index, line) in plane.to_string().lines().enumerate() {
            let before = if index == 0 { format!("{}, ", world.name) } else { "  ".to_owned() };
            writeln!(f, "{before}{line}")?;
        }
    }
    Ok(())
}

const NOTHING: &str = "-";

static COLUMNS: [Column; 13] = [
    Column { head: "from min 2", figure: Figure::UsedLater, unit: Unit::Percent(1), always: false },
    Column { head: "in all", figure: Figure::Used, unit: Unit::Percent(1), always: false },
    Column { head: "of possible", figure: Figure::PossibleLater, unit: Unit::Percent(1), always: false },
    Column { head: "refused", figure: Figure::Refused, unit: Unit::Percent(2), always: true },
    Column { head: "refusals", figure: Figure::Refusals, unit: Unit::Number(1), always: true },
    Column { head: "failed", figure: Figure::Failed, unit: Unit::Number(1), always: false },
    Column { head: "queue", figure: Figure::Queue, unit: Unit::Number(2), always: true },
    Column { head: "p95", figure: Figure::Latency, unit: Unit::Time, always: true },
    Column { head: "fairness", figure: Figure::Fairness, unit: Unit::Number(2), always: false },
    Column { head: "got", figure: Figure::Got, unit: Unit::Number(1), always: false },
    Column { head: "given up", figure: Figure::GivenUp, unit: Unit::Number(1), always: false },
    Column { head: "ended", figure: Figure::Ended, unit: Unit::Time, always: false },
    Column { head: "list", figure: Figure::List, unit: Unit::Percent(1), always: false },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::UplinkOutcome;
    use crate::report::testing::{run, world};

    fn lines(worlds: Vec<World>, spread: bool) -> Vec<String> {
        let report = Report { worlds };
        Table { report: &report, spread }.to_string().lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_row_for_each_policy_aligned_under_its_head() {
        let runs = vec![run("adaptive", 1, 0.98, 6), run("fixed-delay", 1, 0.1, 0)];
        let other = world("window-60", "", None, vec![run("adaptive", 1, 1.0, 0)]);
        let told = lines(vec![world("bucket-10", "", None, runs), other], false);
        assert_eq!(
            told[..5],
            [
                "           policy       from min 2   in all  of possible  refused  refusals  queue    p95",
                "bucket-10  adaptive         98.0 %   98.0 %       98.0 %   0.10 %       6.0   0.00  20 ms",
                "bucket-10  fixed-delay      10.0 %   10.0 %       10.0 %   0.00 %       0.0   0.00  20 ms",
                "",
                "window-60  adaptive        100.0 %  100.0 %      100.0 %   0.00 %       0.0   0.00  20 ms",
            ],
            "{told:#?}"
        );
        assert!(told[6].starts_with("bucket-10, adaptive: 98.0 %"), "{told:#?}");
        assert!(told[7].starts_with("  fewer refused, less capacity: fixed-delay"), "{told:#?}");
    }

    #[test]
    fn a_list_has_its_urls_and_its_end_and_the_spread_stands_beside_the_mean() {
        let mut runs = vec![run("adaptive", 1, 1.0, 2), run("adaptive", 2, 1.0, 4)];
        for (run, ended) in runs.iter_mut().zip([61.0, 63.0]) {
            (run.hosts[0].got, run.hosts[0].given_up, run.ended) = (599, 1, Some(ended));
        }
        let told = lines(vec![world("arm-10", "", Some(600), runs)], true);
        let cells =
            |line: usize| told[line].split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>();
        assert_eq!(cells(0), ["policy", "refused", "refusals", "queue", "p95", "got", "given up", "ended", "list"]);
        assert_eq!(cells(1)[..2], ["arm-10", "adaptive"]);
        assert!(cells(1).contains(&"3.0 (2.0–4.0)") && cells(1).contains(&"62.00 s (61.00–63.00)"), "{told:#?}");
    }

    #[test]
    fn what_is_no_figure_stands_under_the_table() {
        let mut odd = run("adaptive", 1, 1.0, 0);
        odd.hosts[0].bimodal = true;
        odd.uplink = Some(UplinkOutcome { used: 0.93, wait: 0.25, lost: 3 });
        let told = lines(vec![world("uplink", "", None, vec![odd, run("adaptive", 2, 1.0, 0)])], false);
        assert_eq!(
            told[2..],
            [
                "",
                "uplink: adaptive says that a host answers in two ways (1 of 2 seeds)",
                "uplink: adaptive used 93.0 % of its uplink, where answers waited 250 ms; 3 were lost",
            ]
        );
    }

    #[test]
    fn worlds_with_lists_have_a_table_of_their_own() {
        let runs = || vec![run("adaptive", 1, 1.0, 0)];
        let worlds =
            vec![world("a", "", None, runs()), world("b", "", Some(600), runs()), world("c", "", Some(9), runs())];
        let told = lines(worlds, false);
        assert_eq!(told.len(), 6, "{told:#?}");
        assert!(told[0].contains("in all") && !told[0].contains("got") && told[2].is_empty(), "{told:#?}");
        assert!(told[3].contains("got") && !told[3].contains("in all"), "{told:#?}");
        assert!(lines(Vec::new(), false).is_empty());
    }
}
