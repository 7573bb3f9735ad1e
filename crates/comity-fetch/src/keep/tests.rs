//! All outputs together, as the engine uses them.

use std::fs;
use std::path::{Path, PathBuf};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version};

use super::*;

/// Where a test keeps things, and the run it plays.
pub(super) struct Place {
    pub(super) dir: tempfile::TempDir,
}

impl Place {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// All three outputs.
    pub(super) fn options(&self, millis: i64) -> Options {
        Options {
            directory: Some(self.path("files")),
            warc: Some(self.path("out.warc.gz")),
            jsonl: Some(Lines::File(self.path("out.jsonl"))),
            about: vec![("software".to_owned(), "comity test".to_owned())],
            now: Timestamp::from_millis(millis),
            ..Options::default()
        }
    }
}

pub(super) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

pub(super) fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().map(|&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
}

/// Begins an exchange of this method and status.
pub(super) fn begin(kept: &Kept, from: &str, method: &Method, status: u16, headers: &HeaderMap) -> Body {
    kept.begin(&Exchange {
        url: &url(from),
        method,
        request_headers: &HeaderMap::new(),
        version: Version::HTTP_11,
        status: StatusCode::from_u16(status).unwrap(),
        reason: None,
        headers,
        peer: Some([192, 0, 2, 1].into()),
        at: kept.run(),
    })
}

pub(super) fn record(kept: &Kept, from: &str, outcome: Outcome) -> Record {
    let mut record = Record::new(url(from), outcome, kept.run(), Timestamp::from_millis(kept.run().as_millis() + 7));
    record.attempts = 1;
    record
}

/// A `GET` answered 200 with `body`.
pub(super) fn fetch(kept: &Kept, from: &str, body: &[u8]) -> Record {
    let mut answer =
        begin(kept, from, &Method::GET, 200, &headers(&[("etag", "\"one\""), ("content-type", "text/plain")]));
    answer.write(body).unwrap();
    answer.finish(record(kept, from, Outcome::Fetched)).unwrap()
}

fn lines(path: &Path) -> Vec<Record> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn one_answer_is_in_every_output_and_the_record_is_filled() {
    let place = Place::new();
    let kept = Kept::open(&place.options(1)).unwrap();
    let record = fetch(&kept, "https://a.test/x.txt", b"hello");
    assert_eq!((record.status, record.bytes), (Some(200), Some(5)));
    assert_eq!(record.final_url.as_deref(), Some("https://a.test/x.txt"));
    assert_eq!(record.etag.as_deref(), Some("\"one\""));
    assert_eq!(record.sha256.as_deref(), Some("2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"));
    let summary = kept.close().unwrap();
    assert_eq!((summary.records, summary.bytes, summary.torn_bytes), (1, 5, 0));

    assert_eq!(lines(&place.path("out.jsonl")), [record]);
    assert_eq!(fs::read(place.path("files/a.test/x.txt")).unwrap(), b"hello");
    let meta: Meta = serde_json::from_slice(&fs::read(place.path("files/a.test/x.txt.meta.json")).unwrap()).unwrap();
    assert_eq!(meta.headers[1], ("content-type".to_owned(), "text/plain".to_owned()));
    assert!(!place.path("files/.comity-part").exists(), "a finished run leaves no traces");
}

#[test]
fn a_dropped_body_leaves_nothing() {
    let place = Place::new();
    let kept = Kept::open(&place.options(1)).unwrap();
    let before = fs::metadata(place.path("out.warc.gz")).unwrap().len();
    for len in [10, 1 << 20] {
        let mut body = begin(&kept, "https://a.test/x.txt", &Method::GET, 200, &HeaderMap::new());
        body.write(&vec![0; len]).unwrap();
        assert_eq!(body.is_large(), len > spool::MEMORY_MAX);
    }
    assert_eq!(fs::metadata(place.path("out.warc.gz")).unwrap().len(), before);
    assert_eq!(fs::metadata(place.path("out.jsonl")).unwrap().len(), 0);
    assert!(!place.path("files/a.test").exists());
    assert_eq!(fs::read_dir(place.path("files/.comity-part")).unwrap().count(), 1, "the run's mark alone");
}

