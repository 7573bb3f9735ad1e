//! One run over time: the interval and what was in flight, with refusals marked.

use std::cmp::Reverse;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::look::{Area, Drawn, FAINT, INK, MARGIN, MUTED, OWN, SMALL, TEXT, TITLE, TRUTH, WRONG};
use super::look::{shortened, text, width};
use crate::outcome::{HostOutcome, Outcome, Sample};

/// How wide a timeline is, in pixels.
pub(super) const WIDTH: u32 = 1000;
/// How high.
pub(super) const HEIGHT: u32 = HEAD + INTERVALS + IN_FLIGHT + FOOT;

/// The hosts that a run can be drawn by: those that were sampled, the busiest first.
pub(super) fn hosts(run: &Outcome) -> Vec<&HostOutcome> {
    let arrived = |host: &HostOutcome| host.minutes.iter().map(|minute| minute.arrived).sum::<u64>();
    let mut sampled: Vec<&HostOutcome> = run.hosts.iter().filter(|host| !host.samples.is_empty()).collect();
    sampled.sort_by_cached_key(|host| Reverse(arrived(host)));
    sampled
}

/// Draws one run at one host.
pub(super) fn draw(area: &Area<'_>, run: &Outcome, host: &HostOutcome) -> Drawn {
    let title = format!("{}: {}", run.scenario, run.policy);
    text(area, &shortened(&title, 60), (MARGIN, 20), TITLE, INK, HPos::Left)?;
    text(area, &numbers(run, host), (MARGIN, 43), TEXT, MUTED, HPos::Left)?;
    let limit = limit(host);
    legend(area, !limit.is_empty(), !host.refusals.is_empty())?;
    let (_, plots) = area.split_vertically(HEAD);
    let (upper, lower) = plots.split_vertically(INTERVALS);
    intervals(&upper, run, host, &limit)?;
    in_flight(&lower, run, host)
}

fn numbers(run: &Outcome, host: &HostOutcome) -> String {
    let (arrived, refused) =
        host.minutes.iter().fold((0, 0), |(arrived, refused), m| (arrived + m.arrived, refused + m.refused));
    let mut words = format!("{}, seed {}: {arrived} requests, {refused} refused", host.name, run.seed);
    if let Some(ended) = run.ended {
        words.push_str(&format!(", all done after {ended:.1} s"));
    }
    if run.hosts.len() > 1 {
        words.push_str(&format!("; one of {} hosts", run.hosts.len()));
    }
    if host.served_by_client.len() > 1 {
        words.push_str(&format!("; the pace of one of {} clients", host.served_by_client.len()));
    }
    shortened(&words, 110)
}

fn intervals(area: &Area<'_>, run: &Outcome, host: &HostOutcome, limit: &[(f64, f64)]) -> Drawn {
    let unit = Unit::of(run.seconds);
    let kept = |sample: &&Sample| sample.interval > 0.0;
    let values = host.samples.iter().filter(kept).map(|sample| sample.interval);
    let values: Vec<f64> = values.chain(limit.iter().map(|&(_, interval)| interval)).collect();
    let keeps = host.samples.iter().any(|sample| sample.interval > 0.0);
    let (least, most) = match values.is_empty() {
        true => (0.01, 1.0),
        false => values.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &v| (a.min(v), b.max(v))),
    };
    // An interval of a nanosecond is none, and would flatten all others.
    let least = least.max(most * 1e-6);
    let mut chart = ChartBuilder::on(area)
        .margin_left(MARGIN)
        .margin_right(MARGIN)
        .margin_top(STRIP)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(unit.axis(run.seconds), Axis::log(least, most))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(MUTED)
        .y_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .axis_desc_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .y_label_formatter(&|y| spoken(*y))
        .y_desc("interval")
        .draw()?;
    for run in lines(limit.iter().map(|&(at, interval)| (unit.count(at), Some(interval)))) {
        chart.draw_series([PathElement::new(run, TRUTH.stroke_width(2))])?;
    }
    let steps = host.samples.iter().map(|s| (unit.count(s.at), (s.interval > 0.0).then(|| s.interval.max(least))));
    for run in lines(reduced(steps, unit.count(run.seconds)).into_iter()) {
        chart.draw_series([PathElement::new(run, OWN.stroke_width(2))])?;
    }
    if !keeps {
        let at = (i32::midpoint(LABELS.cast_signed(), WIDTH.cast_signed()), STRIP + 16);
        text(area, "keeps no interval", at, TEXT, MUTED, HPos::Center)?;
    }
    // Refusals stand above the plot, where no curve is; those that would touch are one.
    let (left, _) = area.get_base_pixel();
    let mut last: Option<i32> = None;
    for &at in &host.refusals {
        let (x, _) = chart.backend_coord(&(unit.count(at), most));
        if last.is_none_or(|last| x - last >= REFUSAL_APART) {
            area.draw(&TriangleMarker::new((x - left, STRIP - 6), 5, WRONG.filled()))?;
            last = Some(x);
        }
    }
    Ok(())
}

