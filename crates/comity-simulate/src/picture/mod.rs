//! Runs, drawn: the pace over time, and capacity against refusals for all policies of a world.
//!
//! ```
//! use comity_simulate::picture::{html, svg};
//! use comity_simulate::report::{Report, World};
//! use comity_simulate::scenario::Scenario;
//!
//! let text = "name = 'ten'\nabout = 'ten a second'\ntime = '2min'\n\
//!             [[host]]\nname = 'a.example'\nkind = 'bucket'\nrate = '10/s'\nburst = 5";
//! let report = Report { worlds: vec![World::of(&Scenario::parse(text)?, None, Vec::new())] };
//! assert!(svg(&report).starts_with("<svg"));
//! assert!(html(&report).contains("ten a second"));
//! # Ok::<(), comity_simulate::scenario::ScenarioError>(())
//! ```

mod axis;
mod labels;
mod look;
mod page;
mod plane;
mod timeline;

use plotters::style::text_anchor::HPos;

use look::{Area, Drawn, MARGIN, MUTED, TEXT, document, text};

use crate::outcome::{HostOutcome, Outcome};
use crate::report::{Report, World};

pub use page::html;

/// All of a report as one SVG document: the planes of all worlds with several policies, two beside each other, and under
/// them each run that was sampled. It is light or dark as its viewer prefers.
///
/// Worlds beyond the 60th and runs beyond the 24th are counted but not drawn.
pub fn svg(report: &Report) -> String {
    let planes: Vec<&World> = report.worlds.iter().filter(|world| has_plane(world)).collect();
    let runs = drawn(&report.worlds);
    let (planes_drawn, runs_drawn) = (&planes[..planes.len().min(MOST_PLANES)], &runs[..runs.len().min(MOST_RUNS)]);
    let left_out = planes.len() - planes_drawn.len() + runs.len() - runs_drawn.len();
    let note = match left_out {
        0 if planes.is_empty() && runs.is_empty() => Some("There is nothing to draw.".to_owned()),
        0 => None,
        more => Some(format!("{more} more are not drawn.")),
    };
    let notes: Vec<String> = busiest(&runs).into_iter().chain(note).collect();
    let note = (!notes.is_empty()).then(|| notes.join(" "));
    let rows = small(planes_drawn.len().div_ceil(2));
    let note_height = if note.is_some() { NOTE_HEIGHT } else { 0 };
    let height = rows * plane::HEIGHT + small(runs_drawn.len()) * timeline::HEIGHT + note_height;
    document(&summary(report), (timeline::WIDTH, height), |root| {
        let mut rest = root.clone();
        for pair in planes_drawn.chunks(2) {
            let (row, below) = rest.split_vertically(plane::HEIGHT);
            let (left, right) = row.split_horizontally(plane::WIDTH);
            for (world, area) in pair.iter().zip([left, right]) {
                plane::draw(&area, world)?;
            }
            rest = below;
        }
        for (run, host) in runs_drawn {
            let (area, below) = rest.split_vertically(timeline::HEIGHT);
            timeline::draw(&area, run, host)?;
            rest = below;
        }
        note.as_ref().map_or(Ok(()), |note| say(&rest, note))
    })
}

/// The plane of one world: a point for each policy, its name beside it.
pub fn plane(world: &World) -> String {
    document(&format!("Capacity against refusals: {}", world.name), (plane::WIDTH, plane::HEIGHT), |area| {
        plane::draw(area, world)
    })
}

/// One run over time; `None` where nothing was sampled. Of several hosts it is the busiest.
pub fn timeline(run: &Outcome) -> Option<String> {
    timeline::hosts(run).first().map(|host| over_time(run, host))
}

fn over_time(run: &Outcome, host: &HostOutcome) -> String {
    let title = format!("The pace over time: {} in {}, {}", run.policy, run.scenario, host.name);
    document(&title, (timeline::WIDTH, timeline::HEIGHT), |area| timeline::draw(area, run, host))
}

fn has_plane(world: &World) -> bool {
    world.arms.len() > 1
}

/// Every run that can be drawn over time, each by its busiest host; where there is but one, by all of its hosts that were
/// sampled.
fn drawn(worlds: &[World]) -> Vec<(&Outcome, &HostOutcome)> {
    let runs = worlds.iter().flat_map(|world| &world.arms).flat_map(|arm| &arm.runs);
    let runs: Vec<(&Outcome, Vec<&HostOutcome>)> =
        runs.map(|run| (run, timeline::hosts(run))).filter(|(_, hosts)| !hosts.is_empty()).collect();
    let each = if runs.len() == 1 { usize::MAX } else { 1 };
    runs.into_iter().flat_map(|(run, hosts)| hosts.into_iter().take(each).map(move |host| (run, host))).collect()
}

