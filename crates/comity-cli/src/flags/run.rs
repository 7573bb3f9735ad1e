//! Flags about the run: how much at once, how long, when to give up.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::Args;
use comity::config::pattern;
use comity_fetch::Options;

use super::pace::Pace;
use super::values;

/// How the run behaves.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunFlags {
    /// Transfers at once, over all hosts [default: 64]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, alias = "max-in-flight")]
    parallel: Option<NonZeroU32>,

    /// How often a refused request is tried again; a number given here also covers 504s and failures [default: 5, of refusals]
    #[arg(long, value_name = "N", value_parser = values::number, allow_hyphen_values = true)]
    pub(crate) retries: Option<u32>,

    /// The longest one attempt may take, connecting and body included
    #[arg(short = 'm', long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    max_time: Option<Duration>,

    /// The longest without a byte received: before an answer's headers, and between pieces of its body [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    idle_time: Option<Duration>,

    /// The longest a URL may wait for its host's turn, from when it is next in its host's line
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    queue_timeout: Option<Duration>,

    /// Give a host up that has refused for so long without serving anything, when it refuses again [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    stall_time: Option<Duration>,

    /// Give a host up that has not answered for so long, several times in a row [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    dead_time: Option<Duration>,

    /// Give a host up after so many errors in a row, 404 and 403 included
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    stop_after_errors: Option<NonZeroU32>,

    /// End the run after so many refusals in such a time, as in 20/300s
    #[arg(long, value_name = "N/TIME", value_parser = values::count_in_span, allow_hyphen_values = true)]
    stop_when_limited: Option<(u32, Duration)>,

    /// Redirects followed for one URL [default: 10]
    #[arg(long, value_name = "N", value_parser = values::number, allow_hyphen_values = true)]
    max_redirects: Option<u32>,

    /// The longest Crawl-delay of a robots.txt that is obeyed; a host that asks for more is skipped [default: 2m]
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true)]
    crawl_delay_limit: Option<Duration>,

    /// Cut a Crawl-delay over the limit to the limit instead of skipping the host
    #[arg(long)]
    clamp_crawl_delay: bool,

    /// Do not ask again for what is kept and younger than this
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true)]
    min_refetch_age: Option<Duration>,

    /// Neither ask for robots.txt nor obey it
    #[arg(long)]
    danger_ignore_robots: bool,
}

impl RunFlags {
    /// Options of the run, for a product that robots.txt files know by this token.
    pub(crate) fn options(&self, pace: &Pace, product_token: &str, if_newer: bool) -> Options {
        let defaults = Options::default();
        let mut min_refetch_age = pace.min_refetch_age.clone();
        if let (Some(age), Ok(all)) = (self.min_refetch_age, pattern("*")) {
            min_refetch_age.push((all, age));
        }
        Options {
            parallel: self.parallel.map_or(defaults.parallel, |n| usize::try_from(n.get()).unwrap_or(usize::MAX)),
            retries: self.retries,
            max_time: self.max_time,
            idle_time: self.idle_time.unwrap_or(defaults.idle_time),
            queue_timeout: self.queue_timeout,
            stall_time: self.stall_time.unwrap_or(defaults.stall_time),
            dead_time: self.dead_time.unwrap_or(defaults.dead_time),
            max_redirects: self
                .max_redirects
                .map_or(defaults.max_redirects, |n| usize::try_from(n).unwrap_or(usize::MAX)),
            robots: pace.profile.obeys_robots() && !self.danger_ignore_robots,
            product_token: product_token.to_owned(),
            crawl_delay_limit: self.crawl_delay_limit.or(pace.crawl_delay_limit).unwrap_or(defaults.crawl_delay_limit),
            clamp_crawl_delay: self.clamp_crawl_delay,
            stop_after_errors: self.stop_after_errors.map(NonZeroU32::get),
            stop_when_limited: self.stop_when_limited,
            if_newer,
            min_refetch_age,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::pace::PaceFlags;
    use crate::flags::testing::{parse, refused};

    fn options(words: &[&str]) -> Options {
        paced(words, &["--no-presets"])
    }

    fn paced(words: &[&str], pace: &[&str]) -> Options {
        let pace = parse::<PaceFlags>(pace).unwrap().pace(None).unwrap();
        parse::<RunFlags>(words).unwrap().options(&pace, "example-bot", false)
    }

    #[test]
    fn each_flag_reaches_its_option() {
        let secs = Duration::from_secs;
        assert_eq!(options(&["--parallel", "100"]).parallel, 100);
        assert_eq!(options(&["--max-in-flight", "100"]).parallel, 100);
        assert_eq!(options(&["--retries", "0"]).retries, Some(0));
        assert_eq!(options(&["--max-time", "20"]).max_time, Some(secs(20)));
        assert_eq!(options(&["--idle-time", "5s"]).idle_time, secs(5));
        assert_eq!(options(&["--queue-timeout", "2m"]).queue_timeout, Some(secs(120)));
        assert_eq!(options(&["--stall-time", "1h"]).stall_time, secs(3600));
        assert_eq!(options(&["--dead-time", "30s"]).dead_time, secs(30));
        assert_eq!(options(&["--max-redirects", "0"]).max_redirects, 0);
        assert_eq!(options(&["--crawl-delay-limit", "10"]).crawl_delay_limit, secs(10));
        assert!(options(&["--clamp-crawl-delay"]).clamp_crawl_delay);
        assert_eq!(options(&[]).product_token, "example-bot");
    }

    #[test]
    fn h10_h19_a_run_can_be_told_when_to_give_up() {
        assert_eq!(options(&["--stop-after-errors", "10"]).stop_after_errors, Some(10));
        let limited = options(&["--stop-when-limited", "20/300s"]).stop_when_limited;
        assert_eq!(limited, Some((20, Duration::from_secs(300))));
    }

    #[test]
    fn h12_a_least_age_holds_for_all_urls() {
        let ages = options(&["--min-refetch-age", "1h"]).min_refetch_age;
        assert_eq!((ages.len(), ages[0].0.to_string().as_str(), ages[0].1), (1, "*", Duration::from_secs(3600)));
    }

    #[test]
    fn robots_is_obeyed_by_crawlers_unless_a_person_says_a_dangerous_word() {
        assert!(options(&[]).robots);
        assert!(!options(&["--danger-ignore-robots"]).robots);
        assert!(!paced(&[], &["--profile", "api"]).robots);
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        refused::<RunFlags>(&["--parallel", "0"], &["--parallel", "'0'", "allowed"]);
        refused::<RunFlags>(&["--retries", "some"], &["--retries", "'some'", "allowed"]);
        refused::<RunFlags>(&["--max-time", "0"], &["--max-time", "'0'", "allowed"]);
        refused::<RunFlags>(&["--stop-when-limited", "20"], &["--stop-when-limited", "'20'", "20/300s"]);
        refused::<RunFlags>(&["--stop-after-errors", "0"], &["--stop-after-errors", "'0'", "allowed"]);
        refused::<RunFlags>(&["--min-refetch-age", "old"], &["--min-refetch-age", "'old'", "allowed"]);
    }
}