/// The URL, and whether each output alone calls it done.
fn done_by(place: &Place, options: &Options, from: &str) -> [bool; 4] {
    let part = |directory: bool, warc: bool, jsonl: bool| {
        let options = Options {
            directory: options.directory.clone().filter(|_| directory),
            warc: options.warc.clone().filter(|_| warc),
            jsonl: options.jsonl.clone().filter(|_| jsonl),
            resume: true,
            ..place.options(99)
        };
        Kept::open(&options).unwrap().is_done(&url(from))
    };
    [part(true, true, true), part(true, false, false), part(false, true, false), part(false, false, true)]
}

#[test]
fn a_resumed_run_knows_what_is_done_from_any_output() {
    let place = Place::new();
    let options = place.options(1);
    let kept = Kept::open(&options).unwrap();
    fetch(&kept, "https://a.test/plain", b"1");
    let hop = begin(&kept, "https://a.test/moved", &Method::GET, 301, &headers(&[("location", "/target")]));
    hop.hop().unwrap();
    let target = begin(&kept, "https://a.test/target", &Method::GET, 200, &HeaderMap::new());
    target.finish(record(&kept, "https://a.test/moved", Outcome::Fetched)).unwrap();
    begin(&kept, "https://a.test/loop", &Method::GET, 302, &HeaderMap::new()).hop().unwrap();
    let refusal = begin(&kept, "https://a.test/refused", &Method::GET, 429, &HeaderMap::new());
    refusal.finish(record(&kept, "https://a.test/refused", Outcome::Refused)).unwrap();
    kept.note(record(&kept, "https://a.test/robots", Outcome::Robots)).unwrap();
    kept.note(record(&kept, "https://a.test/failed", Outcome::Failed)).unwrap();
    assert!(!kept.is_done(&url("https://a.test/plain")), "this run does not resume");
    drop(kept);

    assert_eq!(done_by(&place, &options, "https://a.test/plain"), [true; 4]);
    assert_eq!(done_by(&place, &options, "https://a.test/moved"), [true; 4]);
    assert_eq!(done_by(&place, &options, "https://a.test/robots"), [true, false, false, true]);
    for open in ["loop", "target", "refused", "failed", "never"] {
        assert_eq!(done_by(&place, &options, &format!("https://a.test/{open}")), [false; 4], "{open}");
    }
}

#[test]
fn an_output_that_is_new_or_lost_its_file_is_filled_again() {
    let place = Place::new();
    let options = place.options(1);
    fetch(&Kept::open(&options).unwrap(), "https://a.test/x.txt", b"1");
    fs::remove_file(place.path("files/a.test/x.txt")).unwrap();
    assert_eq!(done_by(&place, &options, "https://a.test/x.txt"), [false, false, true, true]);
    let other = Options { warc: Some(place.path("other.warc")), directory: None, resume: true, ..options };
    assert!(!Kept::open(&other).unwrap().is_done(&url("https://a.test/x.txt")));
}

#[test]
fn a_resumed_run_goes_on_under_its_name_and_a_new_one_has_a_later_one() {
    let place = Place::new();
    fetch(&Kept::open(&place.options(50)).unwrap(), "https://a.test/x.txt", b"1");
    let error = Kept::open(&place.options(60)).err().unwrap();
    assert!(error.is_occupied(), "{error}");
    let resumed = Options { resume: true, ..place.options(60) };
    assert_eq!(Kept::open(&resumed).unwrap().run(), Timestamp::from_millis(50));
    let newer = Options { if_newer: true, ..place.options(60) };
    assert_eq!(Kept::open(&newer).unwrap().run(), Timestamp::from_millis(60));
    let clock_set_back = Options { if_newer: true, ..place.options(40) };
    assert_eq!(Kept::open(&clock_set_back).unwrap().run(), Timestamp::from_millis(61));
    let again = Options { replace: true, ..place.options(70) };
    drop(Kept::open(&again).unwrap());
    assert!(lines(&place.path("out.jsonl")).is_empty());
}

