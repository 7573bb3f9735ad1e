//! One URL's story, as a line of `--jsonl` tells it (`schema/fetch-line.schema.json`).

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// What became of one URL. Every key is written, `null` where there is nothing to say.
///
/// The caller fills what it knows; [`Body::finish`](super::Body::finish) fills `bytes`, `sha256`, `checked`,
/// `etag`, `last_modified`, and `run` always comes from [`Kept`](super::Kept).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The URL asked for, as the list named it. Its fragment does not matter.
    pub url: String,
    /// Where the answer came from, after redirects; `null` without an answer.
    #[serde(default)]
    pub final_url: Option<String>,
    /// The method of the last request: `GET`, `HEAD` or what the list named; a redirect may have changed it.
    pub method: String,
    /// Which of the requests for this URL it was, a short text (see [`List::variant`](crate::list::List::variant));
    /// `null` for a plain one, and for lines written before there were variants. Outputs are keyed by URL and variant.
    #[serde(default)]
    pub variant: Option<String>,
    /// Status of the last answer; `null` when none came.
    #[serde(default)]
    pub status: Option<u16>,
    /// In one word, what became of it.
    pub outcome: Outcome,
    /// Why it is not simply fetched, for people.
    #[serde(default)]
    pub reason: Option<String>,
    /// Requests sent for this URL: retries count, redirects do too.
    pub attempts: u32,
    /// What it waited for, in order.
    #[serde(default)]
    pub waits: Vec<Waited>,
    /// Length of the body kept, as received; `null` without one.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// SHA-256 of that body, 64 lower-case hexadecimal digits.
    #[serde(default)]
    pub sha256: Option<String>,
    /// When work on this URL began.
    pub started: Timestamp,
    /// When its outcome was known.
    pub finished: Timestamp,
    /// When the server last sent what is kept, or said that it still holds; `null` where nothing is kept.
    #[serde(default)]
    pub checked: Option<Timestamp>,
    /// The redirects followed, in order.
    #[serde(default)]
    pub redirects: Vec<Redirect>,
    /// `ETag` of what is kept (RFC 9110 section 8.8.3).
    #[serde(default)]
    pub etag: Option<String>,
    /// `Last-Modified` of what is kept (RFC 9110 section 8.8.2).
    #[serde(default)]
    pub last_modified: Option<String>,
    /// The error that ended it, with its causes.
    #[serde(default)]
    pub error: Option<String>,
    /// When the run this belongs to first began: a resumed run goes on under the same.
    #[serde(default)]
    pub run: Timestamp,
}

impl Record {
    /// A record of a `GET` that says no more than this.
    pub fn new(url: impl Into<String>, outcome: Outcome, started: Timestamp, finished: Timestamp) -> Self {
        Self {
            url: url.into(),
            final_url: None,
            method: "GET".to_owned(),
            variant: None,
            status: None,
            outcome,
            reason: None,
            attempts: 0,
            waits: Vec::new(),
            bytes: None,
            sha256: None,
            started,
            finished,
            checked: None,
            redirects: Vec::new(),
            etag: None,
            last_modified: None,
            error: None,
            run: Timestamp::default(),
        }
    }

    /// Ends it as failed, for this reason.
    pub(super) fn fail(&mut self, error: &str) {
        self.outcome = Outcome::Failed;
        self.error.get_or_insert_with(|| error.to_owned());
    }
}

/// What became of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An answer was received whole, whatever its status.
    Fetched,
    /// What is kept still holds: the server said so (304), or it is too young to be asked for again (no attempts).
    Unchanged,
    /// The server refused (429, 503, …) until we gave up.
    Refused,
    /// No answer: time-out, connection failure, broken body, too many redirects.
    Failed,
    /// robots.txt disallows it, or could not be read.
    Robots,
    /// We decided not to ask (a host with too many errors, a Crawl-delay over the limit, an unusable URL).
    Skipped,
    /// The run ended before its turn: nothing is known about it.
    NotChecked,
}

impl Outcome {
    /// Whether a resumed run leaves it alone: the answer is kept, or it is known that we may not ask.
    /// What was refused, failed, skipped or not checked is tried again.
    pub fn is_complete(self) -> bool {
        matches!(self, Self::Fetched | Self::Unchanged | Self::Robots)
    }

    /// Whether an answer is kept.
    pub fn is_held(self) -> bool {
        matches!(self, Self::Fetched | Self::Unchanged)
    }
}

/// One wait before an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// How long, in milliseconds.
    pub ms: u64,
    /// Whose limit it was: a host, a group, or `*`.
    pub scope: String,
    /// Which limit, on what evidence.
    pub because: String,
}

/// One redirect followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// Where it led.
    pub to: String,
}

/// What a conditional request needs (RFC 9110 section 13.1), as the last run received it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// For `If-None-Match`.
    pub etag: Option<String>,
    /// For `If-Modified-Since`.
    pub last_modified: Option<String>,
}
