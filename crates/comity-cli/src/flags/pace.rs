//! Flags about the pace: profile, limits, presets, configuration file.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comity::config::Config;
use comity::{Builder, Pacer, Partial, Pattern, Policy, Profile, Source};

use super::{entry, values};
use crate::exit::Usage;

/// How fast.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Pace")]
pub(crate) struct PaceFlags {
    /// What kind of visitor this is: crawl, api or browse [default: crawl]
    ///
    /// crawl obeys robots.txt, has one request in flight per host, begins at one start a second, finds the pace the host
    /// accepts, and makes no more than two starts a second. api asks no robots.txt, begins at four a second, and finds
    /// that pace and how many requests the host answers at once, 64 at most. browse is slowed by how much was asked
    /// lately.
    #[arg(long, value_name = "PROFILE", value_parser = values::profile)]
    pub(crate) profile: Option<Profile>,

    /// Least time between two starts of one host, such as 500ms
    ///
    /// A policy begins there, or slower, and never goes faster. It holds for every host by itself; what --limits or the
    /// configuration says of a host comes before it.
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true, group = "spacing")]
    interval: Option<Duration>,

    /// The same as a number of starts a second, such as 2 or 0.2
    #[arg(long, value_name = "N", value_parser = values::per_second, allow_hyphen_values = true, group = "spacing")]
    per_second: Option<Duration>,

    /// The same as a rate, such as 15/min or 1/5s
    #[arg(long, value_name = "RATE", value_parser = values::rate, allow_hyphen_values = true, group = "spacing")]
    rate: Option<Duration>,

    /// Starts of one host that may come at once after a rest [default: 1]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    burst: Option<NonZeroU32>,

    /// Requests in flight at one host: until the body is read, of profile api until the headers are there [default: 1, of api what the host answers at once, 64 at most]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    in_flight: Option<NonZeroU32>,

    /// How a host's pace is learned: off, fixed, pressure, aimd, adaptive or refusal [default: the profile's]
    ///
    /// off learns nothing; fixed is the interval set and nothing else; pressure, aimd and refusal slow down for what
    /// the host answers; adaptive finds the rate it accepts and how many requests it answers at once, keeps a little
    /// under both, and remembers them. Retry-After and Crawl-delay hold whatever the policy.
    #[arg(long, value_name = "POLICY", value_parser = values::policy)]
    policy: Option<Policy>,

    /// The longest Retry-After that is waited for; asked for more, a request gives up [default: 1h, api 5m, browse 60s]
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true)]
    retry_after_limit: Option<Duration>,

    /// Limits of a host, a group or a part of one, as in the configuration file (repeatable)
    ///
    /// 'example.org: per_second=2', '*.example.org: rate=15/min, burst=3', 'api.example.org/v1: windows=100:120'. A
    /// blank belongs after the colon; several windows are parted by semicolons, 'windows=20:1;100:120'.
    #[arg(long, value_name = "PATTERN: KEY=VALUE, …", value_parser = entry::limits)]
    limits: Vec<Config>,

    /// A configuration file (comity.toml); without it, the one that COMITY_CONFIG names
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Leave the published limits of well-known services out
    #[arg(long)]
    no_presets: bool,

    /// Pace loopback hosts (localhost, 127.0.0.0/8, [::1]) like all others
    #[arg(long)]
    pace_loopback: bool,
}

/// What the flags and the configuration say of the pace.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The profile.
    pub(crate) profile: Profile,
    /// The rules, for a pacer.
    pub(crate) builder: Builder,
    /// Whether published limits hold.
    pub(crate) presets: bool,
    /// Whether loopback hosts are paced.
    pub(crate) pace_loopback: bool,
    /// Where the configuration says that the pace is shared.
    pub(crate) shared: Option<String>,
    /// The least time between two fetches of one URL, by pattern.
    pub(crate) min_refetch_age: Vec<(Pattern, Duration)>,
    /// The longest Crawl-delay that is obeyed, where the configuration says so.
    pub(crate) crawl_delay_limit: Option<Duration>,
    /// What is probably not meant.
    pub(crate) warnings: Vec<String>,
}

impl PaceFlags {
    /// The pace, from the flags and the configuration file; `named` is what `COMITY_CONFIG` holds.
    pub(crate) fn pace(&self, named: Option<OsString>) -> Result<Pace> {
        let named = named.filter(|name| !name.is_empty()).map(PathBuf::from);
        let config = match self.config.as_ref().or(named.as_ref()) {
            Some(path) => read(path)?,
            None => Config::default(),
        };
        self.over(config)
    }