#[test]
fn a_killed_if_newer_run_is_resumed_where_it_was() {
    for (directory, warc, jsonl) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, true)]
    {
        let place = Place::new();
        let options = |now| {
            let all = place.options(now);
            Options {
                directory: all.directory.filter(|_| directory),
                warc: all.warc.filter(|_| warc),
                jsonl: all.jsonl.filter(|_| jsonl),
                ..all
            }
        };
        let first = Kept::open(&options(1)).unwrap();
        fetch(&first, "https://a.test/1", b"1");
        fetch(&first, "https://a.test/2", b"2");
        first.close().unwrap();
        drop(first);
        let killed = Kept::open(&Options { if_newer: true, ..options(100) }).unwrap();
        assert!(!killed.is_done(&url("https://a.test/1")));
        fetch(&killed, "https://a.test/1", b"1, newer");
        drop(killed);
        let resumed = Kept::open(&Options { if_newer: true, resume: true, ..options(200) }).unwrap();
        assert_eq!(resumed.run(), Timestamp::from_millis(100));
        let done = ["https://a.test/1", "https://a.test/2"].map(|text| resumed.is_done(&url(text)));
        assert_eq!(done, [true, false], "{directory} {warc} {jsonl}");
    }
}

#[test]
fn h12_a_304_is_a_success_that_keeps_the_old_file_and_its_age_is_known() {
    for with_directory in [true, false] {
        let place = Place::new();
        let options = |now| Options {
            directory: place.options(now).directory.filter(|_| with_directory),
            if_newer: true,
            ..place.options(now)
        };
        let from = "https://a.test/feed.xml";
        let kept = Kept::open(&options(1_000)).unwrap();
        assert_eq!((kept.validators(&url(from)), kept.fetched_at(&url(from))), (None, None));
        let first = fetch(&kept, from, b"<rss/>");
        drop(kept);

        for (now, sent, etag) in
            [(2_000, None, "\"one\""), (3_000, Some("\"two\""), "\"two\""), (4_000, None, "\"two\"")]
        {
            let kept = Kept::open(&options(now)).unwrap();
            assert_eq!(kept.fetched_at(&url(from)), Some(Timestamp::from_millis(now - 1_000 + 7)));
            assert!(kept.validators(&url(from)).is_some());
            let sent = sent.map(|etag| headers(&[("etag", etag)])).unwrap_or_default();
            let answer = begin(&kept, from, &Method::GET, 304, &sent);
            let record = answer.finish(record(&kept, from, Outcome::Unchanged)).unwrap();
            assert_eq!((record.status, record.bytes, &record.sha256), (Some(304), Some(6), &first.sha256));
            assert_eq!(record.etag.as_deref(), Some(etag));
            drop(kept);
        }
        if with_directory {
            assert_eq!(fs::read(place.path("files/a.test/feed.xml")).unwrap(), b"<rss/>");
            fs::remove_file(place.path("files/a.test/feed.xml")).unwrap();
            let kept = Kept::open(&options(5_000)).unwrap();
            assert_eq!(kept.validators(&url(from)), None, "a 304 would leave us without the file");
        }
    }
}

#[test]
fn head_keeps_what_is_known_without_a_body() {
    let place = Place::new();
    let options = Options { head: true, ..place.options(1) };
    let kept = Kept::open(&options).unwrap();
    let from = "https://a.test/x.txt";
    let answer = begin(&kept, from, &Method::HEAD, 200, &headers(&[("content-length", "9"), ("etag", "\"h\"")]));
    let written = answer.finish(record(&kept, from, Outcome::Fetched)).unwrap();
    assert_eq!((written.method.as_str(), written.bytes, written.sha256), ("HEAD", None, None));
    drop(kept);
    assert!(!place.path("files/a.test/x.txt").exists());
    assert!(place.path("files/a.test/x.txt.meta.json").exists());
    let kept = Kept::open(&Options { resume: true, ..options.clone() }).unwrap();
    assert!(kept.is_done(&url(from)));
    drop(kept);
    let get = Kept::open(&Options { resume: true, head: false, ..options }).unwrap();
    assert!(!get.is_done(&url(from)));
    assert_eq!(get.validators(&url(from)), None);
}

