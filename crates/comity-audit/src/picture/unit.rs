//! Lengths of time as people read them.

use std::time::Duration;

/// A unit for an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    seconds: f64,
}

impl Unit {
    /// The unit in which that length is a number of few digits.
    pub(super) fn of(length: Duration) -> Self {
        let (name, seconds) = match length.as_secs_f64() {
            ..1e-3 => ("µs", 1e-6),
            ..1.0 => ("ms", 1e-3),
            ..600.0 => ("s", 1.0),
            ..36_000.0 => ("min", 60.0),
            ..864_000.0 => ("h", 3600.0),
            _ => ("d", 86_400.0),
        };
        Self { name, seconds }
    }

    /// How many of it that length has.
    pub(super) fn count(self, length: Duration) -> f64 {
        length.as_secs_f64() / self.seconds
    }
}

/// A length with its unit, such as `1.5 s`.
pub(super) fn spoken(length: Duration) -> String {
    let unit = Unit::of(length);
    if length.is_zero() { "0 s".into() } else { format!("{} {}", number(unit.count(length)), unit.name) }
}

/// A number to three digits or to the whole, without closing zeros.
pub(super) fn number(number: f64) -> String {
    let digits = match number.abs() {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{number:.digits$}");
    if !text.contains('.') {
        return text;
    }
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".into(),
        short => short.into(),
    }
}

/// A count for the side of an axis, where there is room for few characters.
pub(super) fn count(count: f64) -> String {
    match count {
        1e7.. => format!("{}M", number(count / 1e6)),
        1e4.. => format!("{}k", number(count / 1e3)),
        _ => number(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_at_a_glance() {
        for (nanos, text) in [
            (0, "0 s"),
            (1_500, "1.5 µs"),
            (12_345_678, "12.3 ms"),
            (1_000_000_000, "1 s"),
            (2_500_000_000, "2.5 s"),
            (600_000_000_000, "10 min"),
            (86_400_000_000_000, "24 h"),
            (864_000_000_000_000, "10 d"),
        ] {
            assert_eq!(spoken(Duration::from_nanos(nanos)), text);
        }
        assert_eq!((number(0.0), number(-0.0001), number(1200.0)), ("0".into(), "0".into(), "1200".into()));
    }

    #[test]
    fn counts_are_short() {
        let counts = [0.0, 150.0, 5000.0, 20_000.0, 1_500_000.0, 20_000_000.0].map(count);
        assert_eq!(counts, ["0", "150", "5000", "20k", "1500k", "20M"]);
    }
}