fn in_flight(area: &Area<'_>, run: &Outcome, host: &HostOutcome) -> Drawn {
    let unit = Unit::of(run.seconds);
    let most = host.samples.iter().map(|sample| sample.in_flight).max().unwrap_or(1).max(1);
    // A bound far above what is used, or none at all, is not worth flattening the rest for.
    let bound = host.samples.iter().map(|sample| sample.most_in_flight).max().unwrap_or(1);
    let most = if bound <= most.saturating_mul(3) { most.max(bound) } else { most };
    let mut chart = ChartBuilder::on(area)
        .margin_left(MARGIN)
        .margin_right(MARGIN)
        .margin_top(14)
        .margin_bottom(8)
        .x_label_area_size(42)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(unit.axis(run.seconds), Axis::counts(f64::from(most), 5))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(MUTED)
        .x_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .y_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .axis_desc_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc(format!("virtual time, in {}", unit.name))
        .y_desc("in flight")
        .draw()?;
    let end = unit.count(run.seconds);
    let bounds = host.samples.iter().map(|s| {
        let bound = s.most_in_flight;
        (unit.count(s.at), (bound <= most).then(|| f64::from(bound)))
    });
    for run in lines(reduced(bounds, end).into_iter()) {
        chart.draw_series([PathElement::new(run, MUTED.stroke_width(1))])?;
    }
    let flying = host.samples.iter().map(|s| (unit.count(s.at), Some(f64::from(s.in_flight))));
    for run in lines(reduced(flying, end).into_iter()) {
        chart.draw_series([PathElement::new(run, OWN.stroke_width(1))])?;
    }
    Ok(())
}

/// The interval at which the host's capacity is just used, as steps in time.
fn limit(host: &HostOutcome) -> Vec<(f64, f64)> {
    let mut steps = Vec::new();
    let mut start = 0.0;
    for minute in &host.minutes {
        if minute.capacity > 0.0 && minute.capacity.is_finite() {
            let interval = 60.0 / minute.capacity;
            steps.extend([(start, interval), (start + 60.0, interval)]);
        }
        start += 60.0;
    }
    steps
}

/// What the lines and marks mean.
fn legend(area: &Area<'_>, limit: bool, refusals: bool) -> Drawn {
    let entries = [
        Some(("policy", Some(OWN))),
        Some(("most in flight", Some(MUTED))),
        limit.then_some(("host's limit", Some(TRUTH))),
        refusals.then_some(("refused", None)),
    ];
    let entries: Vec<_> = entries.into_iter().flatten().collect();
    let whole: i32 = entries.iter().map(|(words, _)| width(words, TEXT) + ENTRY).sum();
    let mut left = WIDTH.cast_signed() - MARGIN - whole + ENTRY - SIGN;
    for (words, colour) in entries {
        match colour {
            Some(colour) => area.draw(&PathElement::new([(left, 20), (left + 22, 20)], colour.stroke_width(2)))?,
            None => area.draw(&TriangleMarker::new((left + 16, 21), 5, WRONG.filled()))?,
        }
        text(area, words, (left + SIGN, 20), TEXT, MUTED, HPos::Left)?;
        left += width(words, TEXT) + ENTRY;
    }
    Ok(())
}

/// Steps with no more points than pixels show: in each column the first, the least, the greatest and the last.
fn reduced(steps: impl Iterator<Item = (f64, Option<f64>)>, end: f64) -> Vec<(f64, Option<f64>)> {
    let mut kept: Vec<(f64, Option<f64>)> = Vec::new();
    let mut column: Vec<(f64, Option<f64>)> = Vec::new();
    let mut next = end / COLUMNS;
    let mut before = None;
    for (at, value) in steps {
        // A step holds until the next one.
        if let Some(before) = before.replace(value)
            && before != value
        {
            column.push((at, before));
        }
        column.push((at, value));
        if at >= next {
            keep(&mut kept, &mut column);
            next = at + end / COLUMNS;
        }
    }
    keep(&mut kept, &mut column);
    kept
}