#[test]
fn h10_a_run_stopped_early_stays_marked_and_a_finished_one_does_not() {
    for (outcome, marked) in [(Outcome::NotChecked, true), (Outcome::Refused, true), (Outcome::Failed, false)] {
        let place = Place::new();
        let kept = Kept::open(&place.options(1)).unwrap();
        kept.note(record(&kept, "https://a.test/", outcome)).unwrap();
        kept.close().unwrap();
        assert_eq!(place.path("files/.comity-part/run").exists(), marked, "{outcome:?}");
    }
}

#[test]
fn a_hundred_writers_at_once_write_whole_lines_and_records() {
    let place = Place::new();
    let kept = Kept::open(&place.options(1)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let kept = &kept;
            scope.spawn(move || {
                for n in 0..25 {
                    fetch(
                        kept,
                        &format!("https://h{thread}.test/{n}"),
                        &vec![b'x'; if n == 7 { 300_000 } else { 1_000 }],
                    );
                }
            });
        }
    });
    assert_eq!(kept.close().unwrap().records, 200);
    drop(kept);
    assert_eq!(lines(&place.path("out.jsonl")).len(), 200);
    let kept = Kept::open(&Options { resume: true, ..place.options(2) }).unwrap();
    for thread in 0..8 {
        assert!((0..25).all(|n| kept.is_done(&url(&format!("https://h{thread}.test/{n}")))));
    }
}

#[test]
fn is_shared_between_tasks() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Kept>();
    shared::<Body>();
}

/// Long enough now and then for a temporary file; its own URL tells its length.
fn body_of(n: usize) -> Vec<u8> {
    vec![b'x'; if n.is_multiple_of(10) { 300_000 + n } else { n }]
}

/// The process [`killed_at_any_instant_nothing_half_written_is_seen`] kills.
#[test]
#[ignore = "runs for a test that kills it"]
fn a_process_that_is_killed() {
    let Some(dir) = std::env::var_os("COMITY_KEEP_UNTIL_KILLED") else { return };
    let dir = PathBuf::from(dir);
    let options = Options {
        directory: Some(dir.join("files")),
        warc: Some(dir.join("out.warc")),
        jsonl: Some(Lines::File(dir.join("out.jsonl"))),
        resume: true,
        ..Options::default()
    };
    let kept = Kept::open(&options).unwrap();
    for n in (0..5_000).filter(|n| !kept.is_done(&url(&format!("https://a.test/{n}.txt")))) {
        fetch(&kept, &format!("https://a.test/{n}.txt"), &body_of(n));
    }
}

#[test]
fn killed_at_any_instant_nothing_half_written_is_seen() {
    let place = Place::new();
    let mut length = 0;
    for round in 1..=6 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "keep::tests::a_process_that_is_killed", "--ignored"])
            .env("COMITY_KEEP_UNTIL_KILLED", place.dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Each round is killed after some more lines, wherever it then is.
        let grown = |len: u64| fs::metadata(place.path("out.jsonl")).is_ok_and(|file| file.len() > len);
        while !grown(length + round * 1_500) && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();

        let text = fs::read_to_string(place.path("out.jsonl")).unwrap();
        length = text.len() as u64;
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let recorded: Vec<Record> = whole.map(|line| serde_json::from_str(line).unwrap()).collect();
        let urls: std::collections::HashSet<&str> = recorded.iter().map(|record| record.url.as_str()).collect();
        assert_eq!(urls.len(), recorded.len(), "round {round}: none was fetched twice");
        for entry in fs::read_dir(place.path("files/a.test")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if name.ends_with(".meta.json") {
                serde_json::from_slice::<Meta>(&fs::read(entry.path()).unwrap()).unwrap();
            } else {
                let n: usize = name.strip_suffix(".txt").unwrap().parse().unwrap();
                assert!(fs::read(entry.path()).unwrap() == body_of(n), "round {round}: {name}");
            }
        }
        let resumed =
            Kept::open(&Options { warc: Some(place.path("out.warc")), resume: true, ..place.options(9) }).unwrap();
        assert!(recorded.iter().all(|record| resumed.is_done(&url(&record.url))), "round {round}");
        assert!(fs::read_dir(place.path("files/.comity-part")).unwrap().count() == 1, "left-overs are cleared");
    }
}

