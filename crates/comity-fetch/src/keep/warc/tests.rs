//! The WARC read back: by our scan after a kill at every byte, and by Python's warcio where that is installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use http::Method;

use super::super::tests::{Place, begin, fetch, headers, record, url};
use super::super::{Kept, Options, Outcome, Waited};

const URLS: [&str; 3] = ["https://a.test/1", "https://a.test/2?q=é", "https://b.test/3"];

fn options(path: &Path, resume: bool) -> Options {
    Options { warc: Some(path.to_owned()), resume, ..Options::default() }
}

/// As [`Kept::close`] tells it, without waiting for the disk.
fn torn(kept: &Kept) -> u64 {
    kept.outputs.warc.as_ref().unwrap().found().torn
}

fn fetch_waited(kept: &Kept, from: &str) {
    let mut answer = begin(kept, from, &Method::GET, 200, &headers(&[("content-type", "text/plain")]));
    answer.write(b"hello").unwrap();
    let mut record = record(kept, from, Outcome::Fetched);
    record.attempts = 2;
    record.waits.push(Waited { ms: 250, scope: "a.test".to_owned(), because: "Retry-After\r\nof 250 ms".to_owned() });
    answer.finish(record).unwrap();
}

#[test]
fn killed_at_every_byte_whole_exchanges_stay_and_the_torn_one_is_cut() {
    for name in ["out.warc", "out.warc.gz"] {
        let place = Place::new();
        let path = place.path(name);
        let kept = Kept::open(&options(&path, false)).unwrap();
        let len = || fs::metadata(&path).unwrap().len() as usize;
        let mut ends = vec![len()];
        for from in &URLS[..2] {
            fetch(&kept, from, b"hello");
            ends.push(len());
        }
        // With a metadata record after it.
        fetch_waited(&kept, URLS[2]);
        ends.push(len());
        drop(kept);
        let whole = fs::read(&path).unwrap();

        for cut in 0..=whole.len() {
            // A new file each time: shortening one in place makes some file systems wait for the disk.
            fs::remove_file(&path).unwrap();
            fs::write(&path, &whole[..cut]).unwrap();
            let kept = Kept::open(&options(&path, true)).unwrap();
            let done = URLS.map(|from| kept.is_done(&url(from), None));
            assert_eq!(done[..2], [cut >= ends[1], cut >= ends[2]], "{name} cut at {cut}");
            // It is done from the end of its response on, with or without its metadata.
            assert!(if done[2] { cut > ends[2] } else { cut < ends[3] }, "{name} cut at {cut}");
            let count = done.iter().filter(|&&done| done).count();
            let cut_off = torn(&kept) as usize;
            assert!(fs::read(&path).unwrap().starts_with(&whole[..cut - cut_off]));
            if cut % 16 > 0 && !ends.contains(&cut) {
                continue;
            }
            URLS[count..].iter().for_each(|from| drop(fetch(&kept, from, b"hello")));
            drop(kept);

            let kept = Kept::open(&options(&path, true)).unwrap();
            assert!(URLS.iter().all(|from| kept.is_done(&url(from), None)), "{name} cut at {cut}");
            assert_eq!(torn(&kept), 0, "{name} cut at {cut}");
        }
    }
}

#[test]
fn zeros_a_power_cut_left_are_cut() {
    for name in ["out.warc", "out.warc.gz"] {
        let place = Place::new();
        let path = place.path(name);
        fetch(&Kept::open(&options(&path, false)).unwrap(), URLS[0], b"hello");
        let mut bytes = fs::read(&path).unwrap();
        bytes.resize(bytes.len() + 5_000, 0);
        fs::write(&path, &bytes).unwrap();
        let kept = Kept::open(&options(&path, true)).unwrap();
        assert!(kept.is_done(&url(URLS[0]), None));
        assert_eq!(kept.close().unwrap().torn_bytes, 5_000);
    }
}

#[test]
fn damage_before_the_end_is_an_error_and_nothing_is_cut() {
    for name in ["out.warc", "out.warc.gz"] {
        let place = Place::new();
        let path = place.path(name);
        let kept = Kept::open(&options(&path, false)).unwrap();
        let first = fs::metadata(&path).unwrap().len() as usize;
        URLS.iter().for_each(|from| drop(fetch(&kept, from, b"hello")));
        drop(kept);
        let mut bytes = fs::read(&path).unwrap();
        bytes[first] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        let error = Kept::open(&options(&path, true)).err().unwrap();
        assert!(error.is_damaged() && error.path() == path, "{name}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}");
    }
}

