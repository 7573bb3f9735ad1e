//! Capacity against refusals: a point for each policy of a world.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::labels::{Place, places};
use super::look::{Area, Drawn, FAINT, INK, MARGIN, MUTED, OWN, PAPER, SMALL, TEXT, TITLE, TRUTH, WRONG};
use super::look::{shortened, text, width};
use crate::report::{Arm, Figure, OURS, Standing, World, is_told};

/// How wide a plane is, in pixels.
pub(super) const WIDTH: u32 = 500;
/// How high.
pub(super) const HEIGHT: u32 = 400;

/// Draws the plane of one world.
pub(super) fn draw(area: &Area<'_>, world: &World) -> Drawn {
    let points = points(world);
    text(area, &shortened(&world.name, 48), (MARGIN, 20), TITLE, INK, HPos::Left)?;
    text(area, &verdict(world), (MARGIN, 42), TEXT, MUTED, HPos::Left)?;
    let (_, plot) = area.split_vertically(HEAD);
    let (price_axis, price_words) = price(world, &points);
    let highest = points.iter().map(|point| point.capacity).fold(100.0, f64::max);
    let labels = (0..=4).map(|part| 25.0 * f64::from(part)).collect();
    let mut chart = ChartBuilder::on(&plot)
        .margin_left(6)
        .margin_right(MARGIN)
        .margin_bottom(8)
        .x_label_area_size(42)
        .y_label_area_size(50)
        .build_cartesian_2d(price_axis, Axis::linear(-6.0..highest + HEADROOM, labels))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT)
        .axis_style(MUTED)
        .x_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .y_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .axis_desc_style(("sans-serif", SMALL).into_font().color(&MUTED))
        .x_label_formatter(&|x| format!("{x}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc(price_words)
        .y_desc(capacity_words(world))
        .draw()?;

    let (left, top) = plot.get_base_pixel();
    let at: Vec<(i32, i32)> = points
        .iter()
        .map(|point| chart.backend_coord(&(point.price, point.capacity)))
        .map(|(x, y)| (x - left, y - top))
        .collect();
    let names: Vec<_> = points.iter().zip(&at).map(|(point, &at)| (at, width(&point.policy, SMALL), LETTERS)).collect();
    let (width, height) = plot.dim_in_pixel();
    let inside = Place { left: 60, top: 2, right: width.cast_signed() - 4, bottom: height.cast_signed() - 54 };
    let places = places(&names, inside);
    for (&point, place) in at.iter().zip(&places) {
        let end = place.nearest(point);
        if (point.0 - end.0).abs().max((point.1 - end.1).abs()) > LEADER {
            plot.draw(&PathElement::new([point, end], MUTED.stroke_width(1)))?;
        }
    }
    // Ours last, over all others.
    for (point, &at) in points.iter().zip(&at).rev() {
        let (size, colour) = if point.kind == Kind::Ours { (7, OWN) } else { (5, point.colour()) };
        plot.draw(&Circle::new(at, size + 1, PAPER.filled()))?;
        plot.draw(&Circle::new(at, size, colour.filled()))?;
        if point.kind == Kind::Told {
            plot.draw(&Circle::new(at, size - 2, PAPER.filled()))?;
        }
    }
    for ((point, &(x, _)), place) in points.iter().zip(&at).zip(&places) {
        let middle = i32::midpoint(place.top, place.bottom);
        let colour = if point.kind == Kind::Other { INK } else { point.colour() };
        // Letters are as wide as the viewer's font makes them: what is certain is the end that is nearest to the point.
        let (from, end) = match x {
            x if x <= place.left => (HPos::Left, place.left),
            x if x >= place.right => (HPos::Right, place.right),
            _ => (HPos::Center, i32::midpoint(place.left, place.right)),
        };
        text(&plot, &point.policy, (end, middle), SMALL, colour, from)?;
    }
    Ok(())
}

/// What stands on the axis of capacity.
fn capacity_words(world: &World) -> &'static str {
    match world.capacity_figure() {
        Figure::List => "list got, by least time over time, in %",
        _ => "used of possible from minute 2 on, in %",
    }
}

/// The axis of what capacity is paid with, and what stands at it.
fn price(world: &World, points: &[Point]) -> (Axis, &'static str) {
    let prices = points.iter().map(|point| point.price).filter(|&price| price > 0.0);
    let (least, most) =
        prices.fold((f64::INFINITY, 0.0_f64), |(least, most), price| (least.min(price), most.max(price)));
    if world.price_figure() == Figure::Queue {
        let powers: i32 = [10.0, 100.0, 1000.0].iter().map(|&power| i32::from(most > power)).sum();
        return (Axis::log_and_zero(-2, 1 + powers), "requests waiting at the host, on the mean");
    }
    (Axis::log_and_zero(if least < 0.01 { -3 } else { -2 }, 2), "share of requests refused, in %")
}

/// Whether any other is better in both, in a line.
fn verdict(world: &World) -> String {
    let Some(plane) = &world.plane else { return String::new() };
    let better: Vec<&str> = plane.standing(Standing::BetterInBoth).map(|rival| rival.policy.as_str()).collect();
    let words = match better.as_slice() {
        [] => format!("no other is as good as {} in both and better in one", plane.ours),
        names => format!("as good in both, better in one: {}", names.join(", ")),
    };
    shortened(&words, 64)
}

struct Point {
    policy: String,
    /// In per cent.
    capacity: f64,
    /// The share of refusals in per cent, or the mean queue.
    price: f64,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ours,
    Better,
    Told,
    Other,
}

impl Point {
    fn colour(&self) -> RGBColor {
        match self.kind {
            Kind::Ours => OWN,
            Kind::Better => WRONG,
            Kind::Told => TRUTH,
            Kind::Other => MUTED,
        }
    }
}

/// The points, ours first.
fn points(world: &World) -> Vec<Point> {
    let better = |arm: &Arm| {
        let plane = world.plane.iter();
        plane.flat_map(|plane| plane.standing(Standing::BetterInBoth)).any(|rival| rival.policy == arm.policy)
    };
    let kind = |arm: &Arm| match arm.policy == OURS {
        true => Kind::Ours,
        false if is_told(&arm.policy) => Kind::Told,
        false if better(arm) => Kind::Better,
        false => Kind::Other,
    };
    let queue = world.price_figure() == Figure::Queue;
    let point = |arm: &Arm| {
        Some(Point {
            policy: shortened(&arm.policy, 24),
            capacity: 100.0 * arm.mean(world.capacity_figure())?,
            price: if queue { arm.mean(Figure::Queue)? } else { 100.0 * arm.mean(Figure::Refused)? },
            kind: kind(arm),
        })
    };
    let mut points: Vec<Point> = world.arms.iter().filter_map(point).collect();
    points.sort_by_key(|point| point.kind != Kind::Ours);
    points
}

const HEAD: u32 = 56;
/// Room for names above the best, in per cent of capacity.
const HEADROOM: f64 = 32.0;
/// The height of a name's letters.
const LETTERS: i32 = 14;
/// From here on a line leads from a point to its name.
const LEADER: i32 = 12;
