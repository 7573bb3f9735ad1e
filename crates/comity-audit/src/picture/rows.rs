//! Arrivals by worker: which row each has, and which of them are drawn.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Dot;

/// The rows of a plot, a worker each. Workers that sent nothing have theirs too: that they did not is worth seeing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    workers: usize,
    folded: bool,
    /// Whether there is a row for arrivals of no known worker.
    unknown: bool,
}

impl Rows {
    pub(super) fn of(dots: &[Dot]) -> Self {
        let workers = dots.iter().filter_map(|dot| dot.worker).max().map_or(0, |most| most.saturating_add(1));
        let unknown = workers == 0 || dots.iter().any(|dot| dot.worker.is_none());
        Self { workers: workers.min(MOST_ROWS), folded: workers > MOST_ROWS, unknown }
    }

    pub(super) fn count(self) -> usize {
        self.workers + usize::from(self.unknown)
    }

    /// Whether anything is known of workers.
    pub(super) fn named(self) -> bool {
        self.workers > 0
    }

    fn of_dot(self, dot: &Dot) -> usize {
        dot.worker.map_or(self.workers, |worker| worker.min(MOST_ROWS - 1))
    }

    pub(super) fn label(self, row: usize) -> String {
        match row {
            _ if !self.named() => String::new(),
            row if row == self.workers => "?".into(),
            row if self.folded && row + 1 == self.workers => format!("{row}+"),
            row => row.to_string(),
        }
    }

    /// The rows that are labelled, where there is room for that many.
    pub(super) fn labelled(self, room: usize) -> Vec<usize> {
        let step = [1, 2, 5, 10, 20, 50].into_iter().find(|step| self.count() / step <= room).unwrap_or(MOST_ROWS);
        (0..self.count()).step_by(step).collect()
    }
}

/// A mark to draw: an arrival, or a run of arrivals that touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) row: usize,
    pub(super) refused: bool,
    /// Since the first arrival of all.
    pub(super) from: Duration,
    /// The last of the run; the same for a single arrival.
    pub(super) to: Duration,
}

/// The marks to draw on a plot of so many pixels' width. Arrivals of a row at one pixel share a mark; where there would be
/// more than `most`, so do those at neighbouring pixels, and at last those a few pixels apart. Refused ones have marks of
/// their own and come last, so that none is covered.
pub(super) fn marks(dots: &[Dot], rows: Rows, pixels: u32, most: usize) -> Vec<Mark> {
    let first = dots.iter().map(|dot| dot.at).min().unwrap_or_default();
    let span = dots.iter().map(|dot| dot.at - first).max().unwrap_or_default().as_nanos().max(1);
    let pixels = u128::from(pixels.max(1));
    // By row and pixel, the first arrival there and the last.
    let mut cells = BTreeMap::new();
    for dot in dots {
        let at = dot.at - first;
        let pixel = at.as_nanos().saturating_mul(pixels) / span;
        let (from, to) = cells.entry((dot.refused, rows.of_dot(dot), pixel)).or_insert((at, at));
        (*from, *to) = (at.min(*from), at.max(*to));
    }
    let mut reach = 0;
    loop {
        let mut marks: Vec<Mark> = Vec::new();
        let mut last_pixel = 0;
        for (&(refused, row, pixel), &(from, to)) in &cells {
            match marks.last_mut() {
                Some(last) if last.refused == refused && last.row == row && pixel - last_pixel <= reach => last.to = to,
                // What falls on one pixel is a dot, whatever its times.
                _ => marks.push(Mark { row, refused, from, to: from }),
            }
            last_pixel = pixel;
        }
        if marks.len() <= most || reach > pixels {
            return marks;
        }
        reach = (reach * 2).max(1);
    }
}

/// A picture of more rows than that could not be read.
const MOST_ROWS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(millis: u64, worker: Option<usize>, refused: bool) -> Dot {
        Dot { at: Duration::from_millis(millis), worker, refused }
    }

    #[test]
    fn every_worker_has_a_row_and_the_nameless_share_one() {
        let labels = |dots: &[Dot]| {
            let rows = Rows::of(dots);
            (0..rows.count()).map(|row| rows.label(row)).collect::<Vec<_>>()
        };
        assert_eq!(labels(&[]), [""]);
        assert_eq!(labels(&[dot(0, None, false)]), [""]);
        assert_eq!(labels(&[dot(0, Some(2), false)]), ["0", "1", "2"]);
        assert_eq!(labels(&[dot(0, Some(0), false), dot(0, None, false)]), ["0", "?"]);
        let many = labels(&[dot(0, Some(usize::MAX), false)]);
        assert_eq!((many.len(), many[255].as_str()), (256, "255+"));
    }

    #[test]
    fn marks_are_thinned_but_no_refusal_is_lost() {
        let dots: Vec<_> = (0..9000).map(|n| dot(n, Some((n % 3) as usize), n == 5000)).collect();
        let rows = Rows::of(&dots);
        let all = marks(&dots, rows, 500, 9000);
        assert!((1500..=1504).contains(&all.len()) && all.iter().all(|mark| mark.from == mark.to), "{}", all.len());
        let lines = marks(&dots, rows, 500, 100);
        let ms = Duration::from_millis;
        let line = |row, from, to, refused| Mark { row, refused, from: ms(from), to: ms(to) };
        assert_eq!(
            lines,
            [line(0, 0, 8997, false), line(1, 1, 8998, false), line(2, 2, 8999, false), line(2, 5000, 5000, true)]
        );
        assert_eq!(marks(&dots, rows, 500, 0), lines);
    }

    #[test]
    fn a_silence_stays_one_when_marks_are_joined() {
        let dots: Vec<_> = (0..1000).filter(|n| !(400..600).contains(n)).map(|n| dot(n, None, false)).collect();
        let lines = marks(&dots, Rows::of(&dots), 500, 10);
        assert_eq!(lines.iter().map(|line| line.from.as_millis()).collect::<Vec<_>>(), [0, 600]);
    }
}
