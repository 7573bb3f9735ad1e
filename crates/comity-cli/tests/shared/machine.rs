//! The store of one machine.

use std::time::Duration;

use comity_audit::far_end::{Host, Reply, World};
use rustix::process::Signal;

use crate::far_end::{Ground, HOST, alone, held, worker_of};
use crate::workers::Crew;

const HALF: Duration = Duration::from_millis(500);

fn store(dir: &tempfile::TempDir) -> String {
    dir.path().join("pace").display().to_string()
}

#[test]
fn x1_any_number_of_processes_keep_one_pace() {
    println!("processes  rate/s  least gap  jitter");
    for workers in [1, 2, 4, 6, 8] {
        let dir = tempfile::tempdir().unwrap();
        let mut ground = Ground::new();
        Crew::new(&ground, &store(&dir), HALF, 3.max(8 / workers)).run(workers);
        let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
        let rate = gaps.per_second().unwrap();
        println!("{workers:>9}  {rate:>6.3}  {:>9.1?}  {jitter:.1?}", gaps.least().unwrap());
        ground.held(HOST, HALF, jitter).unwrap();
        assert!((1.9..=2.01).contains(&rate), "{workers} processes: {rate}/s");
    }
}

#[test]
fn x2_without_sharing_the_same_run_is_as_many_times_too_fast() {
    for workers in [4, 6, 8] {
        let mut ground = Ground::new();
        Crew::new(&ground, "none", HALF, 4).run(workers);
        let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
        ground.held(HOST, HALF, jitter).expect_err("processes that share nothing must be seen to be too fast");
        let times = gaps.per_second().unwrap() / 2.0;
        println!("{workers} processes that share nothing: {times:.1} times the rate");
        assert!(times > workers as f64 * 0.7, "{workers} processes: {times:.1} times the rate");
    }
}

#[test]
fn x2_sharing_is_the_default() {
    let mut ground = Ground::new();
    let home = tempfile::tempdir().unwrap();
    let state = format!("XDG_STATE_HOME={}", home.path().display());
    let crew = Crew::new(&ground, "machine", Duration::from_millis(100), 5).before(&[&["env", &state]]);
    crew.run(4);
    let jitter = ground.jitter();
    ground.held(HOST, Duration::from_millis(100), jitter).unwrap();
    assert!(home.path().join("comity/pace").exists(), "it is where the manual says");
}

#[test]
fn x8_no_process_that_waits_gets_less_than_half_its_share() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::new();
    let workers = 6;
    let interval = Duration::from_millis(40);
    let at_work = Crew::new(&ground, &store(&dir), interval, 60).start_all(workers);
    at_work.all_done();
    // While all of them wait: from the last one's first arrival on, a hundred starts.
    let arrivals = ground.arrivals(HOST);
    let first_of = |worker| arrivals.iter().position(|a| worker_of(a) == Some(worker)).unwrap();
    let begin = (0..workers).map(first_of).max().unwrap();
    let mut counts = vec![0; workers];
    for arrival in &arrivals[begin..begin + 100] {
        counts[worker_of(arrival).unwrap()] += 1;
    }
    println!("of 100 starts: {counts:?}");
    assert!(counts.iter().all(|count| *count * 2 * workers >= 100), "{counts:?}");
}

#[test]
fn e14_a_group_is_one_pace_over_processes_that_own_different_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let mut ground = Ground::new();
    let crews: Vec<Crew<'_>> = (0..4)
        .map(|n| {
            Crew::new(&ground, &store(&dir), Duration::from_millis(1), 5)
                .host(&format!("h{n}.example.org"))
                .flags(&["--limits", "*.example.org: interval=200ms"])
        })
        .collect();
    let mut at_work: Vec<_> = crews.iter().map(|crew| crew.start_all(1)).collect();
    at_work.drain(..).for_each(crate::workers::AtWork::all_done);
    let times: Vec<Duration> = ground.far_end.arrivals().iter().map(|a| a.at).collect();
    let gaps = comity_audit::arrivals::Gaps::of(&times);
    let jitter = ground.jitter();
    assert_eq!(gaps.arrivals(), 20);
    held(&gaps, Duration::from_millis(200), jitter).unwrap();
}

