//! Common and Combined Log Format, and what Apache and nginx are made to write in their likeness.

use super::time::Stamp;
use super::{Party, Row, parse_address};

/// Reads `[vhost] client ident user [time] "request" status bytes ["referrer" "agent" …]`. The time may stand without
/// brackets where it is a number (nginx's `$msec`); a `$msec` behind everything else makes the time finer.
pub(super) fn row(text: &str) -> Option<Row> {
    let (before, request) = text.split_at_checked(unescaped_quote(text)?)?;
    let (time, names) = time_and_names(before)?;
    let (vhost, client) = who(&names)?;
    let (status, rest) = answer(request.get(1..)?)?;
    let tail = Tail::of(rest);
    let stamp = tail.millis.filter(|finer| finer.nanos.abs_diff(time.nanos) <= SAME_MOMENT).unwrap_or(time);
    Some(Row { stamp, status, party: Party::new(client, vhost, tail.agent.as_deref())? })
}

/// The time, and the words before it. Of several times in brackets the last counts: what stands before it is a user's
/// name, and a user names himself as he likes.
fn time_and_names(before: &str) -> Option<(Stamp, Vec<&str>)> {
    if let Some((names, rest)) = before.rsplit_once('[')
        && let Some((time, _)) = rest.split_once(']')
        && let Some(stamp) = Stamp::parse(time)
    {
        return Some((stamp, names.split_whitespace().collect()));
    }
    let mut words: Vec<_> = before.split_whitespace().collect();
    let (at, stamp) = words.iter().enumerate().find_map(|(at, word)| Some((at, Stamp::parse(word)?)))?;
    words.remove(at);
    Some((stamp, words))
}

/// The virtual host, where there is one, and the client.
fn who<'a>(words: &[&'a str]) -> Option<(Option<&'a str>, &'a str)> {
    match *words {
        // A list of addresses out of X-Forwarded-For: the first is the client.
        [first, ..] if first.ends_with(',') => Some((None, first.trim_end_matches(','))),
        [first, second, ..] if names_host(first) && parse_address(second).is_some() => Some((Some(first), second)),
        [first, ..] if parse_address(first).is_some() => Some((None, first)),
        // Where the server looks clients' names up: `client ident user`, or four words with a virtual host first.
        [first, second, _, _, ..] if second != "-" && names_host(first) && names_host(second) => {
            Some((Some(first), second))
        }
        [first, second, ..] if names_host(first) && (second == "-" || words.len() <= 3) => Some((None, first)),
        [first] if names_host(first) => Some((None, first)),
        // Something else stands before the line, such as the name of the program that wrote it.
        _ => words.iter().find(|word| parse_address(word).is_some()).map(|client| (None, *client)),
    }
}

fn names_host(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphanumeric() || "[_".contains(c))
        && word.chars().all(|c| c.is_alphanumeric() || ".:-_[]".contains(c))
}

/// The status, and what follows it. A request may hold anything, quotes too: it ends at the first quote with a status
/// behind it.
fn answer(request: &str) -> Option<(Option<u16>, &str)> {
    let ends = |escaped_too: bool| {
        request.match_indices('"').filter(move |&(at, _)| escaped_too || !escaped(request, at)).find_map(|(at, _)| {
            let rest = request.get(at + 1..)?.strip_prefix(' ')?;
            let (status, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            let numeric = status.len() == 3 && status.bytes().all(|byte| byte.is_ascii_digit());
            // Apache writes a dash where no answer was begun.
            (numeric || status == "-").then(|| (status.parse().ok().filter(|&status| status > 0), rest))
        })
    };
    ends(false).or_else(|| ends(true))
}

/// What follows the status.
#[derive(Default)]
struct Tail {
    agent: Option<String>,
    /// The last word that looks like `$msec`.
    millis: Option<Stamp>,
}

impl Tail {
    fn of(mut rest: &str) -> Self {
        let (mut tail, mut quoted) = (Self::default(), 0);
        loop {
            rest = rest.trim_start();
            if let Some(opened) = rest.strip_prefix('"') {
                // A truncated line never closes its last quote.
                let end = unescaped_quote(opened).unwrap_or(opened.len());
                quoted += 1;
                if quoted == AGENT {
                    tail.agent = Some(unescape(&opened[..end]));
                }
                rest = opened.get(end + 1..).unwrap_or_default();
                continue;
            }
            let (word, more) = rest.split_once(' ').unwrap_or((rest, ""));
            if word.is_empty() {
                return tail;
            }
            if word.find('.') == Some(SECONDS_DIGITS) && word.len() == SECONDS_DIGITS + ".123".len() {
                tail.millis = Stamp::parse(word).or(tail.millis);
            }
            rest = more;
        }
    }
}

/// Where the first quote stands that no backslash is before.
fn unescaped_quote(text: &str) -> Option<usize> {
    text.match_indices('"').map(|(at, _)| at).find(|&at| !escaped(text, at))
}

/// Whether an odd number of backslashes stands there.
fn escaped(text: &str, at: usize) -> bool {
    text.as_bytes()[..at].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// `\"` and `\\` as what they stand for; other escapes as they are.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = (c == '\\').then(|| chars.next_if(|next| ['"', '\\'].contains(next))).flatten();
        plain.push(next.unwrap_or(c));
    }
    plain
}

