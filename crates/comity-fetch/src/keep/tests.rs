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
        Kept::open(&options).unwrap().is_done(&url(from), None)
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
    assert!(!kept.is_done(&url("https://a.test/plain"), None), "this run does not resume");
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
    assert!(!Kept::open(&other).unwrap().is_done(&url("https://a.test/x.txt"), None));
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
        assert!(!killed.is_done(&url("https://a.test/1"), None));
        fetch(&killed, "https://a.test/1", b"1, newer");
        drop(killed);
        let resumed = Kept::open(&Options { if_newer: true, resume: true, ..options(200) }).unwrap();
        assert_eq!(resumed.run(), Timestamp::from_millis(100));
        let done = ["https://a.test/1", "https://a.test/2"].map(|text| resumed.is_done(&url(text), None));
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
        assert_eq!((kept.validators(&url(from), None), kept.fetched_at(&url(from), None)), (None, None));
        let first = fetch(&kept, from, b"<rss/>");
        drop(kept);

        for (now, sent, etag) in
            [(2_000, None, "\"one\""), (3_000, Some("\"two\""), "\"two\""), (4_000, None, "\"two\"")]
        {
            let kept = Kept::open(&options(now)).unwrap();
            assert_eq!(kept.fetched_at(&url(from), None), Some(Timestamp::from_millis(now - 1_000 + 7)));
            assert!(kept.validators(&url(from), None).is_some());
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
            assert_eq!(kept.validators(&url(from), None), None, "a 304 would leave us without the file");
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
    assert!(kept.is_done(&url(from), None));
    drop(kept);
    let get = Kept::open(&Options { resume: true, head: false, ..options }).unwrap();
    assert!(!get.is_done(&url(from), None));
    assert_eq!(get.validators(&url(from), None), None);
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
        assert!((0..25).all(|n| kept.is_done(&url(&format!("https://h{thread}.test/{n}")), None)));
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
    for n in (0..5_000).filter(|n| !kept.is_done(&url(&format!("https://a.test/{n}.txt")), None)) {
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
        assert!(recorded.iter().all(|record| resumed.is_done(&url(&record.url), None)), "round {round}");
        assert!(fs::read_dir(place.path("files/.comity-part")).unwrap().count() == 1, "left-overs are cleared");
    }
}

const SEARCH: &str = "https://a.test/search.json";

/// A `POST` for [`SEARCH`] as this variant, answered with `body`.
fn search(kept: &Kept, variant: &str, body: &[u8]) -> Record {
    let mut answer = begin(kept, SEARCH, &Method::POST, 200, &headers(&[("etag", "\"post\"")]));
    answer.write(body).unwrap();
    answer.finish(Record { variant: Some(variant.to_owned()), ..record(kept, SEARCH, Outcome::Fetched) }).unwrap()
}

/// What each output alone calls done of [`SEARCH`]: its plain `GET` and two `POST`s.
fn searches_done(place: &Place, options: &Options) -> [[bool; 3]; 3] {
    [(true, false, false), (false, true, false), (false, false, true)].map(|(directory, warc, jsonl)| {
        let kept = Kept::open(&Options {
            directory: options.directory.clone().filter(|_| directory),
            warc: options.warc.clone().filter(|_| warc),
            jsonl: options.jsonl.clone().filter(|_| jsonl),
            resume: true,
            ..place.options(99)
        })
        .unwrap();
        [None, Some(ONE), Some(TWO)].map(|variant| kept.is_done(&url(SEARCH), variant))
    })
}

const ONE: &str = "POST-00000000000000a1";
const TWO: &str = "POST-00000000000000b2";

#[test]
fn requests_for_one_url_are_done_one_by_one() {
    let place = Place::new();
    let options = place.options(1);
    search(&Kept::open(&options).unwrap(), ONE, b"1");
    assert_eq!(searches_done(&place, &options), [[false, true, false]; 3]);
    fetch(&Kept::open(&Options { resume: true, ..place.options(2) }).unwrap(), SEARCH, b"plain");
    assert_eq!(searches_done(&place, &options), [[true, true, false]; 3]);
}