    fn over(&self, mut config: Config) -> Result<Pace> {
        for entry in &self.limits {
            config.rules.extend(entry.rules.iter().cloned());
            config.min_refetch_age.extend(entry.min_refetch_age.iter().cloned());
            config.warnings.extend(entry.warnings.iter().cloned());
        }
        config.template = self.template(&config.template);
        config.pace_loopback = Some(self.pace_loopback || config.pace_loopback.unwrap_or_default());
        let profile = self.profile.or(config.profile).unwrap_or(Profile::Crawl);
        let mut builder = config.apply(Pacer::builder(profile));
        let presets = !self.no_presets && config.presets.unwrap_or(true);
        let mut min_refetch_age = Vec::new();
        if presets {
            builder = builder.presets()?;
            min_refetch_age.extend(comity::presets::presets()?.into_iter().flat_map(|preset| preset.min_refetch_age));
        }
        min_refetch_age.extend(config.min_refetch_age);
        Ok(Pace {
            profile,
            builder,
            presets,
            pace_loopback: config.pace_loopback.unwrap_or_default(),
            shared: config.shared,
            min_refetch_age,
            crawl_delay_limit: config.template.crawl_delay_limit,
            warnings: config.warnings,
        })
    }

    /// `[default]` with the flags over it.
    fn template(&self, default: &Partial) -> Partial {
        let own = Partial {
            interval: self.interval.or(self.per_second).or(self.rate),
            burst: self.burst,
            in_flight: self.in_flight,
            policy: self.policy.clone(),
            retry_after_limit: self.retry_after_limit,
            ..Partial::default()
        };
        let named = self.named();
        if named.is_empty() {
            return default.clone();
        }
        let mut both = own.merged_over(default);
        // An interval is where a policy begins and its floor, whichever of the two was said where.
        if let (Some(interval), Some(policy)) = (both.interval, &both.policy) {
            both.policy = Some(policy.bounded_by(interval));
        }
        let silent = Partial { source: default.source.clone(), ..Partial::default() };
        let file = if *default == silent { "" } else { ", [default]" };
        both.source = Some(Source::Person(Arc::from(format!("{}{file}", named.join(", ")))));
        both
    }

