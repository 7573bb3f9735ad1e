//! Flags of an audit: what was promised, who is judged, what is shown.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use comity_audit::audit::{Plan, PlanError, Promise, Refusing};

use super::screen::Show;
use super::{output, values};
use crate::exit::Usage;

/// The promise that arrivals are held against.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Promise")]
pub(crate) struct PromiseFlags {
    /// The promised least time between two requests at a host, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true, group = "spacing")]
    interval: Option<Duration>,

    /// The same as a rate, such as 2/s or 15/min
    #[arg(long, value_name = "RATE", value_parser = values::rate, allow_hyphen_values = true, group = "spacing")]
    rate: Option<Duration>,

    /// Requests of one host that may come at once after a rest [default: 1]
    ///
    /// Then the law is: in any window w at most BURST + w ÷ interval arrivals.
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    burst: Option<NonZeroU32>,

    /// What a gap may lack without being held against anybody [default: 5ms, or a quarter of a very short interval]
    ///
    /// In an audit, the machine's jitter is measured beside it and added.
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true)]
    tolerance: Option<Duration>,
}

/// How the program is run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Processes")]
pub(crate) struct ProcessFlags {
    /// How many processes run the program at once [default: 2]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, conflicts_with = "log")]
    workers: Option<NonZeroU32>,

    /// An arm for each of several numbers of processes, one after the other, such as 1,2,4,8
    #[arg(long, value_name = "N,…", value_parser = numbers, allow_hyphen_values = true, conflicts_with_all = ["log", "workers"])]
    sweep: Option<Numbers>,

    /// Requests each process is asked to make [default: 6]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, conflicts_with = "log")]
    requests: Option<NonZeroU32>,

    /// The longest the processes of an arm may run [default: 30s and three times what the promise needs]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true, conflicts_with = "log")]
    time_limit: Option<Duration>,

    /// Set http_proxy for the processes, so that the invented hosts are found by programs that heed it
    ///
    /// Without it, proxy variables are taken out of their environment.
    #[arg(long, conflicts_with = "log")]
    as_proxy: bool,

    /// The program and its arguments, after --
    ///
    /// Each process is told where to go by COMITY_TARGET, _TARGETS, _TARGET_ADDR, _RESOLVE, _CONNECT_TO, _PROXY, _URLS (a
    /// file, one URL a line), _REQUESTS, _WORKER and _WORKERS in its environment, and by the same names as {target},
    /// {urls} and so on in its arguments.
    #[arg(last = true, value_name = "CMD", conflicts_with = "log")]
    command: Vec<OsString>,
}

/// What the far end is like.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Far end")]
pub(crate) struct FarEndFlags {
    /// How many hosts each process visits in turn; each is judged by itself [default: 1]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, conflicts_with = "log")]
    hosts: Option<NonZeroU32>,

    /// Refuse some requests with this status, 429 or 503 [default: 429 where another flag says that some are refused]
    #[arg(long, value_name = "STATUS", value_parser = status, allow_hyphen_values = true, conflicts_with = "log")]
    refuse: Option<u16>,

    /// Refuse every N-th request of a host [default with --refuse: 10]
    #[arg(long, value_name = "N", value_parser = from_two, allow_hyphen_values = true, conflicts_with = "log")]
    refuse_every: Option<u32>,

    /// Refuse the first N requests of a host
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, conflicts_with = "log")]
    refuse_first: Option<NonZeroU32>,

    /// What a refusal says in Retry-After; what arrives before it is over breaks the promise
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true, conflicts_with = "log")]
    retry_after: Option<Duration>,

    /// Serve a robots.txt with this Crawl-delay; it is promised too, and requests for robots.txt count
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true, conflicts_with = "log")]
    crawl_delay: Option<Duration>,
}