/// The keys an object schema describes and requires are the keys that are written.
fn assert_keys(schema: &serde_json::Value, written: &serde_json::Value) {
    let written: Vec<&String> = written.as_object().unwrap().keys().collect();
    let described: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
    let mut required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
    required.sort_unstable();
    let mut sorted = written.clone();
    sorted.sort_unstable();
    let mut described = described;
    described.sort_unstable();
    assert_eq!(described, sorted);
    assert_eq!(required, sorted);
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn the_schemas_name_what_is_written() {
    let line: serde_json::Value =
        serde_json::from_str(include_str!("../../../../schema/fetch-line.schema.json")).unwrap();
    let mut record = Record::new("https://a.test/", Outcome::Fetched, Timestamp::default(), Timestamp::default());
    record.waits.push(Waited { ms: 1, scope: "a.test".to_owned(), because: "interval".to_owned() });
    record.redirects.push(Redirect { status: 301, to: "https://b.test/".to_owned() });
    let written = serde_json::to_value(&record).unwrap();
    assert_keys(&line, &written);
    assert_keys(&line["properties"]["waits"]["items"], &written["waits"][0]);
    assert_keys(&line["properties"]["redirects"]["items"], &written["redirects"][0]);
    let outcomes = [
        Outcome::Fetched,
        Outcome::Unchanged,
        Outcome::Refused,
        Outcome::Failed,
        Outcome::Robots,
        Outcome::Skipped,
        Outcome::NotChecked,
    ];
    assert_eq!(line["properties"]["outcome"]["enum"], serde_json::to_value(outcomes).unwrap());

    let report: serde_json::Value =
        serde_json::from_str(include_str!("../../../../schema/report.schema.json")).unwrap();
    let mut tally = Tally::default();
    tally.record(&record);
    let written = serde_json::to_value(tally.report(Timestamp::default(), Timestamp::default())).unwrap();
    assert_keys(&report, &written);
    assert_keys(&report["$defs"]["counts"], &written["totals"]);
}

/// `cargo test --release -p comity-fetch keep -- --ignored --nocapture` tells what an answer of 1 KB costs.
#[test]
#[ignore = "a measurement"]
#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn cost_of_20_000_answers() {
    for (name, directory, warc, jsonl) in [
        ("files", true, "", false),
        ("warc", false, "w.warc", false),
        ("warc.gz", false, "w.warc.gz", false),
        ("lines", false, "", true),
    ] {
        let place = Place::new();
        let all = place.options(1);
        let kept = Kept::open(&Options {
            directory: all.directory.filter(|_| directory),
            warc: Some(place.path(warc)).filter(|_| !warc.is_empty()),
            jsonl: all.jsonl.filter(|_| jsonl),
            ..Options::default()
        })
        .unwrap();
        let begin = std::time::Instant::now();
        let body: Vec<u8> = (0..1024_u32).map(|n| b'a' + (n * n % 23) as u8).collect();
        for n in 0..20_000 {
            fetch(&kept, &format!("https://h{}.test/page/{n}.html", n % 50), &body);
        }
        println!("{name}: {:.1} µs each", begin.elapsed().as_secs_f64() * 1e6 / 20_000.0);
    }
}
