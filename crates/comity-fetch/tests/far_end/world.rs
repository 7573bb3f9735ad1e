//! A run of the engine against a far end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use comity::{Builder, Pacer, Partial, Policy, Profile};
use comity_audit::control::control_run;
use comity_audit::far_end::{FarEnd, Host, World};
use comity_fetch::client::{self, Client};
use comity_fetch::keep::{self, Kept, Outcome, Record, Timestamp};
use comity_fetch::list::List;
use comity_fetch::request::{RequestOptions, Requests};
use comity_fetch::{End, Fetch, Observer, Options, Status};

/// What a run is made of.
pub(crate) struct Visit {
    pub(crate) builder: Builder,
    pub(crate) options: Options,
    pub(crate) keep: keep::Options,
    pub(crate) urls: Vec<String>,
    pub(crate) head: bool,
}

/// What came of it.
pub(crate) struct Visited {
    pub(crate) end: End,
    pub(crate) records: Vec<Record>,
    pub(crate) took: Duration,
    /// How far a perfect client's gaps were off their spacing meanwhile: the machine's own jitter.
    pub(crate) jitter: Duration,
}

#[derive(Default)]
struct Notes(Vec<Record>);

impl Observer for Notes {
    fn status(&mut self, _: &Status) {}
    fn record(&mut self, record: &Record) {
        self.0.push(record.clone());
    }
    fn notice(&mut self, _: &str) {}
}

static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Spacing that nothing changes.
pub(crate) fn fixed(ms: u64) -> Partial {
    Partial { interval: Some(Duration::from_millis(ms)), policy: Some(Policy::Fixed), ..Partial::default() }
}

impl Visit {
    /// URLs of a far end, without robots.txt.
    pub(crate) fn new(profile: Profile, urls: impl IntoIterator<Item = String>) -> Self {
        Self {
            builder: Pacer::builder(profile),
            options: Options { robots: false, ..Options::default() },
            keep: keep::Options { now: Timestamp::from_millis(1_780_000_000_000), ..keep::Options::default() },
            urls: urls.into_iter().collect(),
            head: false,
        }
    }

    pub(crate) fn limits(mut self, limits: Partial) -> Self {
        self.builder = self.builder.template(limits);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) fn go(self, far_end: &FarEnd) -> Visited {
        self.go_until(far_end, std::future::pending())
    }

    pub(crate) fn go_until(self, far_end: &FarEnd, stop: impl Future<Output = ()>) -> Visited {
        // One run at a time: two would be each other's jitter.
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut list = List::default();
        for url in &self.urls {
            list.add(url).unwrap();
        }
        let connect_to = vec![format!("::127.0.0.1:{}", far_end.addr().port()).parse().unwrap()];
        let client = Client::new(client::Options { connect_to, ..client::Options::default() }).unwrap();
        let fetch = Fetch {
            pacer: self.builder.local(),
            client,
            requests: Requests::new(RequestOptions { head: self.head, ..RequestOptions::default() }).unwrap(),
            kept: Kept::open(&self.keep).unwrap(),
            list,
            options: self.options,
        };
        let mut notes = Notes::default();
        let start = far_end.now();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (end, jitter) = beside_a_control(|| runtime.block_on(fetch.run(&mut notes, stop)).unwrap());
        Visited { end, records: notes.0, took: far_end.now().saturating_sub(start), jitter }
    }
}

/// Does some work while a perfect client sends to a server of its own, and says how far its gaps were off.
fn beside_a_control<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    const SPACING: Duration = Duration::from_millis(10);
    let far_end = FarEnd::start(World::new().default_host(Host::new())).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let control = scope.spawn(|| {
            let mut worst = Duration::ZERO;
            while !done.load(Ordering::Relaxed) {
                far_end.clear();
                control_run(&far_end, "control.example", SPACING, 20).unwrap();
                let times = far_end.times("control.example");
                let off = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).abs_diff(SPACING)).max();
                worst = worst.max(off.unwrap_or_default());
            }
            worst
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        (worked, control.join().unwrap())
    })
}

impl Visited {
    /// No gap may be shorter: the spacing less what a late start may take of it, less the machine's own jitter.
    pub(crate) fn least_gap(&self, spacing_ms: u64) -> Duration {
        let spacing = Duration::from_millis(spacing_ms);
        let late_by = Duration::from_millis(3).max(spacing / 10);
        spacing.saturating_sub(late_by).saturating_sub(self.jitter)
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.records.iter().filter(|record| record.outcome == outcome).count()
    }

    pub(crate) fn record(&self, url: &str) -> &Record {
        self.records.iter().find(|record| record.url == url).unwrap()
    }
}

/// `http://HOST/PATH0` … for so many pages.
pub(crate) fn pages(host: &str, many: usize) -> Vec<String> {
    (0..many).map(|n| format!("http://{host}/page/{n}")).collect()
}

/// A host with a script that gets the number of the request, from 0, over all its pages.
pub(crate) fn scripted(
    script: impl Fn(&comity_audit::far_end::Arrival, u64) -> Option<comity_audit::far_end::Reply> + Send + Sync + 'static,
) -> comity_audit::far_end::Host {
    let count = std::sync::atomic::AtomicU64::new(0);
    comity_audit::far_end::Host::new()
        .respond(move |arrival, _| script(arrival, count.fetch_add(1, std::sync::atomic::Ordering::SeqCst)))
}