#[test]
fn e02_a_window_over_two_processes_is_never_overfull() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::new();
    let crew = Crew::new(&ground, &store(&dir), Duration::from_millis(20), 25);
    crew.flags(&["--limits", &format!("{HOST}: windows=20/2s, interval=20ms")]).run(2);
    let most = comity_audit::arrivals::most_in_window(&ground.far_end.times(HOST), Duration::from_millis(1990));
    assert!(most <= 20, "{most} in two seconds");
    assert_eq!(ground.arrivals(HOST).len(), 50);
}

#[test]
fn x7_a_crawl_delay_of_ten_seconds_is_ten_seconds_across_processes() {
    let dir = tempfile::tempdir().unwrap();
    let mut ground = Ground::with(World::new().default_host(Host::new().robots("User-agent: *\nCrawl-delay: 10\n")));
    Crew::new(&ground, &store(&dir), Duration::from_millis(1), 1).with_robots().run(4);
    let arrivals = ground.arrivals(HOST);
    let pages: Vec<Duration> = arrivals.iter().filter(|a| worker_of(a).is_some()).map(|a| a.at).collect();
    let gaps = comity_audit::arrivals::Gaps::of(&pages);
    println!(
        "Crawl-delay 10, four processes: {} arrivals, {} pages, least gap {:.3?}",
        arrivals.len(),
        pages.len(),
        gaps.least().unwrap()
    );
    assert_eq!(pages.len(), 4);
    held(&gaps, Duration::from_secs(10), ground.jitter()).unwrap();
}

#[test]
fn e13_a_pause_and_the_last_start_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::with(World::new().default_host(Host::new().respond(|arrival, nth| {
        let first = nth == 0 && arrival.target().contains("/w0/0");
        first.then(|| Reply::status(429).header("retry-after", "3"))
    })));
    // The first run is refused and ends; its pause is the second's.
    let refused = Crew::new(&ground, &store(&dir), Duration::from_millis(1), 1).flags(&["--retries", "0"]);
    refused.start(0).wait().unwrap();
    let refused = ground.arrivals(HOST)[0].at;
    Crew::new(&ground, &store(&dir), Duration::from_millis(1), 2).run(2);
    let next = ground.arrivals(HOST)[1].at;
    assert!(next - refused >= Duration::from_millis(2_990), "{:?} after a Retry-After of 3 s", next - refused);
}

#[test]
fn x9_a_store_that_is_deleted_or_truncated_in_use_makes_nobody_faster() {
    let interval = Duration::from_millis(100);
    for fault in ["deleted", "truncated", "overwritten"] {
        let dir = tempfile::tempdir().unwrap();
        let mut ground = Ground::new();
        let at_work = Crew::new(&ground, &store(&dir), interval, 12).start_all(4);
        for _ in 0..6 {
            pass(Duration::from_millis(600));
            let path = store(&dir);
            match fault {
                "deleted" => std::fs::remove_file(&path).unwrap(),
                "truncated" => std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3000).unwrap(),
                _ => std::fs::OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .and_then(|file| std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 9000], 0))
                    .unwrap(),
            }
        }
        at_work.all_done();
        let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
        println!(
            "{fault} six times: least gap {:.1?}, {:.2}/s of 10",
            gaps.least().unwrap(),
            gaps.per_second().unwrap()
        );
        assert_eq!(gaps.arrivals(), 48);
        ground.held(HOST, interval, jitter).unwrap();
    }
}

