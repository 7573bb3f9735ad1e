//! Allow and Disallow rules, packed, and the match against a path.

use super::encoding::{self, Path};

/// Rules gathered while a file is read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    text: String,
    entries: Vec<Entry>,
}

/// One rule: its path is a range of the draft's text.
#[derive(Debug)]
struct Entry {
    start: usize,
    end: usize,
    /// Octets of the path as the file had it, normalised: RFC 9309 §2.2.2 has the most octets win.
    octets: usize,
    allow: bool,
}

impl Draft {
    /// Adds a rule by its written path. An empty path is no rule (RFC 9309 §2.2.2).
    pub(super) fn add(&mut self, allow: bool, written: &[u8]) {
        let mut path = encoding::pattern(written);
        if path.is_empty() || path == "$" {
            return;
        }
        if !path.starts_with(['/', '*']) {
            path.insert(0, '/');
        }
        let start = self.text.len();
        push_without_idle_wildcards(&mut self.text, &path);
        self.entries.push(Entry { start, end: self.text.len(), octets: path.len(), allow });
    }

    /// Packs the rules in the order in which the first match decides: the longest first, Allow first among equals.
    pub(super) fn pack(mut self) -> Rules {
        let text = self.text.as_str();
        let path = |entry: &Entry| &text[entry.start..entry.end];
        self.entries
            .sort_unstable_by(|a, b| (b.octets, b.allow).cmp(&(a.octets, a.allow)).then_with(|| path(a).cmp(path(b))));
        self.entries.dedup_by(|a, b| a.allow == b.allow && path(a) == path(b));
        // What no rule matches is allowed, so Allow rules that nothing comes after change nothing.
        let deciding = self.entries.iter().rposition(|entry| !entry.allow).map_or(0, |last| last + 1);
        let mut packed = String::new();
        let mut rules = Vec::with_capacity(deciding);
        for entry in &self.entries[..deciding] {
            packed.push_str(path(entry));
            rules.push(Rule::new(packed.len(), entry.allow, path(entry)));
        }
        Rules { text: packed.into_boxed_str(), rules: rules.into_boxed_slice() }
    }
}

/// The rules of one agent: one run of text, and four bytes a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Rules {
    text: Box<str>,
    rules: Box<[Rule]>,
}

impl Rules {
    /// Whether the rules allow the path; the first that matches decides.
    pub(super) fn allow(&self, path: &Path<'_>) -> bool {
        let mut start = 0;
        let mut effort = MOST_EFFORT;
        for rule in &self.rules {
            let pattern = &self.text[start..rule.end()];
            start = rule.end();
            let spelled = path.spelled(rule.has(Rule::QUERY));
            let matches = if rule.has(Rule::SPECIAL) {
                match matches_special(pattern, spelled, &mut effort) {
                    Some(matches) => matches,
                    None => return false,
                }
            } else {
                spelled.starts_with(pattern)
            };
            if matches {
                return rule.has(Rule::ALLOW);
            }
        }
        true
    }
}

/// Where a rule's text ends, and three marks in the bits above. A file's first 500 KiB never come near the marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rule(u32);

impl Rule {
    const ALLOW: u32 = 1 << 31;
    /// It has a `?`.
    const QUERY: u32 = 1 << 30;
    /// It has a wildcard or an end mark.
    const SPECIAL: u32 = 1 << 29;
    const END: u32 = Self::SPECIAL - 1;

    fn new(end: usize, allow: bool, pattern: &str) -> Self {
        let mark = |present: bool, mark: u32| if present { mark } else { 0 };
        let special = pattern.contains('*') || pattern.ends_with('$');
        let query = pattern.contains('?');
        Rule(end as u32 | mark(allow, Self::ALLOW) | mark(query, Self::QUERY) | mark(special, Self::SPECIAL))
    }

    fn end(self) -> usize {
        (self.0 & Self::END) as usize
    }

    fn has(self, mark: u32) -> bool {
        self.0 & mark != 0
    }
}

/// Whether a pattern with wildcards or an end mark matches; `None` when the effort is spent.
///
/// The pieces between wildcards are found one after the other, each at the first place after the one before. No later
/// place could do better, so nothing is ever tried twice: one rule costs no more than the lengths of both together.
fn matches_special(pattern: &str, path: &str, effort: &mut usize) -> Option<bool> {
    let (pattern, to_the_end) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let Some((head, rest)) = pattern.split_once('*') else {
        return Some(path == pattern);
    };
    let Some(mut path) = path.strip_prefix(head) else {
        return Some(false);
    };
    *effort = effort.checked_sub(path.len() + rest.len())?;
    let (middle, tail) = if to_the_end { rest.rsplit_once('*').unwrap_or(("", rest)) } else { (rest, "") };
    for piece in middle.split('*') {
        match path.find(piece) {
            Some(found) => path = &path[found + piece.len()..],
            None => return Some(false),
        }
    }
    Some(path.ends_with(tail))
}