#[test]
fn something_else_is_not_taken_for_a_warc() {
    let place = Place::new();
    for name in ["notes.txt", "notes.gz"] {
        fs::write(place.path(name), "my notes\n".repeat(20)).unwrap();
        assert!(Kept::open(&options(&place.path(name), true)).err().unwrap().is_damaged());
        assert_eq!(fs::metadata(place.path(name)).unwrap().len(), 180);
    }
}

/// A Python that has warcio: `COMITY_PYTHON` names one, else `python3` may be one.
fn python() -> Option<String> {
    if let Ok(named) = std::env::var("COMITY_PYTHON") {
        return Some(named);
    }
    let tried = Command::new("python3").args(["-c", "import warcio"]).output();
    tried.is_ok_and(|output| output.status.success()).then(|| "python3".to_owned())
}

/// Prints each record's type, target and payload length, then the verdict of `warcio check`.
const READ_BACK: &str = r#"
import sys
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main
for path in sys.argv[1:]:
    with open(path, 'rb') as stream:
        for record in ArchiveIterator(stream):
            status = record.http_headers.get_statuscode() if record.http_headers and record.rec_type != 'request' else '-'
            length = len(record.content_stream().read())
            print(record.rec_type, record.rec_headers.get_header('WARC-Target-URI'), status, length)
    if main(['check', '-v', path]):
        sys.exit('check failed')
"#;

#[test]
fn warcio_finds_every_record_and_every_digest_right() {
    let Some(python) = python() else {
        println!("skipped: no Python with warcio");
        return;
    };
    for name in ["out.warc", "out.warc.gz"] {
        let place = Place::new();
        let path = place.path(name);
        let open = |resume, now| {
            Kept::open(&Options { if_newer: true, resume, warc: Some(path.clone()), ..place.options(now) })
        };
        let kept = open(false, 1).unwrap();
        let chunked = headers(&[("transfer-encoding", "chunked"), ("etag", "\"1\"")]);
        let mut answer = begin(&kept, "https://a.test/x", &Method::GET, 200, &chunked);
        answer.write(b"hel").unwrap();
        answer.write(b"lo").unwrap();
        answer.finish(record(&kept, "https://a.test/x", Outcome::Fetched)).unwrap();
        begin(&kept, "https://a.test/moved", &Method::GET, 301, &headers(&[("location", "/x")])).hop().unwrap();
        fetch(&kept, "https://a.test/empty", b"");
        fetch(&kept, "https://a.test/large", &vec![b'x'; 1_000_000]);
        let head = begin(&kept, "https://a.test/head", &Method::HEAD, 200, &headers(&[("content-length", "77")]));
        head.finish(record(&kept, "https://a.test/head", Outcome::Fetched)).unwrap();
        fetch_waited(&kept, "https://a.test/waited");
        drop(kept);
        // Killed in the middle of a record, and gone on with.
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend_from_within(..100);
        fs::write(&path, bytes).unwrap();
        let kept = open(true, 2).unwrap();
        let answer = begin(&kept, "https://a.test/x", &Method::GET, 304, &headers(&[("etag", "\"1\"")]));
        answer.finish(record(&kept, "https://a.test/x", Outcome::Unchanged)).unwrap();
        drop(kept);

        let output = Command::new(&python).args(["-c", READ_BACK]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n");
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        let (records, check) = text.split_at(text.find(&format!("{}\n", path.display())).unwrap());
        assert_eq!(
            records.lines().collect::<Vec<_>>(),
            [
                "warcinfo None - 183",
                "request https://a.test/x - 0",
                "response https://a.test/x 200 5",
                "request https://a.test/moved - 0",
                "response https://a.test/moved 301 0",
                "request https://a.test/empty - 0",
                "response https://a.test/empty 200 0",
                "request https://a.test/large - 0",
                "response https://a.test/large 200 1000000",
                "request https://a.test/head - 0",
                "response https://a.test/head 200 0",
                "request https://a.test/waited - 0",
                "response https://a.test/waited 200 5",
                "metadata https://a.test/waited - 64",
                "warcinfo None - 183",
                "request https://a.test/x - 0",
                "revisit https://a.test/x 304 0",
            ]
        );
        assert_eq!(check.matches("digest pass").count(), 16, "{check}");
        assert_eq!(check.matches("(revisit)").count(), 1, "{check}");
    }
}
