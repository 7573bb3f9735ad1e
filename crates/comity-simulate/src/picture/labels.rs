//! Names beside their points, none over another.

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

/// Finds a place for each name beside its point, inside `within`; the first names get the best ones.
///
/// A name comes as its point, its width and its height. Where all places are taken it gets the one that hurts least.
pub(super) fn places(names: &[((i32, i32), i32, i32)], within: Place) -> Vec<Place> {
    let mut taken: Vec<Place> = Vec::new();
    let mut lines: Vec<[(i32, i32); 2]> = Vec::new();
    for &(point, width, height) in names {
        let cost = |(nth, place): &(usize, Place)| {
            let line = [point, place.nearest(point)];
            let outside = i32::from(!within.holds(place)) * 10_000;
            let over_names = 3_000 * count(taken.iter().filter(|other| other.grown(2).meets(place)));
            let over_points = 1_500 * count(names.iter().filter(|(other, ..)| place.grown(POINT).has(*other)));
            let under_lines = 100 * count(lines.iter().filter(|other| crosses(**other, place)));
            let own_line = 100 * count(taken.iter().filter(|other| crosses(line, other)))
                + 60 * count(lines.iter().filter(|other| meet(line, **other)));
            outside + over_names + over_points + under_lines + own_line + i32::try_from(nth / 3).unwrap_or(i32::MAX / 2)
        };
        let best = around(point, width, height).into_iter().enumerate().min_by_key(cost).map(|(_, place)| place);
        let best =
            best.unwrap_or(Place { left: point.0, top: point.1, right: point.0 + width, bottom: point.1 + height });
        lines.push([point, best.nearest(point)]);
        taken.push(best);
    }
    taken
}

/// All places to try, nearest first.
fn around(point: (i32, i32), width: i32, height: i32) -> Vec<Place> {
    let mut places = Vec::new();
    for distance in [9, 14, 20, 28, 38, 50, 64, 80, 100, 125, 150, 180, 215, 250] {
        // Right and left first, where a name reads best; then round about.
        for (x, y) in DIRECTIONS {
            let (x, y) = (point.0 + distance * x / 100, point.1 + distance * y / 100);
            let left = match x - point.0 {
                ..-3 => x - width,
                -3..=3 => x - width / 2,
                _ => x,
            };
            let top = y - height / 2;
            places.push(Place { left, top, right: left + width, bottom: top + height });
        }
    }
    places
}

impl Place {
    /// The point of it that is nearest to another.
    pub(super) fn nearest(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.left, self.right.max(self.left)), y.clamp(self.top, self.bottom.max(self.top)))
    }

    fn grown(&self, by: i32) -> Self {
        Self { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }

    fn has(&self, (x, y): (i32, i32)) -> bool {
        (self.left..=self.right).contains(&x) && (self.top..=self.bottom).contains(&y)
    }

    fn holds(&self, other: &Self) -> bool {
        self.has((other.left, other.top)) && self.has((other.right, other.bottom))
    }

    fn meets(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }
}

fn count<T>(what: impl Iterator<Item = T>) -> i32 {
    i32::try_from(what.count()).unwrap_or(i32::MAX / 1000)
}

/// Whether a line goes through a place.
fn crosses([(ax, ay), (bx, by)]: [(i32, i32); 2], place: &Place) -> bool {
    let steps = 24;
    (0..=steps).any(|step| place.has((ax + (bx - ax) * step / steps, ay + (by - ay) * step / steps)))
}

/// Whether two lines cross each other; those that begin at one point do not.
fn meet([a, b]: [(i32, i32); 2], [c, d]: [(i32, i32); 2]) -> bool {
    let side = |(px, py): (i32, i32), (qx, qy): (i32, i32), (rx, ry): (i32, i32)| {
        ((qx - px) * (ry - py) - (qy - py) * (rx - px)).signum()
    };
    side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0
}

/// How far from a name's letters a point should be.
const POINT: i32 = 5;

/// In hundredths of the distance.
const DIRECTIONS: [(i32, i32); 16] = [
    (100, 0),
    (-100, 0),
    (92, -38),
    (92, 38),
    (-92, -38),
    (-92, 38),
    (71, 71),
    (71, -71),
    (-71, 71),
    (-71, -71),
    (38, 92),
    (38, -92),
    (-38, 92),
    (-38, -92),
    (0, 120),
    (0, -120),
];

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Place = Place { left: 0, top: 0, right: 480, bottom: 320 };

    #[test]
    fn a_name_alone_stands_to_the_right_of_its_point() {
        let placed = places(&[((200, 100), 60, 14)], WITHIN);
        assert_eq!(placed, [Place { left: 209, top: 93, right: 269, bottom: 107 }]);
        let placed = places(&[((470, 100), 60, 14)], WITHIN);
        assert_eq!(placed[0].right, 461, "or to the left where there is no room");
    }

    #[test]
    fn names_in_a_crowd_cover_neither_one_another_nor_a_point() {
        let names: Vec<_> = (0..14).map(|n| ((420 + n % 5, 40 + n / 2), 50 + 4 * n, 14)).collect();
        let placed = places(&names, WITHIN);
        for (n, place) in placed.iter().enumerate() {
            assert!(WITHIN.holds(place), "{place:?}");
            assert!(placed[..n].iter().all(|other| !other.meets(place)), "{n}: {placed:?}");
            assert!(names.iter().all(|(point, ..)| !place.has(*point)), "{n}: {placed:?}");
        }
    }

    #[test]
    fn a_name_too_wide_for_the_paper_is_still_placed() {
        assert_eq!(places(&[((10, 10), 9000, 14)], WITHIN).len(), 1);
    }

    #[test]
    fn lines_cross_where_they_do() {
        assert!(meet([(0, 0), (10, 10)], [(0, 10), (10, 0)]));
        assert!(!meet([(0, 0), (10, 10)], [(0, 0), (10, 0)]));
        assert!(crosses([(0, 0), (100, 100)], &Place { left: 45, top: 45, right: 60, bottom: 60 }));
    }
}
