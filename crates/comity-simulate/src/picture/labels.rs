//! Names beside their points, none over another.

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) right: i32,
    pub(super) bottom: i32,
}

/// A name to place: its point, its width and its height.
pub(super) type Name = ((i32, i32), i32, i32);

/// Finds a place for each name beside its point, inside `within`.
///
/// Each name in turn gets the best place beside those before it; then each in turn a better one, now that all are known.
/// Where all places are taken it gets the one that hurts least.
pub(super) fn places(names: &[Name], within: Place) -> Vec<Place> {
    let mut places: Vec<Option<Place>> = vec![None; names.len()];
    for _ in 0..ROUNDS {
        for (nth, &name) in names.iter().enumerate() {
            places[nth] = None;
            places[nth] = Some(best(name, names, &places, within));
        }
    }
    places.into_iter().flatten().collect()
}

/// The best place for one name, with the others where they are.
fn best((point, width, height): Name, names: &[Name], others: &[Option<Place>], within: Place) -> Place {
    let placed: Vec<(Place, Line)> = names
        .iter()
        .zip(others)
        .filter_map(|(&(point, ..), other)| other.map(|other| (other, [point, other.nearest(point)])))
        .collect();
    let cost = |(nth, place): &(usize, Place)| {
        let line = [point, place.nearest(point)];
        let outside = i32::from(!within.holds(place)) * OUTSIDE;
        let points = count(names.iter().filter(|(other, ..)| place.grown(POINT).has(*other)));
        let passed = names.iter().filter(|(other, ..)| *other != point && crosses(line, &around_point(*other)));
        let near = placed.iter().map(|(other, other_line)| {
            i32::from(other.grown(3).meets(&place.widened(3))) * OVER_NAME
                + i32::from(crosses(*other_line, place) || crosses(line, &other.grown(1))) * THROUGH_NAME
                + i32::from(meet(line, *other_line)) * OVER_LINE
        });
        let far = i32::try_from(nth / 2).unwrap_or(OUTSIDE);
        outside + points * OVER_POINT + count(passed) * PAST_POINT + near.sum::<i32>() + far
    };
    let candidates = around(point, width, height).into_iter().enumerate();
    let here = Place { left: point.0, top: point.1, right: point.0 + width, bottom: point.1 + height };
    candidates.min_by_key(cost).map_or(here, |(_, place)| place)
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

    fn widened(&self, by: i32) -> Self {
        Self { left: self.left - by, right: self.right + by, ..*self }
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

fn around_point((x, y): (i32, i32)) -> Place {
    Place { left: x, top: y, right: x, bottom: y }.grown(POINT - 1)
}

fn count<T>(what: impl Iterator<Item = T>) -> i32 {
    i32::try_from(what.count()).unwrap_or(i32::MAX / 1000)
}

/// Whether a line goes through a place.
fn crosses([(ax, ay), (bx, by)]: Line, place: &Place) -> bool {
    let steps = 24;
    (0..=steps).any(|step| place.has((ax + (bx - ax) * step / steps, ay + (by - ay) * step / steps)))
}

/// Whether two lines cross each other; those that begin at one point do not.
fn meet([a, b]: Line, [c, d]: Line) -> bool {
    let side = |(px, py): (i32, i32), (qx, qy): (i32, i32), (rx, ry): (i32, i32)| {
        ((qx - px) * (ry - py) - (qy - py) * (rx - px)).signum()
    };
    side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0
}

/// From a point to its name.
type Line = [(i32, i32); 2];

/// How often every name is placed.
const ROUNDS: usize = 4;
/// What hurts how much; a place further off costs a little too.
const OUTSIDE: i32 = 20_000;
const OVER_NAME: i32 = 3_000;
const OVER_POINT: i32 = 1_500;
const THROUGH_NAME: i32 = 400;
const OVER_LINE: i32 = 60;
const PAST_POINT: i32 = 50;
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