#[test]
fn requests_for_one_url_have_files_validators_and_lines_of_their_own() {
    for with_directory in [true, false] {
        let place = Place::new();
        let options = |now| Options {
            directory: place.options(now).directory.filter(|_| with_directory),
            if_newer: true,
            ..place.options(now)
        };
        let kept = Kept::open(&options(1)).unwrap();
        let written = [search(&kept, ONE, b"1"), search(&kept, TWO, b"22")];
        assert_eq!(lines(&place.path("out.jsonl")), written);
        assert_eq!(written.map(|record| record.variant.unwrap()), [ONE, TWO]);
        drop(kept);
        if with_directory {
            for (variant, body) in [(ONE, "1"), (TWO, "22")] {
                let name = format!("files/a.test/search~{variant}.json");
                assert_eq!(fs::read_to_string(place.path(&name)).unwrap(), body);
                let meta: Meta =
                    serde_json::from_slice(&fs::read(place.path(&(name + ".meta.json"))).unwrap()).unwrap();
                assert_eq!((meta.url.as_str(), meta.variant.as_deref()), (SEARCH, Some(variant)));
            }
            assert!(!place.path("files/a.test/search.json").exists());
        }
        let kept = Kept::open(&options(2)).unwrap();
        for (variant, held) in [(None, false), (Some(ONE), true), (Some(TWO), true), (Some("GET-1"), false)] {
            assert_eq!(kept.validators(&url(SEARCH), variant).is_some(), held, "{variant:?}");
            assert_eq!(kept.fetched_at(&url(SEARCH), variant).is_some(), held, "{variant:?}");
        }
    }
}

#[test]
fn a_head_among_gets_is_done_and_leaves_the_file_of_the_get() {
    let place = Place::new();
    let options = place.options(1);
    let kept = Kept::open(&options).unwrap();
    let from = "https://a.test/x.txt";
    fetch(&kept, from, b"hello");
    let head = Some("HEAD-00000000000000c3".to_owned());
    let answer = begin(&kept, from, &Method::HEAD, 200, &HeaderMap::new());
    answer.finish(Record { variant: head.clone(), ..record(&kept, from, Outcome::Fetched) }).unwrap();
    drop(kept);
    let kept = Kept::open(&Options { resume: true, ..options }).unwrap();
    assert!(kept.is_done(&url(from), None) && kept.is_done(&url(from), head.as_deref()));
}

