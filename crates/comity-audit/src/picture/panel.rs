//! One panel: a title, the numbers, and two plots.

use std::fmt::Write as _;
use std::time::Duration;

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::axis::Axis;
use super::gaps::{Bar, LONG, OVERFLOW, bars};
use super::rows::{Mark, Rows, marks};
use super::unit::{Unit, count, number, spoken};
use super::{Area, Drawn, FAINT, FINE, INK, MARGIN, MUTED, Panel, TEXT, WIDTH, WRONG, text};
use crate::arrivals::Gaps;

/// All that a panel shows, worked out before anything is drawn.
pub(super) struct Plan {
    title: String,
    numbers: String,
    rows: Rows,
    marks: Vec<Mark>,
    refused: bool,
    span: Duration,
    bars: Vec<Bar>,
    promised: Duration,
}

impl Plan {
    pub(super) fn of(panel: &Panel<'_>, most_dots: usize) -> Self {
        let gaps = Gaps::of(&panel.dots.iter().map(|dot| dot.at).collect::<Vec<_>>());
        let rows = Rows::of(panel.dots);
        let refused = panel.dots.iter().filter(|dot| dot.refused).count();
        Self {
            title: shortened(&panel.title),
            numbers: numbers(&gaps, refused, panel.promised),
            rows,
            marks: marks(panel.dots, rows, TIMES_WIDTH, most_dots),
            refused: refused > 0,
            span: gaps.span(),
            bars: bars(&gaps, panel.promised),
            promised: panel.promised,
        }
    }

    /// How high it is, in pixels.
    pub(super) fn height(&self) -> u32 {
        HEAD_HEIGHT + self.plot_height() + AXIS_HEIGHT + FOOT_HEIGHT
    }

    fn plot_height(&self) -> u32 {
        let rows = u32::try_from(self.rows.count()).unwrap_or(u32::MAX);
        rows.saturating_mul(ROW_HEIGHT).clamp(LEAST_PLOT, MOST_PLOT)
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> Drawn {
        text(area, &self.title, (MARGIN, 22), TITLE, INK, HPos::Left)?;
        text(area, &self.numbers, (MARGIN, 45), TEXT, MUTED, HPos::Left)?;
        if self.refused {
            legend(area)?;
        }
        let (_, plots) = area.split_vertically(HEAD_HEIGHT);
        let (plots, _) = plots.split_vertically(self.plot_height() + AXIS_HEIGHT);
        let (times, gaps) = plots.split_horizontally(WIDTH - GAPS_WIDTH);
        self.draw_times(&times)?;
        self.draw_gaps(&gaps)
    }

    fn draw_times(&self, area: &Area<'_>) -> Drawn {
        let unit = Unit::of(if self.span.is_zero() { Duration::from_secs(1) } else { self.span });
        let end = if self.span.is_zero() { unit.count(Duration::from_secs(1)) } else { unit.count(self.span) };
        let height = |row: usize| -exact(row);
        let room = (self.plot_height() / LABEL_HEIGHT) as usize;
        let labelled = self.rows.labelled(room);
        // The first worker's row is the uppermost.
        let rows = height(self.rows.count()) + 0.5..0.5;
        let mut chart = ChartBuilder::on(area)
            .margin_left(MARGIN)
            .margin_right(MARGIN)
            .x_label_area_size(AXIS_HEIGHT)
            .y_label_area_size(LABELS_WIDTH)
            .build_cartesian_2d(
                -end * AIR..end * (1.0 + AIR),
                Axis { range: rows, labels: labelled.iter().map(|&row| height(row)).collect() },
            )?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(MUTED)
            .x_labels(8)
            .x_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .y_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .axis_desc_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .x_label_formatter(&|x| if *x < 0.0 { String::new() } else { number(*x) })
            .y_label_formatter(&|y| self.rows.label(row_at(*y)))
            .x_desc(format!("time since the first arrival, in {}", unit.name))
            .y_desc(if self.rows.named() { "worker" } else { "" })
            .draw()?;
        let size = if self.plot_height() as usize / self.rows.count() < CROWDED { 1 } else { 3 };
        let place = |mark: &Mark| (unit.count(mark.from), height(mark.row));
        let colour = |mark: &Mark| if mark.refused { WRONG } else { FINE };
        let (runs, dots): (Vec<&Mark>, Vec<&Mark>) = self.marks.iter().partition(|mark| mark.from < mark.to);
        chart.draw_series(runs.into_iter().map(|run| {
            let end = (unit.count(run.to), height(run.row));
            PathElement::new([place(run), end], colour(run).stroke_width(2 * size))
        }))?;
        let (refused, fine): (Vec<&Mark>, Vec<&Mark>) = dots.into_iter().partition(|mark| mark.refused);
        chart.draw_series(fine.into_iter().map(|mark| Circle::new(place(mark), size, FINE.filled())))?;
        chart
            .draw_series(refused.into_iter().map(|mark| TriangleMarker::new(place(mark), size + 2, WRONG.filled())))?;
        Ok(())
    }

    fn draw_gaps(&self, area: &Area<'_>) -> Drawn {
        let unit = Unit::of(self.promised);
        let most = self.bars.iter().map(|bar| exact(bar.count)).fold(1.0, f64::max);
        let top = most * HEADROOM;
        let (more_from, more_to) = OVERFLOW;
        let more = f64::midpoint(more_from, more_to);
        let labels = (0..=LONG).map(f64::from).chain([more]).collect();
        let label = |spacings: f64| match spacings {
            spacings if spacings > f64::from(LONG) => "more".to_owned(),
            spacings => number(unit.count(self.promised) * spacings),
        };
        let mut chart = ChartBuilder::on(area)
            .margin_right(MARGIN)
            .x_label_area_size(AXIS_HEIGHT)
            .y_label_area_size(LABELS_WIDTH)
            .build_cartesian_2d(Axis { range: 0.0..more_to + 0.2, labels }, Axis::counts(most, top))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(MUTED)
            .x_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .y_label_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .axis_desc_style(("sans-serif", SMALL).into_font().color(&MUTED))
            .x_label_formatter(&|x| label(*x))
            .y_label_formatter(&|y| count(*y))
            .x_desc(format!("gap to the arrival before, in {}", unit.name))
            .y_desc("gaps")
            .draw()?;
        // The line first: it stands out above the bars, and covers none.
        chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, top)], INK.stroke_width(2))])?;
        // A single short gap among thousands must not vanish.
        let least = most * LEAST_BAR;
        chart.draw_series(self.bars.iter().map(|bar| {
            let colour = if bar.short { WRONG } else { FINE };
            Rectangle::new([(bar.from, 0.0), (bar.to, exact(bar.count).max(least))], colour.filled())
        }))?;
        let (x, y) = chart.backend_coord(&(1.0, top));
        let (left, upper) = area.get_base_pixel();
        let words = format!("promised: {}", spoken(self.promised));
        text(area, &words, (x - left + 6, y - upper + 8), SMALL, INK, HPos::Left)
    }
}