/// What is shown of an audit.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct FoundFlags {
    /// Judge a server's own access log instead of running a program; - is standard input (repeatable)
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Vec<PathBuf>,

    /// Print JSON, with every arrival
    #[arg(long)]
    pub(crate) json: bool,

    /// Draw the arrivals into a file: .svg, or .html
    #[arg(long, value_name = "FILE", conflicts_with = "log")]
    pub(crate) picture: Option<PathBuf>,

    /// Pass on what the processes print, to standard error
    #[arg(long, conflicts_with = "log")]
    pub(crate) show_output: bool,

    /// Say nothing but errors: no progress
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

/// Several numbers in one value.
#[derive(Clone, Debug)]
struct Numbers(Vec<u32>);

/// What a picture is drawn as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureKind {
    /// An image.
    Svg,
    /// A page that holds it.
    Html,
}

impl PromiseFlags {
    /// The promise; a Crawl-delay is one too where no other was made.
    pub(crate) fn promise(&self, crawl_delay: Option<Duration>) -> Result<Promise, Usage> {
        let spacing = self.interval.or(self.rate).or(crawl_delay);
        let interval = spacing.ok_or_else(|| Usage(NO_PROMISE.to_owned()))?;
        let usual = Promise::new(interval.max(crawl_delay.unwrap_or_default()));
        Ok(Promise {
            interval,
            burst: self.burst.map_or(usual.burst, NonZeroU32::get),
            tolerance: self.tolerance.unwrap_or(usual.tolerance),
        })
    }
}

impl FoundFlags {
    /// How progress is shown; `terminal` says whether standard error is one.
    pub(crate) fn show(&self, terminal: bool) -> Show {
        match (self.quiet, terminal) {
            (true, _) => Show::Nothing,
            (false, true) => Show::Live,
            (false, false) => Show::Plain { every_secs: 30 },
        }
    }

    /// Finds out before the run what the picture is to be and whether it can be written.
    pub(crate) fn check_picture(&self) -> Result<Option<(&Path, PictureKind)>, Usage> {
        let Some(path) = &self.picture else { return Ok(None) };
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let kind = match extension.to_ascii_lowercase().as_str() {
            "svg" => PictureKind::Svg,
            "html" => PictureKind::Html,
            _ => {
                let allowed = "allowed are names that end in .svg or .html";
                return Err(Usage(format!("invalid value '{}' for '--picture <FILE>': {allowed}", path.display())));
            }
        };
        output::writable("--picture", path)?;
        Ok(Some((path, kind)))
    }
}

/// The plan that the flags make.
pub(crate) fn plan(promise: &PromiseFlags, processes: &ProcessFlags, far_end: &FarEndFlags) -> Result<Plan, Usage> {
    let promise = promise.promise(far_end.crawl_delay)?;
    if processes.command.is_empty() {
        return Err(Usage(NO_COMMAND.to_owned()));
    }
    let usual = Plan::new(processes.command.clone(), promise);
    let workers = processes.workers.map(|workers| vec![workers.get()]);
    let plan = Plan {
        arms: processes.sweep.clone().map(|numbers| numbers.0).or(workers).unwrap_or(usual.arms),
        requests: processes.requests.map_or(usual.requests, NonZeroU32::get),
        hosts: far_end.hosts.map_or(usual.hosts, NonZeroU32::get),
        refusing: far_end.refusing()?,
        crawl_delay: far_end.crawl_delay,
        time_limit: processes.time_limit,
        as_proxy: processes.as_proxy,
        ..usual
    };
    match plan.check() {
        Ok(()) => Ok(plan),
        Err(PlanError { setting, value, allowed }) => {
            Err(Usage(format!("invalid value '{value}' for '--{setting}': allowed {allowed}")))
        }
    }
}

impl FarEndFlags {
    fn refusing(&self) -> Result<Option<Refusing>, Usage> {
        if self.refuse.is_none() && self.refuse_every.is_none() && self.refuse_first.is_none() {
            if self.retry_after.is_some() {
                let allowed = "allowed is beside --refuse, --refuse-every or --refuse-first";
                return Err(Usage(format!(
                    "'--retry-after <TIME>' is said by refusals, and there are none: {allowed}"
                )));
            }
            return Ok(None);
        }
        let every = if self.refuse_first.is_some() { 0 } else { USUAL_EVERY };
        Ok(Some(Refusing {
            status: self.refuse.unwrap_or(429),
            first: self.refuse_first.map_or(0, NonZeroU32::get),
            every: self.refuse_every.unwrap_or(every),
            retry_after: self.retry_after,
        }))
    }
}