#[test]
fn a_line_without_a_variant_is_the_plain_request() {
    let place = Place::new();
    let options = Options { directory: None, warc: None, ..place.options(1) };
    fetch(&Kept::open(&options).unwrap(), SEARCH, b"1");
    let line = fs::read_to_string(place.path("out.jsonl")).unwrap();
    assert!(line.contains(r#""variant":null,"#), "{line}");
    fs::write(place.path("out.jsonl"), line.replace(r#""variant":null,"#, "")).unwrap();
    let kept = Kept::open(&Options { resume: true, ..options }).unwrap();
    assert!(kept.is_done(&url(SEARCH), None) && !kept.is_done(&url(SEARCH), Some(ONE)));
}

#[test]
fn a_broken_link_is_asked_again_in_a_resumed_head_run() {
    for (directory, warc, jsonl) in [(true, "", false), (false, "w", false), (false, "w.gz", false), (false, "", true)]
    {
        let place = Place::new();
        let options = |now, head| {
            let all = place.options(now);
            Options {
                directory: all.directory.filter(|_| directory),
                warc: Some(place.path(warc)).filter(|_| !warc.is_empty()),
                jsonl: all.jsonl.filter(|_| jsonl),
                head,
                resume: true,
                ..all
            }
        };
        let links = [("a", 200), ("b", 399), ("c", 400), ("d", 404), ("e", 503)];
        let link = |name: &str| format!("https://a.test/{name}.html");
        let check = |kept: &Kept, name: &str, status: u16| {
            let answer = begin(kept, &link(name), &Method::HEAD, status, &headers(&[("etag", "\"h\"")]));
            answer.finish(record(kept, &link(name), Outcome::Fetched)).unwrap();
        };
        let done = |kept: &Kept| links.map(|(name, _)| kept.is_done(&url(&link(name)), None));

        let kept = Kept::open(&options(1, true)).unwrap();
        links.iter().for_each(|(name, status)| check(&kept, name, *status));
        drop(kept);
        let kept = Kept::open(&options(2, true)).unwrap();
        assert_eq!(done(&kept), [true, true, false, false, false], "{directory} {warc} {jsonl}");
        // A 304 or a least age would hide it as well.
        assert_eq!((kept.validators(&url(&link("d")), None), kept.fetched_at(&url(&link("d")), None)), (None, None));
        // What broke since it was last seen whole is broken, and what was repaired is whole.
        check(&kept, "a", 404);
        check(&kept, "d", 200);
        drop(kept);
        assert_eq!(done(&Kept::open(&options(3, true)).unwrap()), [false, true, false, true, false], "{warc}");
    }
}

#[test]
fn a_get_that_was_answered_404_is_done() {
    let place = Place::new();
    let kept = Kept::open(&place.options(1)).unwrap();
    let answer = begin(&kept, SEARCH, &Method::GET, 404, &HeaderMap::new());
    answer.finish(record(&kept, SEARCH, Outcome::Fetched)).unwrap();
    drop(kept);
    assert_eq!(done_by(&place, &place.options(1), SEARCH), [true; 4]);
}

#[test]
fn a_304_that_confirms_nothing_is_a_failure() {
    let place = Place::new();
    let options = Options { if_newer: true, ..place.options(1) };
    let kept = Kept::open(&options).unwrap();
    let answer = begin(&kept, SEARCH, &Method::GET, 304, &headers(&[("etag", "\"x\"")]));
    let written = answer.finish(record(&kept, SEARCH, Outcome::Unchanged)).unwrap();
    assert_eq!((written.outcome, written.status), (Outcome::Failed, Some(304)));
    assert_eq!(written.error.as_deref(), Some("304, but nothing is kept that it could confirm"));
    assert_eq!((&written.etag, written.checked), (&None, None));
    let noted = kept.note(record(&kept, SEARCH, Outcome::Unchanged)).unwrap();
    assert_eq!(noted.outcome, Outcome::Failed);
    drop(kept);
    assert_eq!(done_by(&place, &options, SEARCH), [false; 4]);

    // What is kept of another request for the URL is nothing that it could confirm.
    let kept = Kept::open(&options).unwrap();
    search(&kept, ONE, b"1");
    drop(kept);
    let kept = Kept::open(&options).unwrap();
    let answer = begin(&kept, SEARCH, &Method::GET, 304, &HeaderMap::new());
    assert_eq!(answer.finish(record(&kept, SEARCH, Outcome::Unchanged)).unwrap().outcome, Outcome::Failed);
}

#[test]
fn h12_what_is_young_is_unchanged_without_a_request_and_does_not_grow_younger_by_it() {
    for with_directory in [true, false] {
        let place = Place::new();
        let options = |now| Options {
            directory: place.options(now).directory.filter(|_| with_directory),
            warc: None,
            if_newer: true,
            ..place.options(now)
        };
        let kept = Kept::open(&options(1_000)).unwrap();
        let first = fetch(&kept, SEARCH, b"[1]");
        assert_eq!(first.checked, Some(Timestamp::from_millis(1_007)));
        drop(kept);
        for now in [2_000, 3_000] {
            let kept = Kept::open(&options(now)).unwrap();
            let young = Record { attempts: 0, ..record(&kept, SEARCH, Outcome::Unchanged) };
            let noted = kept.note(young).unwrap();
            assert_eq!((noted.attempts, noted.status, noted.bytes), (0, None, Some(3)));
            assert_eq!((&noted.sha256, &noted.etag, noted.checked), (&first.sha256, &first.etag, first.checked));
            assert_eq!(lines(&place.path("out.jsonl")).last(), Some(&noted));
            drop(kept);
            let resumed = Kept::open(&Options { resume: true, ..options(now + 10) }).unwrap();
            assert!(resumed.is_done(&url(SEARCH), None));
            assert_eq!(resumed.fetched_at(&url(SEARCH), None), first.checked);
            assert_eq!(resumed.validators(&url(SEARCH), None).unwrap().etag.as_deref(), Some("\"one\""));
        }
    }
}

#[test]
fn what_is_noted_of_a_variant_keeps_its_method_in_a_head_run() {
    let kept = Kept::open(&Options { head: true, ..Options::default() }).unwrap();
    let plain = record(&kept, SEARCH, Outcome::Robots);
    let post = Record { method: "POST".to_owned(), variant: Some(ONE.to_owned()), ..plain.clone() };
    assert_eq!(kept.note(plain).unwrap().method, "HEAD");
    assert_eq!(kept.note(post).unwrap().method, "POST");
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
    let written = serde_json::to_value(tally.report(Timestamp::default(), Timestamp::default(), 1)).unwrap();
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
