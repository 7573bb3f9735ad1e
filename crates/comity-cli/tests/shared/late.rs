//! Programs that use what they were granted too late.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use comity::{Answer, Begin, Pacer, Partial, Policy, Profile};
use comity_audit::arrivals::Gaps;
use comity_machine::{Machine, Settings};
use url::Url;

use crate::far_end::{Ground, HOST, held};

const SPACING: Duration = Duration::from_millis(50);

#[test]
fn x3_grants_used_late_close_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let (gaps, jitter) = late_gaps(&dir.path().join("fenced"), true);
    let (fenced, careless) = (gaps.least().unwrap(), late_gaps(&dir.path().join("careless"), false).0.least().unwrap());
    println!("5 % of grants used 45 ms late at 50 ms: least gap {fenced:.1?}; without the fence {careless:.1?}");
    assert!(careless < Duration::from_millis(20), "the control must fail, and its least gap is {careless:?}");
    held(&gaps, SPACING, jitter).unwrap();
}

/// The gaps that four members make at the far end, each of which is 45 ms late with every twentieth grant; and how much
/// shorter than its spacing a perfect client's were meanwhile.
fn late_gaps(store: &Path, fence: bool) -> (Gaps, Duration) {
    let mut ground = Ground::new();
    std::thread::scope(|scope| {
        let ground = &ground;
        for member in 0..4 {
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let machine = Machine::open(store, Settings::default()).unwrap();
                runtime.block_on(late_user(machine, ground, member, fence));
            });
        }
    });
    (ground.gaps(HOST), ground.jitter())
}

async fn late_user(machine: Machine, ground: &Ground, member: usize, fence: bool) {
    let limits = Partial { interval: Some(SPACING), policy: Some(Policy::Fixed), ..Partial::default() };
    let pacer = Pacer::builder(Profile::Api).template(limits).shared(machine);
    let url = Url::parse(&format!("http://{HOST}/w{member}/")).unwrap();
    let mut stream = TcpStream::connect(ground.far_end.addr()).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    for n in 0..40 {
        let mut permit = pacer.acquire(&url).await.unwrap();
        if (n + 5 * member) % 20 == 10 {
            tokio::time::sleep(Duration::from_millis(45)).await;
        }
        while fence && permit.begin() == Begin::TooLate {
            permit = permit.again().await.unwrap();
        }
        write!(stream, "GET /w{member}/{n} HTTP/1.1\r\nhost: {HOST}\r\n\r\n").unwrap();
        read_answer(&mut answers);
        let _ = permit.settle(&Answer::response(200, &http::HeaderMap::new()));
    }
}

fn read_answer(answers: &mut impl BufRead) {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        answers.read_line(&mut line).unwrap();
        match line.trim_end().to_ascii_lowercase().split_once("content-length:") {
            Some((_, value)) => length = value.trim().parse().unwrap(),
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    std::io::copy(&mut answers.take(length), &mut std::io::sink()).unwrap();
}