#[test]
fn e11_a_stopped_process_loses_its_place_and_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    // Answers take a while, so that a stopped worker is caught with its request in flight.
    let mut ground = Ground::with(World::new().default_host(Host::new().service(Duration::from_millis(150))));
    let interval = Duration::from_millis(50);
    let at_work = Crew::new(&ground, &store(&dir), interval, 80).start_all(4);
    pass(Duration::from_millis(1500));
    at_work.signal(0, Signal::STOP);
    let stopped = ground.far_end.now();
    pass(Duration::from_secs(30));
    let thawed = ground.far_end.now();
    at_work.signal(0, Signal::CONT);
    at_work.all_done();
    let arrivals = ground.arrivals(HOST);
    let meanwhile = arrivals.iter().filter(|a| a.at > stopped && a.at < thawed).count();
    let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
    println!("stopped for 30 s: {meanwhile} arrivals of the others meanwhile, least gap {:.1?}", gaps.least().unwrap());
    assert!(meanwhile >= 100, "the others went on: {meanwhile}");
    assert_eq!(arrivals.len(), 320);
    ground.held(HOST, interval, jitter).unwrap();
}

#[test]
fn e05_clocks_that_step_change_nothing() {
    // The wall clock of each worker is wrong by another amount, and steps while it runs.
    let dir = tempfile::tempdir().unwrap();
    let mut ground = Ground::new();
    let clocks: Vec<std::path::PathBuf> = (0..4).map(|n| dir.path().join(format!("clock{n}"))).collect();
    let set = |clock: &std::path::Path, offset: &str| std::fs::write(clock, offset).unwrap();
    let commands: Vec<Vec<String>> = clocks
        .iter()
        .map(|clock| {
            set(clock, "+0");
            vec![
                "env".to_owned(),
                format!("FAKETIME_TIMESTAMP_FILE={}", clock.display()),
                "FAKETIME_NO_CACHE=1".to_owned(),
                "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
                format!("LD_PRELOAD={}", crate::workers::faketime()),
            ]
        })
        .collect();
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let words: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    let interval = Duration::from_millis(100);
    let at_work = Crew::new(&ground, &store(&dir), interval, 20).before(&words).start_all(4);
    for offset in ["+11", "-11", "-3600", "+3600"] {
        pass(Duration::from_millis(1500));
        for (n, clock) in clocks.iter().enumerate() {
            if n % 2 == 0 {
                set(clock, offset);
            }
        }
    }
    at_work.all_done();
    let (gaps, jitter) = (ground.gaps(HOST), ground.jitter());
    println!("clocks that step: least gap {:.1?}, {:.2}/s of 10", gaps.least().unwrap(), gaps.per_second().unwrap());
    ground.held(HOST, interval, jitter).unwrap();
}

#[test]
fn e10_two_hundred_rounds_of_sigkill_hang_no_survivor() {
    let _alone = alone();
    let interval = Duration::from_millis(1);
    let mut rng = 0x9e37_79b9_7f4a_7c15_u64;
    let dir = tempfile::tempdir().unwrap();
    let ground = Ground::busy();
    let crew = Crew::new(&ground, &store(&dir), interval, 25);
    for round in 0..200 {
        let mut at_work = crew.start_all(6);
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        pass(Duration::from_millis(10 + rng % 50));
        for worker in [0, 2, 4] {
            at_work.signal(worker, Signal::KILL);
        }
        for worker in [1, 3, 5] {
            let status = wait(&mut at_work.workers[worker], Duration::from_secs(20));
            assert!(status.is_some_and(|status| status.success()), "round {round}: worker {worker}: {status:?}");
        }
    }
    let times = ground.far_end.times(HOST);
    // At 1 ms the promise is the rate over any 100 ms: a hundred, and what a late timer may catch up.
    let most = comity_audit::arrivals::most_in_window(&times, Duration::from_millis(100));
    println!("200 rounds of SIGKILL: {} arrivals, at most {most} in any 100 ms", times.len());
    assert!(most <= 130, "{most} arrivals in 100 ms at 1,000 a second");
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn pass(span: Duration) {
    std::thread::sleep(span);
}

fn wait(child: &mut std::process::Child, limit: Duration) -> Option<std::process::ExitStatus> {
    let step = Duration::from_millis(5);
    for _ in 0..limit.as_millis() / step.as_millis() {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        pass(step);
    }
    None
}