/// Of the quoted fields behind the status, the agent is the second.
const AGENT: usize = 2;
/// Digits of the seconds since the Unix epoch, until the year 2286.
const SECONDS_DIGITS: usize = 10;
/// A server takes its two times of an answer's end from the same clock reading; in between only rounding.
const SAME_MOMENT: u64 = 2_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_where_a_status_follows() {
        for (request, status, rest) in [
            (r#"GET / HTTP/1.1" 200 5"#, Some(200), "5"),
            (r#"GET /"a" HTTP/1.1" 404 5 "-" "x""#, Some(404), r#"5 "-" "x""#),
            (r#"GET /\" 200 5 HTTP/1.1" 404 7"#, Some(404), "7"),
            (r#"GET /a\" 404 7"#, Some(404), "7"),
            (r#"" 400 0"#, Some(400), "0"),
            (r#"-" - -"#, None, "-"),
            (r#"GET / HTTP/1.1" 200"#, Some(200), ""),
        ] {
            assert_eq!(answer(request), Some((status, rest)), "{request}");
        }
        for request in ["", "GET /", r#"GET / HTTP/1.1" 20"#, r#"GET / HTTP/1.1""#, r#"GET / HTTP/1.1" 2000 5"#] {
            assert_eq!(answer(request), None, "{request}");
        }
    }

    #[test]
    fn milliseconds_behind_everything_else_make_the_time_finer_if_they_are_of_the_same_moment() {
        let millis = |tail: &str| {
            let line = format!(r#"192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] "GET / HTTP/1.1" 200 23 {tail}"#);
            row(&line).unwrap().stamp.nanos / 1_000_000 - 1_700_000_000_000
        };
        assert_eq!(millis(r#""-" "x""#), 0);
        assert_eq!(millis(r#""-" "x" 0.004 1700000000.623"#), 623);
        assert_eq!(millis("1700000000.623 0.004"), 623);
        assert_eq!(millis(r#""-" "x" "1700000000.623""#), 0); // a word of the client's own
        assert_eq!(millis(r#""-" "x" 1700000009.623"#), 0);
    }

    #[test]
    fn the_client_is_told_from_its_neighbours() {
        for (words, host, client) in [
            ("192.0.2.1 - -", None, "192.0.2.1"),
            ("192.0.2.1 - Jo Public", None, "192.0.2.1"),
            ("example.org:443 192.0.2.1 - jo", Some("example.org:443"), "192.0.2.1"),
            ("example.org 2001:db8::1 - -", Some("example.org"), "2001:db8::1"),
            ("192.0.2.80:80 192.0.2.1 - -", Some("192.0.2.80:80"), "192.0.2.1"),
            ("192.0.2.1, 198.51.100.7 - -", None, "192.0.2.1"),
            ("client.example.net - -", None, "client.example.net"),
            ("client.example.net - Jo Public", None, "client.example.net"),
            ("example.org:80 client.example.net - -", Some("example.org:80"), "client.example.net"),
            ("web-1 | 192.0.2.1 - -", None, "192.0.2.1"),
            ("192.0.2.1", None, "192.0.2.1"),
        ] {
            let words: Vec<_> = words.split(' ').collect();
            assert_eq!(who(&words), Some((host, client)), "{words:?}");
        }
        assert_eq!(who(&["<190>Jan", "1", "00:00:00", "server", "app:"]), None);
        assert_eq!(who(&[]), None);
    }
}
