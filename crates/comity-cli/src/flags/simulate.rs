//! Flags of a simulation: which worlds, which policies, what is shown.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::{output, values};
use crate::exit::Usage;

/// What is run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Worlds")]
pub(crate) struct WorldFlags {
    /// A scenario: the name of a built-in one, or a file [default: those that a policy is judged by]
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,

    /// A policy (repeatable); all is every one there is, file those that a scenario's file names [default: adaptive]
    ///
    /// Ours and those of other programs, as --list prints them. Some keep an interval they are told, such as
    /// "curl 100ms"; "interval 100ms" is the interval of our own.
    #[arg(long = "policy", value_name = "NAME")]
    pub(crate) policies: Vec<String>,

    /// How many seeds each policy is run from; figures are means over them [default: what the scenario says, mostly 10]
    ///
    /// gradient2 is run from one seed where this is left out: it never waits, a run of it sends up to tens of millions of
    /// requests, and each of them is simulated (some seconds a run).
    #[arg(long, value_name = "N", value_parser = seeds, allow_hyphen_values = true)]
    pub(crate) seeds: Option<NonZeroU32>,

    /// The first seed; the same seed gives the same run [default: 1]
    #[arg(long, value_name = "S", value_parser = seed, allow_hyphen_values = true)]
    pub(crate) seed: Option<u32>,

    /// How long each run lasts, in virtual time [default: what the scenario says]
    #[arg(long, value_name = "SPAN", value_parser = time, allow_hyphen_values = true)]
    pub(crate) time: Option<Duration>,
}

/// What is shown of it.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShownFlags {
    /// List the built-in scenarios and the policies, and run nothing
    #[arg(long, conflicts_with_all = ["scenarios", "policies", "seeds", "seed", "time", "json", "picture", "html", "spread", "events"])]
    pub(crate) list: bool,

    /// Print JSON (schema/simulate.schema.json), with every run
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw it into a file.svg: capacity against refusals where there are several policies, and runs over time
    ///
    /// Runs over time are those of the first seed: of the first policy, or of every policy where there is one scenario.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,

    /// The same as a page: a file.html that needs nothing else, with tables, and what each scenario is
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Show the least and the greatest value over the seeds beside each mean
    #[arg(long, conflicts_with = "json")]
    pub(crate) spread: bool,

    /// Show how many events were simulated, and how fast
    #[arg(long, conflicts_with = "json")]
    pub(crate) events: bool,

    /// Say nothing but errors: no progress
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

impl WorldFlags {
    /// The seeds, of which a scenario itself has `usual` many.
    pub(crate) fn seeds(&self, usual: NonZeroU32) -> impl Iterator<Item = u64> + use<> {
        let first = u64::from(self.seed.unwrap_or(1));
        first..first + u64::from(self.seeds.unwrap_or(usual).get())
    }
}

impl ShownFlags {
    /// Finds out before the run whether the pictures can be written.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        for (flag, path, extension) in [("--picture", &self.picture, "svg"), ("--html", &self.html, "html")] {
            let Some(path) = path else { continue };
            let given = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if !given.eq_ignore_ascii_case(extension) {
                let allowed = format!("allowed are names that end in .{extension}");
                return Err(Usage(format!("invalid value '{}' for '{flag} <FILE>': {allowed}", path.display())));
            }
            output::writable(flag, path)?;
        }
        Ok(())
    }

    /// Where the picture goes.
    pub(crate) fn picture(&self) -> Option<&Path> {
        self.picture.as_deref()
    }

    /// Where the page goes.
    pub(crate) fn html(&self) -> Option<&Path> {
        self.html.as_deref()
    }

    /// Whether anything is drawn.
    pub(crate) fn draws(&self) -> bool {
        self.picture.is_some() || self.html.is_some()
    }
}

fn seeds(text: &str) -> Result<NonZeroU32, String> {
    let allowed = |_| format!("allowed are whole numbers from 1 to {MOST_SEEDS}");
    values::count(text)
        .map_err(allowed)
        .and_then(|seeds| if seeds.get() > MOST_SEEDS { Err(allowed(String::new())) } else { Ok(seeds) })
}

fn seed(text: &str) -> Result<u32, String> {
    values::number(text).map_err(|_| format!("allowed are whole numbers from 0 to {}", u32::MAX))
}

fn time(text: &str) -> Result<Duration, String> {
    match values::some_span(text) {
        Ok(time) if time <= LONGEST_RUN => Ok(time),
        _ => Err("allowed are times above 0 such as 90s, 10min or 2h, up to 8760h (a year)".to_owned()),
    }
}

/// Each seed is a run whose outcome is kept until the end.
const MOST_SEEDS: u32 = 100_000;
/// Virtual time is counted in nanoseconds and told minute by minute.
const LONGEST_RUN: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    /// All flags of a simulation.
    #[derive(Debug, Args)]
    struct All {
        #[command(flatten)]
        worlds: WorldFlags,
        #[command(flatten)]
        shown: ShownFlags,
    }

    #[test]
    fn seeds_are_counted_from_the_first() {
        let seeds = |words: &[&str]| parse::<WorldFlags>(words).unwrap().seeds(NonZeroU32::MIN).collect::<Vec<_>>();
        assert_eq!(seeds(&[]), [1]);
        assert_eq!(seeds(&["--seeds", "3"]), [1, 2, 3]);
        assert_eq!(seeds(&["--seed", "7", "--seeds", "2"]), [7, 8]);
        assert_eq!(seeds(&["--seed", "4294967295"]), [4_294_967_295]);
    }

    #[test]
    fn pictures_are_checked_before_anything_runs() {
        let dir = tempfile::tempdir().unwrap();
        let check = |flag: &str, name: &str| {
            let path = dir.path().join(name);
            parse::<All>(&[flag, path.to_str().unwrap()]).unwrap().shown.check().map_err(|usage| usage.0)
        };
        assert_eq!((check("--picture", "a.svg"), check("--html", "a.HTML")), (Ok(()), Ok(())));
        for (flag, name) in
            [("--picture", "a.html"), ("--html", "a.svg"), ("--html", "html"), ("--picture", "none/a.svg")]
        {
            let error = check(flag, name).unwrap_err();
            assert!([flag, name, "allowed"].iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        for (words, told) in [
            (&["--seeds", "0"][..], &["--seeds", "'0'", "allowed"][..]),
            (&["--seed", "-1"], &["--seed", "'-1'", "allowed"]),
            (&["--seeds", "99999999999"], &["--seeds", "'99999999999'", "to 100000"]),
            (&["--seeds", "100001"], &["--seeds", "'100001'", "to 100000"]),
            (&["--seed", "4294967296"], &["--seed", "'4294967296'", "to 4294967295"]),
            (&["--time", "9000h"], &["--time", "'9000h'", "up to 8760h"]),
            (&["--time", "1e99"], &["--time", "'1e99'", "up to 8760h"]),
            (&["--time", "0"], &["--time", "'0'", "allowed"]),
            (&["--time", "soon"], &["--time", "'soon'", "allowed"]),
            (&["--list", "bucket-10"], &["--list", "SCENARIO"]),
            (&["--json", "--spread"], &["--json", "--spread"]),
        ] {
            refused::<All>(words, told);
        }
    }
}
