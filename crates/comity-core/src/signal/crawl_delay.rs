//! How a robots.txt asks for a pace: `Crawl-delay` and `Request-rate`. Neither has a standard; both only ever slow us.

use core::time::Duration;

use super::number;

/// The spacing a `Crawl-delay` asks for: a decimal number of seconds (`0.5`, `.5`, `10.0`).
///
/// An `s` may stand behind it. It rounds up: to the millisecond, from a minute on to the whole second. More than a year (366
/// days) is a year: nobody waits so long, but the host is not taken for one that asks for nothing. Zero asks for nothing and
/// is `None`, as are `inf`, `NaN`, negative numbers and anything else that is no number.
///
/// ```
/// use core::time::Duration;
/// use comity_core::signal::crawl_delay;
///
/// assert_eq!(crawl_delay("0.5"), Some(Duration::from_millis(500)));
/// assert_eq!(crawl_delay("120.4"), Some(Duration::from_secs(121)));
/// assert_eq!(crawl_delay("inf"), None);
/// ```
pub fn crawl_delay(value: &str) -> Option<Duration> {
    let value = value.trim();
    let number = value.strip_suffix(['s', 'S']).unwrap_or(value);
    sensible(number::seconds(number.trim_end())?)
}

/// The spacing a `Request-rate` asks for: so many requests in so many seconds (`1/10`), minutes (`1/10m`) or hours
/// (`1/1h`).
///
/// A time of day after it (`30/1m 0900-1700`) is ignored: the rate holds all day. A bare number is no rate; it is read
/// as the cautious one of its two meanings, one request in so many seconds. Rounding and `None` are as for
/// [`crawl_delay`]; no requests at all (`0/10`) is `None` too.
///
/// ```
/// use core::time::Duration;
/// use comity_core::signal::request_rate;
///
/// assert_eq!(request_rate("30/1m 0900-1700"), Some(Duration::from_secs(2)));
/// assert_eq!(request_rate("10"), Some(Duration::from_secs(10)));
/// ```
pub fn request_rate(value: &str) -> Option<Duration> {
    let rate = value.split_ascii_whitespace().next()?;
    let (requests, span) = rate.split_once('/').unwrap_or(("1", rate));
    let span = number::seconds(span).or_else(|| number::unit_span(&span.to_ascii_lowercase()))?;
    sensible(number::split(span, number::count(requests)?)?)
}

fn sensible(spacing: Duration) -> Option<Duration> {
    let rounded = match number::whole_millis(spacing) {
        short if short < MINUTE => short,
        long if long.subsec_nanos() > 0 => Duration::from_secs(long.as_secs().saturating_add(1)),
        long => long,
    };
    (rounded > Duration::ZERO).then_some(rounded.min(LONGEST))
}

/// From here on a delay is kept in whole seconds: what is rounded away no longer matters to anybody.
const MINUTE: Duration = Duration::from_secs(60);

/// Beyond a year the number says no more than "go away".
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b02_decimal_delays_are_read() {
        assert_eq!(crawl_delay("0.5"), Some(Duration::from_millis(500)));
        assert_eq!(crawl_delay("1.5"), Some(Duration::from_millis(1_500)));
        assert_eq!(crawl_delay(".5"), Some(Duration::from_millis(500)));
        assert_eq!(crawl_delay(" 10.0 "), Some(Duration::from_secs(10)));
    }

    #[test]
    fn b05_a_long_delay_rounds_up_to_the_second_and_a_short_one_to_the_millisecond() {
        assert_eq!(crawl_delay("120.4"), Some(Duration::from_secs(121)));
        assert_eq!(crawl_delay("120"), Some(Duration::from_secs(120)));
        assert_eq!(crawl_delay("59.9995"), Some(Duration::from_secs(60)));
        assert_eq!(crawl_delay("0.0001"), Some(Duration::from_millis(1)));
    }

    #[test]
    fn b02_what_is_no_sensible_delay_is_none() {
        for value in ["", "0", "0.0", "-1", "inf", "infinity", "NaN", "1e9", "ten", "s", "5x"] {
            assert_eq!(crawl_delay(value), None, "{value}");
        }
        for value in ["31622400", "31622401", "9".repeat(50).as_str()] {
            assert_eq!(crawl_delay(value), Some(LONGEST), "{value}");
        }
        assert_eq!(crawl_delay("5s"), Some(Duration::from_secs(5)));
    }

    #[test]
    fn b14_rates_become_spacings_and_a_bare_number_is_never_per_second() {
        assert_eq!(request_rate("1/10"), Some(Duration::from_secs(10)));
        assert_eq!(request_rate("1/10m"), Some(Duration::from_secs(600)));
        assert_eq!(request_rate("30/1m 0900-1700"), Some(Duration::from_secs(2)));
        assert_eq!(request_rate("10"), Some(Duration::from_secs(10)));
        assert_eq!(request_rate("1/1H"), Some(Duration::from_secs(3_600)));
        assert_eq!(request_rate("7/1m"), Some(Duration::from_millis(8_572)));
    }

    #[test]
    fn b14_what_is_no_sensible_rate_is_none() {
        for value in ["", "/", "1/", "/10", "0/10", "1/0", "-1/10", "1/-10", "1/10x", "1/inf", "x", "1/2/3"] {
            assert_eq!(request_rate(value), None, "{value}");
        }
    }
}