    /// The flags given that speak of every host.
    fn named(&self) -> Vec<&'static str> {
        [
            ("--interval", self.interval.is_some()),
            ("--per-second", self.per_second.is_some()),
            ("--rate", self.rate.is_some()),
            ("--burst", self.burst.is_some()),
            ("--in-flight", self.in_flight.is_some()),
            ("--policy", self.policy.is_some()),
            ("--retry-after-limit", self.retry_after_limit.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }
}

/// A configuration file.
pub(crate) fn read(path: &Path) -> Result<Config> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Usage(format!("cannot read the configuration {}: {error}", path.display())))?;
    Ok(Config::parse(&text).map_err(|error| Usage(format!("in {}: {error}", path.display())))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};
    use comity::{Limits, ScopeState};
    use url::Url;

    fn flags(words: &[&str]) -> PaceFlags {
        parse(words).unwrap()
    }

    fn scope(pace: &Pace, url: &str) -> ScopeState {
        pace.builder.local().explain(&Url::parse(url).unwrap()).unwrap().scopes.remove(0)
    }

    fn limits(words: &[&str], url: &str) -> Limits {
        (*scope(&flags(words).pace(None).unwrap(), url).limits).clone()
    }

    #[test]
    fn p10_an_interval_is_where_the_policy_begins_and_its_floor() {
        for words in [&["--interval", "5s"][..], &["--per-second", "0.2"], &["--rate", "12/min"]] {
            let limits = limits(words, "https://example.org/");
            assert_eq!(limits.interval, Duration::from_secs(5), "{words:?}");
            let Policy::Adaptive(settings) = &limits.policy else { panic!("{:?}", limits.policy) };
            assert_eq!((settings.start, settings.floor), (Duration::from_secs(5), Duration::from_secs(5)));
            assert_eq!(limits.source("interval").unwrap().to_string(), words[0]);
        }
        let both = limits(&["--policy", "aimd", "--interval", "2s"], "https://example.org/");
        assert!(matches!(&both.policy, Policy::Aimd(settings) if settings.floor == Duration::from_secs(2)));
        assert_eq!(both.source("policy").unwrap().to_string(), "--interval, --policy");
        let bounds = |words: &[&str]| match limits(words, "https://example.org/").policy {
            Policy::Adaptive(settings) => (settings.start, settings.floor, settings.ceiling),
            other => panic!("{other:?}"),
        };
        assert_eq!(bounds(&["--policy", "adaptive"]), bounds(&[]), "the default's name changes nothing");
        assert_eq!(bounds(&["--policy", "adaptive", "--interval", "2s"]), bounds(&["--interval", "2s"]));
    }

    #[test]
    fn each_limit_flag_reaches_its_limit() {
        let said = limits(
            &["--burst", "4", "--in-flight", "3", "--policy", "fixed", "--retry-after-limit", "10m"],
            "https://example.org/",
        );
        assert_eq!((said.burst.get(), said.in_flight.map(NonZeroU32::get)), (4, Some(3)));
        assert_eq!((said.policy, said.retry_after_limit), (Policy::Fixed, Duration::from_secs(600)));
    }

    #[test]
    fn the_profile_is_the_flags_then_the_files_then_crawl() {
        let file = || Config::parse("profile = \"api\"").unwrap();
        assert_eq!(flags(&[]).over(Config::default()).unwrap().profile, Profile::Crawl);
        assert_eq!(flags(&[]).over(file()).unwrap().profile, Profile::Api);
        assert_eq!(flags(&["--profile", "browse"]).over(file()).unwrap().profile, Profile::Browse);
    }

    #[test]
    fn an_entry_for_a_host_comes_before_the_flags_and_the_file() {
        let file = Config::parse("[limits.\"a.example\"]\ninterval = 9\nin_flight = 2").unwrap();
        let pace = flags(&["--interval", "5", "--limits", "a.example: interval=7"]).over(file).unwrap();
        let limits = scope(&pace, "https://a.example/").limits;
        assert_eq!(limits.interval, Duration::from_secs(7));
        assert_eq!(limits.in_flight.map(NonZeroU32::get), Some(2));
    }

    #[test]
    fn flags_and_default_table_are_both_named() {
        let file = Config::parse("[default]\nburst = 3").unwrap();
        let pace = flags(&["--interval", "5"]).over(file).unwrap();
        let limits = scope(&pace, "https://a.example/").limits;
        assert_eq!(limits.burst.get(), 3);
        assert_eq!(limits.source("burst").unwrap().to_string(), "--interval, [default]");
    }

    #[test]
    fn presets_hold_unless_they_are_left_out() {
        let url = "https://nominatim.openstreetmap.org/search";
        assert_eq!(limits(&["--profile", "api"], url).interval, Duration::from_secs(1));
        assert_eq!(limits(&["--profile", "api", "--no-presets"], url).interval, Duration::ZERO);
        let file = Config::parse("profile = \"api\"\npresets = false").unwrap();
        assert!(!flags(&[]).over(file).unwrap().presets);
    }

    #[test]
    fn p3_loopback_is_exempt_unless_asked() {
        let url = "http://localhost:8080/";
        assert_eq!(limits(&[], url).in_flight, None);
        assert_eq!(limits(&["--pace-loopback"], url).in_flight.map(NonZeroU32::get), Some(1));
        let written = limits(&["--interval", "3"], url);
        assert_eq!(written.interval, Duration::from_secs(3), "what a person wrote holds there too");
    }

    #[test]
    fn h12_refetch_ages_come_from_entries() {
        let pace = flags(&["--no-presets", "--limits", "feeds.example: min_refetch_age=1h"]).pace(None).unwrap();
        let ages: Vec<_> = pace.min_refetch_age.iter().map(|(pattern, age)| (pattern.to_string(), *age)).collect();
        assert_eq!(ages, [("feeds.example".to_owned(), Duration::from_secs(3600))]);
    }

    #[test]
    fn the_file_is_read_when_named_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("comity.toml");
        std::fs::write(&path, "[default]\nburst = 0").unwrap();
        let error = flags(&["--config", path.to_str().unwrap()]).pace(None).unwrap_err();
        assert!(error.is::<Usage>());
        let error = error.to_string();
        assert!(error.contains("comity.toml") && error.contains("burst = 0") && error.contains("allowed"), "{error}");
        assert!(flags(&[]).pace(Some(path.into_os_string())).is_err(), "COMITY_CONFIG names it");
        assert!(flags(&[]).pace(Some(OsString::new())).is_ok(), "an empty one names none");
        assert!(flags(&["--config", "none.toml"]).pace(None).unwrap_err().to_string().contains("none.toml"));
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        refused::<PaceFlags>(&["--interval", "soon"], &["--interval", "'soon'", "allowed"]);
        refused::<PaceFlags>(&["--interval", "-1s"], &["--interval", "'-1s'", "allowed"]);
        refused::<PaceFlags>(&["--per-second", "-2"], &["--per-second", "'-2'", "allowed"]);
        refused::<PaceFlags>(&["--rate", "0/s"], &["--rate", "'0/s'", "allowed"]);
        refused::<PaceFlags>(&["--burst", "0"], &["--burst", "'0'", "allowed"]);
        refused::<PaceFlags>(&["--in-flight", "-1"], &["--in-flight", "'-1'", "allowed"]);
        refused::<PaceFlags>(&["--policy", "fast"], &["--policy", "'fast'", "aimd"]);
        refused::<PaceFlags>(&["--profile", "bot"], &["--profile", "'bot'", "crawl"]);
        refused::<PaceFlags>(&["--limits", "a.example"], &["--limits", "'a.example'", "allowed"]);
        refused::<PaceFlags>(&["--retry-after-limit", "x"], &["--retry-after-limit", "'x'", "allowed"]);
        refused::<PaceFlags>(&["--interval", "1", "--rate", "1"], &["--interval", "--rate"]);
    }
}