fn keep(kept: &mut Vec<(f64, Option<f64>)>, column: &mut Vec<(f64, Option<f64>)>) {
    if column.len() <= 4 {
        kept.append(column);
        return;
    }
    let by =
        |a: &&(f64, Option<f64>), b: &&(f64, Option<f64>)| a.1.partial_cmp(&b.1).unwrap_or(std::cmp::Ordering::Equal);
    let ends = [column.first(), column.iter().min_by(by), column.iter().max_by(by), column.last()];
    let mut ends: Vec<_> = ends.into_iter().flatten().copied().collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    kept.extend(ends);
    column.clear();
}

/// The stretches in which there is a value.
fn lines(points: impl Iterator<Item = (f64, Option<f64>)>) -> Vec<Vec<(f64, f64)>> {
    let mut lines = vec![Vec::new()];
    for (at, value) in points {
        match (value, lines.last_mut()) {
            (Some(value), Some(line)) => line.push((at, value)),
            _ => lines.push(Vec::new()),
        }
    }
    lines.retain(|line| line.len() > 1);
    lines
}

/// A unit of virtual time.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    seconds: f64,
}

impl Unit {
    fn of(length: f64) -> Self {
        match length {
            ..180.0 => Self { name: "s", seconds: 1.0 },
            ..10_800.0 => Self { name: "min", seconds: 60.0 },
            _ => Self { name: "h", seconds: 3600.0 },
        }
    }

    fn count(self, seconds: f64) -> f64 {
        seconds / self.seconds
    }

    fn axis(self, length: f64) -> Axis {
        let most = self.count(length).max(1.0);
        Axis::times(most, 10)
    }
}

/// An interval as people read it, such as `2 s` or `50 ms`.
fn spoken(seconds: f64) -> String {
    // Labels are one digit and zeros, which only arithmetic blurs.
    let number = |value: f64| format!("{}", (value * 100.0).round() / 100.0);
    match seconds {
        60.0.. => format!("{} min", number(seconds / 60.0)),
        1.0.. => format!("{} s", number(seconds)),
        1e-3.. => format!("{} ms", number(seconds * 1e3)),
        _ => format!("{} µs", number(seconds * 1e6)),
    }
}

const HEAD: u32 = 62;
const INTERVALS: u32 = 210;
const IN_FLIGHT: u32 = 150;
const FOOT: u32 = 10;
/// What an entry of the legend takes beside its words, and its sign alone, in pixels.
const ENTRY: i32 = 42;
const SIGN: i32 = 30;
/// The strip above the intervals in which refusals are marked.
const STRIP: i32 = 16;
const LABELS: u32 = 66;
/// Columns in which steps are told apart: about the pixels of the plot.
const COLUMNS: f64 = 900.0;
/// Refusals nearer than this are drawn as one, in pixels.
const REFUSAL_APART: i32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Minute;

    #[test]
    fn what_lasts_for_one_sample_is_not_lost_among_thousands() {
        let steps = (0..100_000).map(|n| (f64::from(n) / 100.0, Some(if n == 77_777 { 9.0 } else { 1.0 })));
        let kept = reduced(steps, 1000.0);
        assert!(kept.len() < 5000, "{}", kept.len());
        assert!(kept.iter().any(|&(at, value)| (777.7..777.8).contains(&at) && value == Some(9.0)));
        assert!(kept.is_sorted_by(|a, b| a.0 <= b.0));
    }

    #[test]
    fn a_line_ends_where_there_is_no_interval() {
        let points = [(0.0, Some(1.0)), (1.0, Some(1.0)), (2.0, None), (3.0, Some(2.0)), (4.0, Some(2.0))];
        let told: Vec<_> = lines(points.into_iter()).iter().map(Vec::len).collect();
        assert_eq!(told, [2, 2]);
    }

    #[test]
    fn the_limit_is_left_out_where_the_host_serves_nothing() {
        let minute = |capacity| Minute { capacity, ..Minute::default() };
        let host = HostOutcome { minutes: vec![minute(600.0), minute(0.0), minute(300.0)], ..HostOutcome::default() };
        assert_eq!(limit(&host), [(0.0, 0.1), (60.0, 0.1), (120.0, 0.2), (180.0, 0.2)]);
    }

    #[test]
    fn intervals_are_read_at_a_glance() {
        let told = [0.000_03, 0.002, 0.1, 3.0, 300.0].map(spoken);
        assert_eq!(told, ["30 µs", "2 ms", "100 ms", "3 s", "5 min"]);
    }
}