/// Copies a path without the wildcards that change nothing: one beside another, and one at the end.
fn push_without_idle_wildcards(text: &mut String, path: &str) {
    let path = path.strip_suffix("*$").unwrap_or(path).trim_end_matches('*');
    for character in path.chars() {
        let is_idle = character == '*' && text.ends_with('*');
        if !is_idle {
            text.push(character);
        }
    }
}

/// Bytes of path and pattern that one question may look at, counted for wildcard rules that begin as the path does. Ten
/// thousand such rules and a path of 1,600 bytes are within it; it keeps a hostile file to about 20 ms.
const MOST_EFFORT: usize = 16 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `+/path` allows, `-/path` denies.
    fn rules(written: &[&str]) -> Rules {
        let mut draft = Draft::default();
        for rule in written {
            draft.add(rule.starts_with('+'), &rule.as_bytes()[1..]);
        }
        draft.pack()
    }

    fn allows(written: &[&str], path: &str) -> bool {
        rules(written).allow(&Path::new(path))
    }

    #[test]
    fn the_longest_path_wins_wherever_it_stands() {
        for written in [["-/", "+/public", "-/public/drafts"], ["-/public/drafts", "+/public", "-/"]] {
            assert!(!allows(&written, "/other"));
            assert!(allows(&written, "/public/page"));
            assert!(!allows(&written, "/public/drafts/1"));
        }
    }

    #[test]
    fn allow_wins_between_equals() {
        assert!(allows(&["-/page", "+/page"], "/page"));
        assert!(allows(&["-/*ge", "+/p*e"], "/page"), "of the same length, though not the same");
    }

    #[test]
    fn wildcards_and_end_marks() {
        let cases = [
            ("-/fish", "/fishheads/yummy.html", false),
            ("-/fish", "/Fish", true),
            ("-/fish*", "/fish", false),
            ("-/fish/", "/fish", true),
            ("-/*.php", "/folder/filename.php?parameters", false),
            ("-/*.php$", "/filename.php", false),
            ("-/*.php$", "/filename.php?parameters", true),
            ("-/fish*.php", "/fishheads/catfish.php?x", false),
            ("-/fish*.php", "/Fish.PHP", true),
            ("-*", "/anything", false),
            ("-*$", "/anything", false),
            ("-/$", "/", false),
            ("-/$", "/page", true),
            ("-/a*a$", "/a", true),
            ("-/a*a$", "/aa", false),
            ("-/a**b", "/axb", false),
            ("-/*/*/x", "/1/2/x", false),
            ("-/*/*/x", "/1/x", true),
            ("-$", "/", true),
            ("-private", "/private/x", false),
        ];
        for (rule, path, allowed) in cases {
            assert_eq!(allows(&[rule], path), allowed, "{rule} {path}");
        }
    }

    #[test]
    fn a_rule_with_a_query_sees_an_encoded_slash_as_a_slash() {
        assert!(!allows(&["-/go?to=https://x"], "/go?to=https%3A%2F%2Fx"));
        assert!(!allows(&["-/go?to=https%3A%2F%2Fx"], "/go?to=https://x"));
        assert!(!allows(&["-/*to=http%3A%2F%2F"], "/go?to=http%3A%2F%2Fx"), "the same text matches itself");
        assert!(!allows(&["-/*to=http://"], "/go?to=http://x"), "the same text matches itself");
        assert!(allows(&["-/a/b?c"], "/a%2Fb?c"), "in a path it is no separator");
    }

    #[test]
    fn rules_that_change_nothing_are_not_kept() {
        assert_eq!(rules(&["+/", "+/a", "-"]), Rules::default());
        let kept = rules(&["-/search*", "-/search*", "+/a", "+/search/about"]);
        assert_eq!(&*kept.text, "/search/about/search");
        assert_eq!(kept.rules.len(), 2);
    }

    #[test]
    fn a_question_that_costs_too_much_is_answered_with_no() {
        let written: Vec<String> = (0..40_000).map(|number| format!("-/*{number}z")).collect();
        let rules = rules(&written.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(rules.allow(&Path::new("/a/page/of/an/honest/length?with=a&query=too")));
        assert!(!rules.allow(&Path::new(&format!("/{}", "y".repeat(8000)))));
    }

    /// Matching by trying everything, to compare with.
    fn matches_by_trying(pattern: &[u8], path: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'$'] => path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|skipped| matches_by_trying(rest, &path[skipped..])),
            [first, rest @ ..] => path.first() == Some(first) && matches_by_trying(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_finds_what_trying_everything_finds(pattern in "[/*][ab/*]{0,9}[$]?", path in "/[ab/]{0,12}") {
            let expected = matches_by_trying(pattern.as_bytes(), path.as_bytes());
            prop_assert_eq!(!allows(&[&format!("-{pattern}")], &path), expected);
        }

        #[test]
        fn a_path_is_matched_by_the_rule_that_is_written_like_it(path in "/[ -)+-~]{0,20}[ -#%-)+-~]") {
            let path = path.replace(['#', '$'], "");
            let rule = format!("-{path}");
            prop_assert!(!allows(&[&rule], &path));
        }
    }
}