fn numbers(gaps: &Gaps, refused: usize, promised: Duration) -> String {
    let mut words = match gaps.arrivals() {
        0 => "nothing arrived".to_owned(),
        1 => "1 arrival".to_owned(),
        arrivals => format!("{arrivals} arrivals in {}", spoken(gaps.span())),
    };
    if refused > 0 {
        let _ = write!(words, ", {refused} refused");
    }
    if let Some(least) = gaps.least() {
        let (short, count) = (gaps.below(promised), gaps.count());
        let _ = write!(words, " · {short} of {count} gaps under {}, the least {}", spoken(promised), spoken(least));
    }
    words
}

/// What the marks mean; said where there are two kinds.
fn legend(area: &Area<'_>) -> Drawn {
    let right = WIDTH.cast_signed() - MARGIN;
    text(area, "refused", (right, 22), TEXT, MUTED, HPos::Right)?;
    area.draw(&TriangleMarker::new((right - 60, 22), 5, WRONG.filled()))?;
    text(area, "answered", (right - 80, 22), TEXT, MUTED, HPos::Right)?;
    area.draw(&Circle::new((right - 150, 22), 3, FINE.filled()))?;
    Ok(())
}

fn shortened(title: &str) -> String {
    let mut short: String = title.chars().take(MOST_TITLE).collect();
    if short.len() < title.len() {
        short.push('…');
    }
    short
}

/// A count as a coordinate.
fn exact(count: usize) -> f64 {
    u32::try_from(count).unwrap_or(u32::MAX).into()
}

/// The row that has this coordinate.
fn row_at(height: f64) -> usize {
    let mut row = 0;
    while exact(row) < -height - 0.5 {
        row += 1;
    }
    row
}

const HEAD_HEIGHT: u32 = 62;
const AXIS_HEIGHT: u32 = 46;
const FOOT_HEIGHT: u32 = 18;
const LABELS_WIDTH: u32 = 58;
const GAPS_WIDTH: u32 = 370;
/// Pixels in which times are told apart: what is left beside the histogram and the labels.
const TIMES_WIDTH: u32 = WIDTH - GAPS_WIDTH - LABELS_WIDTH - 2 * MARGIN.cast_unsigned();
const ROW_HEIGHT: u32 = 20;
const LEAST_PLOT: u32 = 130;
const MOST_PLOT: u32 = 640;
/// Pixels that a label needs.
const LABEL_HEIGHT: u32 = 14;
/// Pixels of a row under which its marks are small.
const CROWDED: usize = 8;
/// Room at either end of the time axis, so that no mark is cut; a part of its length.
const AIR: f64 = 0.015;
/// Room above the highest bar for the words beside the line.
const HEADROOM: f64 = 1.2;
/// The least height of a bar; a part of the highest.
const LEAST_BAR: f64 = 0.02;
const TITLE: i32 = 20;
const SMALL: i32 = 15;
/// Characters of a title that fit beside the legend.
const MOST_TITLE: usize = 80;
