//! Flags about what is kept.

use std::path::{Path, PathBuf};

use clap::Args;
use comity_fetch::keep::{Lines, Options, Timestamp};

use crate::exit::Usage;

/// What is kept of the answers.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// Keep each body as a file under this directory
    ///
    /// Without any of --output, --warc and --jsonl, bodies are not kept, and a line per URL is printed:
    /// STATUS BYTES URL, then what else there is to say. STATUS is a word (failed, refused, robots, skipped,
    /// not_checked) where no answer came, BYTES is - where there is no body.
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Keep requests and answers in a WARC file, compressed where the name ends in .gz
    #[arg(long, value_name = "FILE")]
    warc: Option<PathBuf>,

    /// Write a JSON line per URL; - is standard output
    #[arg(long, value_name = "FILE", value_parser = lines)]
    jsonl: Option<Lines>,

    /// Go on with an earlier run: what it fetched is not fetched again
    #[arg(long, conflicts_with = "replace")]
    resume: bool,

    /// Start the WARC and the JSON lines again, empty
    #[arg(long)]
    replace: bool,

    /// Ask for what has changed since it was kept
    #[arg(long, conflicts_with = "replace")]
    pub(crate) if_newer: bool,

    /// Write a report of the run as JSON: counts in all and by host
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
}

impl OutputFlags {
    /// Options of the outputs.
    pub(crate) fn options(&self, head: bool, user_agent: &str, now: Timestamp) -> Result<Options, Usage> {
        for (flag, given) in [("--resume", self.resume), ("--if-newer", self.if_newer)] {
            if given && !self.remembers() {
                return Err(Usage(format!("{flag} needs what an earlier run kept: --output, --warc or --jsonl FILE")));
            }
        }
        Ok(Options {
            directory: self.output.clone(),
            warc: self.warc.clone(),
            jsonl: self.jsonl.clone(),
            resume: self.resume,
            if_newer: self.if_newer,
            replace: self.replace,
            head,
            about: vec![
                ("software".to_owned(), concat!("comity/", env!("CARGO_PKG_VERSION")).to_owned()),
                ("http-header-user-agent".to_owned(), user_agent.to_owned()),
            ],
            now,
        })
    }

    /// Finds out before the run whether its report can be written after it.
    pub(crate) fn check_report(&self) -> Result<(), Usage> {
        self.report.as_deref().map_or(Ok(()), |path| writable("--report", path))
    }

    /// Whether a line per URL goes to standard output, because nothing else is kept.
    pub(crate) fn prints_lines(&self) -> bool {
        self.output.is_none() && self.warc.is_none() && self.jsonl.is_none()
    }

    /// Whether a next run could go on with this one.
    pub(crate) fn remembers(&self) -> bool {
        self.output.is_some() || self.warc.is_some() || matches!(self.jsonl, Some(Lines::File(_)))
    }
}

/// Whether the file a flag names can be written, as far as can be told beforehand.
pub(super) fn writable(flag: &str, path: &Path) -> Result<(), Usage> {
    let wrong = |why: String| {
        let allowed = "allowed is a file in a directory that exists and can be written to";
        Err(Usage(format!("invalid value '{}' for '{flag} <FILE>': {why}; {allowed}", path.display())))
    };
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => return wrong("it is a directory".to_owned()),
        // A pipe or a device is written as it is.
        Ok(found) if !found.is_file() => return Ok(()),
        _ => {}
    }
    if path.file_name().is_none() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return wrong("it names no file".to_owned());
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !directory.is_dir() {
        return wrong(format!("there is no directory {}", directory.display()));
    }
    // Permissions, quotas, read-only disks: only trying tells.
    match tempfile::Builder::new().prefix(".comity-part-").tempfile_in(directory) {
        Ok(_) => Ok(()),
        Err(error) => wrong(format!("no file can be made there: {}", error.kind())),
    }
}

fn lines(text: &str) -> Result<Lines, String> {
    match text {
        "" => Err("allowed is the name of a file, or - for standard output".to_owned()),
        "-" => Ok(Lines::Stdout),
        name => Ok(Lines::File(name.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    fn options(words: &[&str]) -> Result<Options, String> {
        let flags = parse::<OutputFlags>(words).unwrap();
        flags.options(false, "example-bot/1", Timestamp::from_millis(1)).map_err(|usage| usage.to_string())
    }

    #[test]
    fn each_flag_reaches_its_option() {
        assert_eq!(options(&["-o", "kept"]).unwrap().directory, Some("kept".into()));
        assert_eq!(options(&["--warc", "a.warc.gz"]).unwrap().warc, Some("a.warc.gz".into()));
        assert_eq!(options(&["--jsonl", "-"]).unwrap().jsonl, Some(Lines::Stdout));
        assert_eq!(options(&["--jsonl", "a.jsonl"]).unwrap().jsonl, Some(Lines::File("a.jsonl".into())));
        assert!(options(&["--jsonl", "a", "--resume"]).unwrap().resume);
        assert!(options(&["--jsonl", "a", "--replace"]).unwrap().replace);
        assert!(options(&["--output", "a", "--if-newer"]).unwrap().if_newer);
        let about = options(&[]).unwrap().about;
        assert!(about.contains(&("http-header-user-agent".to_owned(), "example-bot/1".to_owned())), "{about:?}");
        assert_eq!(parse::<OutputFlags>(&["--report", "r.json"]).unwrap().report, Some("r.json".into()));
    }

    #[test]
    fn a_report_that_could_not_be_written_is_known_before_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str| {
            let path = dir.path().join(name);
            let flags = parse::<OutputFlags>(&["--report", path.to_str().unwrap()]).unwrap();
            flags.check_report().map_err(|usage| usage.to_string())
        };
        assert_eq!(check("report.json"), Ok(()));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "trying leaves nothing behind");
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(check("file"), Ok(()));
        for (name, why) in [
            ("", "is a directory"),
            ("none/r.json", "no directory"),
            ("new/", "no file"),
            ("file/r.json", "no directory"),
        ] {
            let error = check(name).unwrap_err();
            assert!(["--report", why, "allowed is"].iter().all(|part| error.contains(part)), "{name}: {error}");
        }
        assert_eq!(parse::<OutputFlags>(&["--report", "/dev/null"]).unwrap().check_report().map_err(|e| e.0), Ok(()));
        assert!(parse::<OutputFlags>(&[]).unwrap().check_report().is_ok());
    }

    #[test]
    fn lines_are_printed_where_nothing_is_kept() {
        let prints = |words: &[&str]| parse::<OutputFlags>(words).unwrap().prints_lines();
        assert!(prints(&[]) && prints(&["--report", "r.json"]));
        assert!(!prints(&["-o", "a"]) && !prints(&["--warc", "a"]) && !prints(&["--jsonl", "-"]));
    }

    #[test]
    fn going_on_needs_something_to_go_on_from() {
        for words in [&["--resume"][..], &["--if-newer"], &["--resume", "--jsonl", "-"]] {
            assert!(options(words).unwrap_err().contains("needs what an earlier run kept"), "{words:?}");
        }
        refused::<OutputFlags>(&["--resume", "--replace"], &["--resume", "--replace"]);
        refused::<OutputFlags>(&["--if-newer", "--replace"], &["--if-newer", "--replace"]);
        refused::<OutputFlags>(&["--jsonl", ""], &["--jsonl", "allowed"]);
    }
}
