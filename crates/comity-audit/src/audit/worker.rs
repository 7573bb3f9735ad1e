//! One process of an arm: how it is started, what it says, how it ends.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::Builder;
use std::time::Duration;

use super::group::Group;
use super::stage::Setting;
use super::{AuditError, Event, Watch};
use crate::stop::lock;

/// A running process.
pub(super) struct Worker {
    group: Group,
    said: Arc<Mutex<Said>>,
    /// Closed when both outputs have ended.
    listening: mpsc::Receiver<()>,
    ended: Option<ExitStatus>,
}

/// What is kept of a process's output.
#[derive(Debug, Default)]
struct Said {
    /// The last line of standard output that is not blank.
    last: Option<String>,
    /// The last line of either output that was meant for us.
    report: Option<String>,
}

impl Worker {
    /// Starts the command as worker number `worker`.
    pub(super) fn start(
        command: &[OsString],
        settings: &[Setting],
        as_proxy: bool,
        worker: u32,
        watch: &Watch,
    ) -> Result<Self, AuditError> {
        let (program, arguments) = command.split_first().ok_or(AuditError::NoCommand)?;
        let mut command = Command::new(program);
        command.args(arguments.iter().map(|argument| filled_in(argument, settings)));
        command.envs(settings.iter().map(|(name, value)| (format!("COMITY_{}", name.to_uppercase()), value)));
        // The invented names mean nothing to anybody's proxy.
        for name in PROXIES {
            command.env_remove(name).env_remove(name.to_uppercase());
        }
        if let Some((_, proxy)) = settings.iter().find(|(name, _)| as_proxy && *name == "proxy") {
            command.env("http_proxy", proxy).env("HTTP_PROXY", proxy);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut group = Group::start(&mut command)
            .map_err(|error| AuditError::Start { program: program.to_string_lossy().into_owned(), source: error })?;

        let said = Arc::new(Mutex::new(Said::default()));
        let (listener, listening) = mpsc::channel();
        let out = group.leader().stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>);
        let err = group.leader().stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>);
        for (output, is_stdout) in [(out, true), (err, false)] {
            let Some(output) = output else { continue };
            let (said, watch, listener) = (Arc::clone(&said), Arc::clone(watch), listener.clone());
            Builder::new().name("output".into()).spawn(move || {
                // A pipe that cannot be read has nothing more to say.
                let _ = lines(output, |line| {
                    watch(Event::Line { worker, line });
                    lock(&said).note(line, is_stdout);
                });
                drop(listener);
            })?;
        }
        Ok(Self { group, said, listening, ended: None })
    }

    /// Whether it has ended.
    pub(super) fn poll(&mut self) -> io::Result<bool> {
        self.ended = self.group.poll()?;
        Ok(self.ended.is_some())
    }

    /// Asks it and all it started to end.
    pub(super) fn terminate(&mut self) {
        self.group.terminate();
    }

    /// Ends it and all it started.
    pub(super) fn kill(&mut self) {
        self.group.kill();
    }

    /// Its exit code, or the signal that ended it.
    pub(super) fn ended(&self) -> (Option<i32>, Option<i32>) {
        #[cfg(unix)]
        let signal = self.ended.as_ref().and_then(std::os::unix::process::ExitStatusExt::signal);
        #[cfg(not(unix))]
        let signal = None;
        (self.ended.and_then(|status| status.code()), signal)
    }

    /// Its own report: the last line that begins with `comity-audit:`, without that, or else the last one it printed.
    pub(super) fn said(&self) -> Option<String> {
        // Where something it left behind still holds the pipe, what there is has to do.
        let _ = self.listening.recv_timeout(LISTEN_ON);
        let said = lock(&self.said);
        said.report.clone().or_else(|| said.last.clone())
    }
}

impl Said {
    fn note(&mut self, line: &str, is_stdout: bool) {
        let bounded = |text: &str| super::unit::clean(text.trim(), MOST_SAID);
        if let Some(report) = line.trim_start().strip_prefix(MARK) {
            self.report = Some(bounded(report));
        } else if is_stdout && !line.trim().is_empty() {
            self.last = Some(bounded(line));
        }
    }
}

/// An argument with every `{name}` of a setting replaced by its value.
fn filled_in(argument: &OsStr, settings: &[Setting]) -> OsString {
    let Some(mut rest) = argument.to_str() else { return argument.to_owned() };
    let mut filled = String::new();
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let found = settings.iter().find_map(|(name, value)| {
            let after = from.strip_prefix('{')?.strip_prefix(name)?.strip_prefix('}')?;
            Some((value, after))
        });
        match found {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    filled.into()
}

/// Calls `on_line` with each line, the first part of a very long one; ends with the output.
fn lines(output: impl Read, mut on_line: impl FnMut(&str)) -> io::Result<()> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let mut is_start = true;
    loop {
        line.clear();
        if output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let is_whole = line.last() == Some(&b'\n');
        if is_start {
            on_line(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']));
        }
        is_start = is_whole;
    }
}

/// How a line begins that is meant for the report.
const MARK: &str = "comity-audit:";

/// Characters kept of a process's own report.
const MOST_SAID: usize = 200;

/// Bytes of a line that are looked at.
const LONGEST_LINE: u64 = 4096;

/// How long to wait for the rest of an ended process's output.
const LISTEN_ON: Duration = Duration::from_millis(200);

/// Variables by which programs find proxies.
const PROXIES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_values_and_other_braces_stay() {
        let settings = [("target", "http://a/".to_owned()), ("worker", "{target}".to_owned())];
        for (given, filled) in [
            ("{target}x", "http://a/x"),
            ("-H{\"a\":{target}}", "-H{\"a\":http://a/}"),
            ("{} {targets} {", "{} {targets} {"),
            ("{worker}", "{target}"),
        ] {
            assert_eq!(filled_in(OsStr::new(given), &settings), filled, "{given}");
        }
    }

    #[test]
    fn the_last_line_is_kept_and_one_for_us_before_it() {
        let mut said = Said::default();
        for (line, is_stdout) in [("one", true), ("two ", true), ("", true), ("an error", false)] {
            said.note(line, is_stdout);
        }
        assert_eq!((said.last.as_deref(), said.report.as_deref()), (Some("two"), None));
        said.note("comity-audit: 6 sent", false);
        assert_eq!(said.report.as_deref(), Some("6 sent"));
        said.note(&"x".repeat(1000), true);
        assert_eq!(said.last.map(|last| last.len()), Some(MOST_SAID));
    }

    #[test]
    fn a_very_long_line_is_one_line() {
        let text = format!("{}\nshort\r\nrest", "x".repeat(10_000));
        let mut seen = Vec::new();
        lines(text.as_bytes(), |line| seen.push(line.len())).unwrap();
        assert_eq!(seen, [4096, 5, 4]);
    }
}
