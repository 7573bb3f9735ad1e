//! What is wrong with a line.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A line that adds nothing: `urls.txt:17: has no scheme; write https://example.org/a ("example.org/a")`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The file it is in; empty where that is not known.
    pub source: Arc<str>,
    /// Its number, from 1; 0 where that is not known.
    pub line: u64,
    /// Its first 200 characters, without the user of a URL and the headers and body of an object.
    pub text: String,
    /// What is wrong, said of the line: `is not UTF-8`.
    pub reason: Cow<'static, str>,
}

impl LineError {
    pub(super) fn new(line: &str, reason: impl Into<Cow<'static, str>>) -> Self {
        let text = shown(line.trim_start_matches('\u{feff}').trim());
        Self { source: Arc::from(""), line: 0, text, reason: reason.into() }
    }
}

/// What may be shown of a line.
fn shown(line: &str) -> String {
    let secret =
        ["\"headers\"", "\"body\""].iter().filter_map(|key| line.find(key)).min().filter(|_| line.starts_with('{'));
    let cut: String = line[..secret.unwrap_or(line.len())].chars().take(SHOWN).collect();
    let Some(start) = cut.find("://").map(|at| at + 3) else { return cut };
    let authority = cut[start..].split(['/', '?', '#', '"']).next().unwrap_or_default();
    match authority.rfind('@') {
        Some(at) => format!("{}***{}", &cut[..start], &cut[start + at..]),
        None => cut,
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.source.is_empty() {
            write!(f, "{}:", self.source)?;
        }
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        if !self.source.is_empty() || self.line > 0 {
            f.write_str(" ")?;
        }
        // Quoted as code would be: what a file holds does not get to move a terminal's cursor.
        write!(f, "{} ({:?})", self.reason, self.text)
    }
}

impl std::error::Error for LineError {}

const SHOWN: usize = 200;
