//! Why URLs were not fetched: equal reasons are one, with how often and where first.

use comity_fetch::keep::Record;

/// Reasons in the order they came up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons {
    kinds: Vec<Kind>,
    /// URLs with reasons past those that are told apart.
    others: u64,
    /// The first broken links, with their status.
    broken: Vec<String>,
    broken_count: u64,
}

/// Reasons that differ in numbers and in the host at most.
#[derive(Clone, Debug)]
struct Kind {
    key: String,
    first: String,
    count: u64,
}

impl Reasons {
    /// Takes in why a URL was not fetched; `word` is what became of it.
    pub(crate) fn note(&mut self, word: &str, record: &Record, why: &str) {
        let key = format!("{word} {}", key(why, host(&record.url)));
        if let Some(kind) = self.kinds.iter_mut().find(|kind| kind.key == key) {
            kind.count += 1;
        } else if self.kinds.len() < KINDS {
            let first = format!("{word:11}  {}  {why}", record.url);
            self.kinds.push(Kind { key, first: first.trim_end().to_owned(), count: 1 });
        } else {
            self.others += 1;
        }
    }

    /// Takes in a broken link.
    pub(crate) fn note_broken(&mut self, record: &Record, status: u16) {
        self.broken_count += 1;
        if self.broken.len() < SHOWN {
            self.broken.push(format!("{status:<11}  {}", record.url));
        }
    }

    /// The first broken links and the first reasons, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = self.broken.clone();
        match self.broken_count - self.broken.len() as u64 {
            0 => {}
            1 => lines.push("and 1 more broken link".to_owned()),
            more => lines.push(format!("and {more} more broken links")),
        }
        let shown = if self.kinds.len() == SHOWN + 1 { SHOWN + 1 } else { SHOWN };
        lines.extend(self.kinds.iter().take(shown).map(|kind| match kind.count {
            1 => kind.first.clone(),
            count => format!("{}  ({count} like this)", kind.first),
        }));
        let more = self.kinds.iter().skip(shown).map(|kind| kind.count).sum::<u64>() + self.others;
        if more > 0 {
            lines.push(format!("and {more} for other reasons"));
        }
        lines
    }
}

/// A reason without its numbers and its host.
fn key(why: &str, host: &str) -> String {
    let why = if host.is_empty() { why.to_owned() } else { why.replace(host, "HOST") };
    let mut key = String::with_capacity(why.len());
    for c in why.chars() {
        match c {
            '0'..='9' if key.ends_with('0') => {}
            '0'..='9' => key.push('0'),
            c => key.push(c),
        }
    }
    key
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split(['/', '?', ':']).next().unwrap_or_default()
}

/// Enough to see what is wrong, few enough to be read.
const SHOWN: usize = 5;
/// Reasons told apart: what differs in more than numbers cannot fill the memory.
const KINDS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use comity_fetch::keep::{Outcome, Timestamp};

    fn record(url: &str) -> Record {
        Record::new(url, Outcome::Refused, Timestamp::default(), Timestamp::default())
    }

    #[test]
    fn equal_reasons_are_one_with_a_count() {
        let mut reasons = Reasons::default();
        for n in 0..10 {
            let url = format!("https://h{n}.example/x");
            reasons.note("refused", &record(&url), &format!("h{n}.example asked to wait {n} h"));
            reasons.note("failed", &record(&url), "connection refused");
        }
        reasons.note("robots", &record("https://a.example/y"), "");
        assert_eq!(
            reasons.lines(),
            [
                "refused      https://h0.example/x  h0.example asked to wait 0 h  (10 like this)",
                "failed       https://h0.example/x  connection refused  (10 like this)",
                "robots       https://a.example/y",
            ]
        );
    }

    #[test]
    fn a_few_are_shown_and_the_others_counted() {
        let mut reasons = Reasons::default();
        let word = |n: u32| char::from_u32('a' as u32 + n).unwrap_or('?').to_string().repeat(3);
        for n in 0..6 {
            reasons.note("failed", &record("https://a.example/"), &word(n));
        }
        assert!(reasons.lines().len() == 6 && reasons.lines()[5].ends_with("fff"), "one more takes its own line");
        for n in 0..200 {
            reasons.note("failed", &record("https://a.example/"), &word(n));
        }
        assert_eq!(reasons.lines().len(), 6);
        assert_eq!(reasons.lines()[5], "and 196 for other reasons");
    }

    #[test]
    fn broken_links_are_named_with_their_status() {
        let mut reasons = Reasons::default();
        for n in 0..7 {
            reasons.note_broken(&record(&format!("https://a.example/{n}")), 404);
        }
        let lines = reasons.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (6, "404          https://a.example/0"));
        assert_eq!(lines[5], "and 2 more broken links");
    }
}
