//! The scenarios of this repository's `scenarios/`, compiled in.

use anyhow::{Context as _, Result};
use comity_simulate::scenario::Scenario;

/// A scenario that is there without a file.
#[derive(Debug)]
pub(super) struct Builtin {
    /// Its name, and that of its file.
    pub(super) name: &'static str,
    /// What stands in its file.
    pub(super) text: &'static str,
    /// Whether a policy is judged by it: it is run where nobody names others.
    pub(super) judged: bool,
}

impl Builtin {
    /// The scenario.
    pub(super) fn scenario(&self) -> Result<Scenario> {
        Scenario::parse(self.text).with_context(|| format!("the built-in scenario {}", self.name))
    }
}

macro_rules! builtin {
    ($($judged:literal: $($name:literal)*;)*) => {
        /// All of them, in the order in which they are shown.
        pub(super) const ALL: &[Builtin] = &[$($(Builtin {
            name: $name,
            text: include_str!(concat!("../../../../../scenarios/", $name, ".toml")),
            judged: $judged,
        },)*)*];
    };
}

builtin! {
    true:
        "bucket-1"
        "bucket-10"
        "bucket-100"
        "bucket-500"
        "window-60-min"
        "window-1000-5min"
        "window-10-s"
        "bucket-1-advice"
        "bucket-10-advice"
        "bucket-100-advice"
        "bucket-500-advice"
        "window-60-min-advice"
        "window-1000-5min-advice"
        "window-10-s-advice"
        "queue-4x200"
        "queue-1x50"
        "queue-16x100"
        "remembered-bucket-1"
        "remembered-bucket-10"
        "remembered-bucket-100"
        "remembered-bucket-500"
        "remembered-window-60-min"
        "remembered-window-1000-5min"
        "remembered-window-10-s"
        "remembered-queue-4x200"
        "remembered-queue-1x50"
        "remembered-queue-16x100"
        "halves"
        "doubles"
        "bimodal"
        "four-strangers";
    false:
        "uplink"
        "arm-bucket-1-5"
        "arm-bucket-10-20"
        "arm-bucket-100-50"
        "arm-window-60"
        "arm-queue-4x200"
        "arm-five-hosts"
        "concurrency-cap"
        "crawl-100000"
        "crawl-100000-wide"
        "crowd"
        "four-together"
        "leaky"
        "lossy"
        "outage"
        "ratelimit-fields"
        "retry-after-date-skewed"
        "retry-after-too-long"
        "retry-after-too-short"
        "several-behind-one"
        "sliding";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_file_is_built_in_and_is_named_as_it_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter_map(|name| name.strip_suffix(".toml").map(str::to_owned))
            .collect();
        files.sort_unstable();
        let mut names: Vec<String> = ALL.iter().map(|builtin| builtin.name.to_owned()).collect();
        names.sort_unstable();
        assert_eq!(names, files);
        for builtin in ALL {
            let scenario = builtin.scenario().unwrap();
            assert_eq!(scenario.name, builtin.name);
            assert!(!scenario.about.is_empty(), "{} does not say what it is", builtin.name);
        }
    }
}