/// That of a run's hosts some are drawn, where it is so.
fn busiest(drawn: &[(&Outcome, &HostOutcome)]) -> Option<String> {
    let most = drawn.iter().map(|(run, _)| run.hosts.len()).max()?;
    let alone = drawn.iter().all(|(run, _)| std::ptr::eq(*run, drawn[0].0));
    match drawn.len() {
        shown if alone && shown < most => Some(format!("These are the {shown} busiest of {most} hosts.")),
        _ if !alone && most > 1 => Some("Of several hosts the busiest is drawn.".to_owned()),
        _ => None,
    }
}

fn say(area: &Area<'_>, note: &str) -> Drawn {
    text(area, note, (MARGIN, NOTE_HEIGHT.cast_signed() / 2), TEXT, MUTED, HPos::Left)
}

fn summary(report: &Report) -> String {
    let names: Vec<&str> = report.worlds.iter().map(|world| world.name.as_str()).collect();
    format!("Policies in virtual worlds: {}", names.join(", "))
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Worlds and runs that anybody would look at; the table has all.
const MOST_PLANES: usize = 60;
const MOST_RUNS: usize = 24;
const NOTE_HEIGHT: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::{run, sampled as sampled_run, world};

    fn busy() -> World {
        let rivals = [("fixed-delay", 0.1, 0), ("cubic", 1.0, 300), ("<vegas>", 0.97, 900)];
        let rivals = rivals.map(|(policy, share, refused)| run(policy, 1, share, refused));
        world("bucket-10", "ten a second & more", None, [sampled_run("adaptive")].into_iter().chain(rivals).collect())
    }

    #[test]
    fn every_policy_is_named_on_the_plane_and_the_sampled_run_is_drawn() {
        let drawn = svg(&Report { worlds: vec![busy()] });
        for words in
            ["adaptive", "fixed-delay", "cubic", "&lt;vegas&gt;", "share of requests refused, in %", "interval"]
        {
            assert!(drawn.contains(words), "{words}");
        }
        assert!(drawn.contains("height=\"832\""), "one row of planes and one run: {drawn:.300}");
        assert!(drawn.len() < 400_000, "{}", drawn.len());
    }

    #[test]
    fn a_world_with_one_policy_has_no_plane_and_an_empty_report_says_so() {
        let alone = world("bucket-10", "", None, vec![sampled_run("adaptive")]);
        assert!(!svg(&Report { worlds: vec![alone] }).contains("share of requests refused"));
        assert!(svg(&Report { worlds: Vec::new() }).contains("nothing to draw"));
    }

    #[test]
    fn of_many_hosts_the_busiest_are_drawn_and_it_is_said() {
        let mut many = sampled_run("adaptive");
        let host = many.hosts[0].clone();
        many.hosts = (0..1000).map(|n| HostOutcome { name: format!("h{n}.example"), ..host.clone() }).collect();
        many.hosts[7].minutes[0].arrived += 1;
        many.hosts[20..].iter_mut().for_each(|host| host.samples.clear());
        let one = svg(&Report { worlds: vec![world("w", "", None, vec![many.clone()])] });
        assert!(one.contains("the 20 busiest of 1000 hosts") && one.contains("h19.example"), "{one:.300}");
        let places = ["h7.example", "h0.example"].map(|name| one.find(name));
        assert!(places[0] < places[1], "the busiest first: {places:?}");
        let two = svg(&Report { worlds: vec![world("w", "", None, vec![many, sampled_run("aimd")])] });
        assert!(two.contains("h7.example") && !two.contains("h0.example,") && two.contains("the busiest is drawn"));
    }

    #[test]
    fn what_is_not_drawn_is_counted() {
        let worlds = (0..30).map(|_| world("w", "", None, vec![sampled_run("adaptive")])).collect();
        assert!(svg(&Report { worlds }).contains("6 more are not drawn"));
    }

    #[test]
    fn odd_runs_do_no_harm() {
        let mut odd = sampled_run("adaptive");
        assert!(timeline(&run("adaptive", 1, 1.0, 0)).is_none());
        odd.seconds = 0.0;
        odd.hosts[0].samples.truncate(1);
        odd.hosts[0].samples[0].interval = f64::NAN;
        odd.hosts[0].minutes[0].capacity = f64::INFINITY;
        assert!(timeline(&odd).is_some_and(|drawn| drawn.contains("keeps no interval")));
        let mut none = run("other", 1, f64::NAN, 0);
        none.hosts.clear();
        assert!(plane(&world("none", "", None, vec![none, odd])).contains("</svg>"));
    }
}
