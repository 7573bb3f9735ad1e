//! Which outputs, and what to do with what they hold.

use std::path::PathBuf;

use super::jsonl::Lines;
use super::time::Timestamp;

/// How [`Kept::open`](super::Kept::open) opens the outputs.
///
/// A WARC or lines that exist are an error unless one of `resume`, `if_newer` (both go on after what is there) and
/// `replace` is set. A directory may always exist: its files are replaced one by one as they are fetched.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-o`: a file a URL, under this directory.
    pub directory: Option<PathBuf>,
    /// `--warc`: gzipped by record when the name ends in `.gz`.
    pub warc: Option<PathBuf>,
    /// `--jsonl`: a line a URL.
    pub jsonl: Option<Lines>,
    /// `--resume`: go on with a run that was killed or stopped; see [`Kept::is_done`](super::Kept::is_done).
    pub resume: bool,
    /// `--if-newer`: a new run that asks for what has changed. Together with `resume`: go on with such a run.
    pub if_newer: bool,
    /// Start the WARC and the lines again, empty.
    pub replace: bool,
    /// `--head`: requests are `HEAD`; what was kept of a `GET` does not count as done, and the other way round.
    pub head: bool,
    /// Fields for the WARC's `warcinfo` record: `software`, `http-header-user-agent`, `operator`, ….
    pub about: Vec<(String, String)>,
    /// The time now.
    pub now: Timestamp,
}