fn numbers(text: &str) -> Result<Numbers, String> {
    let numbers: Result<Vec<u32>, String> =
        text.split(',').map(|one| values::count(one).map(NonZeroU32::get)).collect();
    numbers.map(Numbers).map_err(|_| "allowed are whole numbers from 1 by commas, such as 1,2,4,8".to_owned())
}

fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| matches!(status, 429 | 503));
    status.ok_or_else(|| "allowed are 429 and 503".to_owned())
}

fn from_two(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|&number| number >= 2);
    number.ok_or_else(|| "allowed are whole numbers from 2: something has to be served".to_owned())
}

const NO_PROMISE: &str = "a promise is needed to judge by: --interval TIME, --rate RATE or --crawl-delay TIME";
const NO_COMMAND: &str = "a program to judge is needed after the flags, as in 'comity audit --interval 500ms -- CMD ARGS…'; \
                          or --log FILE";

/// Of which so many one is refused where nothing else is said.
const USUAL_EVERY: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::refused;

    /// All flags of a plan.
    #[derive(Debug, Args)]
    struct All {
        #[command(flatten)]
        promise: PromiseFlags,
        #[command(flatten)]
        processes: ProcessFlags,
        #[command(flatten)]
        far_end: FarEndFlags,
        #[command(flatten)]
        found: FoundFlags,
    }

    fn parse(words: &[&str]) -> All {
        crate::flags::testing::parse(words).unwrap()
    }

    fn planned(words: &[&str]) -> Result<Plan, String> {
        let all = parse(&[words, &["--", "true"]].concat());
        plan(&all.promise, &all.processes, &all.far_end).map_err(|usage| usage.0)
    }

    #[test]
    fn each_flag_reaches_the_plan() {
        let usual = planned(&["--interval", "500ms"]).unwrap();
        assert_eq!((usual.arms, usual.requests, usual.hosts, usual.refusing), (vec![2], 6, 1, None));
        assert_eq!(usual.promise, Promise::new(Duration::from_millis(500)));
        let plan = planned(&[
            "--rate",
            "2/s",
            "--burst",
            "3",
            "--tolerance",
            "9ms",
            "--sweep",
            "1,2, 4",
            "--requests",
            "9",
            "--hosts",
            "3",
            "--time-limit",
            "1m",
            "--as-proxy",
        ])
        .unwrap();
        assert_eq!((plan.promise.interval, plan.promise.burst), (Duration::from_millis(500), 3));
        assert_eq!(
            (plan.promise.tolerance, plan.time_limit),
            (Duration::from_millis(9), Some(Duration::from_secs(60)))
        );
        assert_eq!((plan.arms, plan.requests, plan.hosts, plan.as_proxy), (vec![1, 2, 4], 9, 3, true));
    }

    #[test]
    fn a_crawl_delay_is_a_promise_too() {
        let plan = planned(&["--crawl-delay", "10"]).unwrap();
        assert_eq!((plan.promise.interval, plan.crawl_delay), (Duration::from_secs(10), Some(Duration::from_secs(10))));
        let both = planned(&["--crawl-delay", "10", "--interval", "4ms"]).unwrap();
        assert_eq!((both.interval(), both.promise.tolerance), (Duration::from_secs(10), Duration::from_millis(5)));
    }

    #[test]
    fn refusals_have_the_usual_status_and_frequency() {
        let refusing = |words: &[&str]| planned(&[&["--interval", "1"], words].concat()).unwrap().refusing.unwrap();
        let usual = Refusing { status: 429, first: 0, every: 10, retry_after: None };
        assert_eq!(refusing(&["--refuse", "503"]), Refusing { status: 503, ..usual });
        assert_eq!(refusing(&["--refuse-every", "3"]), Refusing { every: 3, ..usual });
        assert_eq!(refusing(&["--refuse-first", "3"]), Refusing { first: 3, every: 0, ..usual });
        let said = refusing(&["--refuse", "429", "--retry-after", "2s"]);
        assert_eq!(said, Refusing { retry_after: Some(Duration::from_secs(2)), ..usual });
    }

    #[test]
    fn a_picture_is_svg_or_html_in_a_place_that_can_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let check = |name: &str| {
            let path = dir.path().join(name);
            let found = parse(&["--picture", path.to_str().unwrap()]).found;
            found.check_picture().map(|found| found.map(|(_, kind)| kind)).map_err(|usage| usage.0)
        };
        assert_eq!((check("a.svg"), check("a.HTML")), (Ok(Some(PictureKind::Svg)), Ok(Some(PictureKind::Html))));
        for name in ["a.png", "svg", "none/a.svg"] {
            let error = check(name).unwrap_err();
            assert!(["--picture", name, "allowed"].iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(parse(&[]).found.check_picture().map_err(|usage| usage.0), Ok(None));
    }

    #[test]
    fn progress_is_a_line_that_changes_on_a_terminal_only() {
        let found = parse(&[]).found;
        assert_eq!((found.show(true), found.show(false)), (Show::Live, Show::Plain { every_secs: 30 }));
        assert_eq!(parse(&["-q"]).found.show(true), Show::Nothing);
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        for (words, told) in [
            (&["--workers", "0"][..], &["--workers", "'0'", "allowed"][..]),
            (&["--interval", "0"], &["--interval", "'0'", "allowed"]),
            (&["--rate", "fast"], &["--rate", "'fast'", "allowed"]),
            (&["--sweep", "1,two"], &["--sweep", "'1,two'", "allowed"]),
            (&["--sweep", "1,,2"], &["--sweep", "'1,,2'", "allowed"]),
            (&["--requests", "-1"], &["--requests", "'-1'", "allowed"]),
            (&["--refuse", "404"], &["--refuse", "'404'", "allowed are 429 and 503"]),
            (&["--refuse-every", "1"], &["--refuse-every", "'1'", "allowed"]),
            (&["--burst", "0"], &["--burst", "'0'", "allowed"]),
            (&["--time-limit", "0"], &["--time-limit", "'0'", "allowed"]),
            (&["--interval", "1", "--rate", "1"], &["--interval", "--rate"]),
            (&["--log", "a", "--workers", "2"], &["--log", "--workers"]),
            (&["--sweep", "1", "--workers", "2"], &["--sweep", "--workers"]),
        ] {
            refused::<All>(words, told);
        }
        for (words, told) in [
            (&["--workers", "300"][..], &["--workers", "'300'", "1 to 256"][..]),
            (&["--sweep", "2,2"], &["--sweep", "'2'", "once"]),
            (&["--requests", "90000"], &["--requests", "'90000'", "1 to 50000"]),
            (&["--tolerance", "700ms"], &["--tolerance", "'700ms'", "half the interval"]),
            (&["--retry-after", "2s"], &["--retry-after", "--refuse"]),
            (&["--refuse", "429", "--retry-after", "1.5s"], &["--retry-after", "'1.5s'", "whole seconds"]),
            (&["--hosts", "101"], &["--hosts", "'101'", "1 to 100"]),
        ] {
            let error = planned(&[&["--interval", "1s"], words].concat()).unwrap_err();
            assert!(told.iter().all(|part| error.contains(part)), "{words:?} is told: {error}");
        }
        assert!(planned(&[]).unwrap_err().contains("--interval"));
        let without = parse(&["--interval", "1"]);
        let error = plan(&without.promise, &without.processes, &without.far_end).unwrap_err();
        assert!(error.0.contains("-- CMD"), "{}", error.0);
    }
}
