//! What can be asked of `cargo xtask arms`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::arm::{Arm, arms, worlds};
use super::run::Manner;
use super::tool::{OURS, TOOLS, Tool};

/// The command line, taken apart.
pub(super) struct Options {
    pub(super) arms: Vec<Arm>,
    pub(super) tools: Vec<Tool>,
    pub(super) manner: Manner,
    /// Runs at once.
    pub(super) jobs: usize,
    pub(super) json: Option<PathBuf>,
    /// A binary to measure instead of one that is built first.
    pub(super) comity: Option<PathBuf>,
}

pub(super) const USAGE: &str = "\
cargo xtask arms [ARM …] [OPTIONS]

  ARM             one of the arms; all without any
  --worlds        the simulator's worlds instead, ten minutes each, comity alone
  --tool NAME     only this tool (repeatable)
  --policy NAME   the policy comity is told; its own choice without
  --time TIME     stop each run after so long (90s, 5m)
  --again         in worlds, too: a second run with what the first one learned
  --once          in arms: no second run
  --phase TIME    begin so long after the border of a fixed window (0s)
  --jobs N        runs at once (8); they mostly wait
  --json FILE     the same as JSON
  --comity FILE   measure this binary, instead of a release build of what is here
";

impl Options {
    /// Reads the words after `arms`.
    pub(super) fn of(arguments: &[String]) -> anyhow::Result<Self> {
        let (mut names, mut tools) = (Vec::new(), Vec::new());
        let (mut is_worlds, mut again, mut once) = (false, false, false);
        let (mut manner, mut time, mut jobs) = (Manner::default(), None, JOBS);
        let (mut json, mut comity) = (None, None);
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("`{word}` needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--worlds" => is_worlds = true,
                "--again" => again = true,
                "--once" => once = true,
                "--tool" => tools.push(tool(value()?)?),
                "--policy" => manner.policy = Some(value()?.clone()),
                "--time" => time = Some(span(value()?)?),
                "--phase" => manner.phase = span(value()?)?,
                "--jobs" => jobs = value()?.parse().context("--jobs")?,
                "--json" => json = Some(value()?.into()),
                "--comity" => comity = Some(value()?.into()),
                option if option.starts_with('-') => bail!("there is no option `{option}`\n\n{USAGE}"),
                _ => names.push(word.as_str()),
            }
        }
        ensure!(jobs > 0, "--jobs: at least one");
        ensure!(time != Some(Duration::ZERO), "--time: nothing can be seen in no time");
        manner.again = if is_worlds { again } else { !once };
        let mut arms = if is_worlds { worlds(time.unwrap_or(TEN_MINUTES)) } else { arms() };
        let known: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
        if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
            bail!("no arm is called `{unknown}`; there is: {}", known.join(", "));
        }
        arms.retain(|arm| names.is_empty() || names.contains(&arm.name));
        if let Some(time) = time {
            arms.iter_mut().for_each(|arm| arm.at_most = time);
        }
        if tools.is_empty() {
            tools = TOOLS.into_iter().filter(|tool| !is_worlds || tool.name == OURS).collect();
        }
        Ok(Self { arms, tools, manner, jobs, json, comity })
    }
}

fn tool(name: &str) -> anyhow::Result<Tool> {
    let known = || TOOLS.map(|tool| tool.name).join(", ");
    TOOLS
        .into_iter()
        .find(|tool| tool.name == name)
        .with_context(|| format!("no tool is called `{name}`; there is: {}", known()))
}

/// `90s`, `5m`.
fn span(text: &str) -> anyhow::Result<Duration> {
    let parse = |number: &str, seconds: u64| number.parse().ok().and_then(|number: u64| number.checked_mul(seconds));
    let seconds = match text.strip_suffix('m') {
        Some(minutes) => parse(minutes, 60),
        None => parse(text.strip_suffix('s').unwrap_or(text), 1),
    };
    seconds.map(Duration::from_secs).with_context(|| format!("`{text}` is no time; 90s and 5m are"))
}

/// Runs at once.
const JOBS: usize = 8;

/// As long as the simulator's worlds.
const TEN_MINUTES: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> anyhow::Result<Options> {
        Options::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn names(options: &Options) -> (Vec<&str>, Vec<&str>) {
        let arms = options.arms.iter().map(|arm| arm.name).collect();
        (arms, options.tools.iter().map(|tool| tool.name).collect())
    }

    #[test]
    fn all_arms_with_all_tools_unless_some_are_named() {
        let all = options("").unwrap();
        assert_eq!((all.arms.len(), all.tools.len(), all.manner.again), (6, TOOLS.len(), true));
        let some = options("bucket-1 window-60 --tool comity --tool wget --once --time 2m").unwrap();
        assert_eq!(names(&some), (vec!["bucket-1", "window-60"], vec!["comity", "wget"]));
        assert_eq!((some.manner.again, some.arms[0].at_most), (false, Duration::from_secs(120)));
    }

    #[test]
    fn worlds_are_comity_s_and_last_ten_minutes() {
        let worlds = options("--worlds mix").unwrap();
        assert_eq!(names(&worlds), (vec!["mix"], vec!["comity"]));
        assert_eq!((worlds.manner.again, worlds.arms[0].at_most), (false, TEN_MINUTES));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (line, says) in [
            ("bucket-2", "no arm is called `bucket-2`; there is: bucket-10"),
            ("window-10", "no arm is called"),
            ("--tool wget9", "no tool is called `wget9`; there is: comity, wget"),
            ("--time soon", "`soon` is no time"),
            ("--time 0s", "nothing can be seen"),
            ("--jobs", "needs a value"),
            ("--jbos 3", "no option `--jbos`"),
        ] {
            let error = options(line).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
