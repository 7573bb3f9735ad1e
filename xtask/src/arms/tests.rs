//! One short arm for real: our command, and a control that must be refused.

use std::path::PathBuf;
use std::time::Duration;

use super::arm::{Arm, Goal};
use super::limit::Limit;
use super::run::{Manner, Programs, run};
use super::table::{json, missed, table};
use super::tool::{OURS, TOOLS};

/// What `cargo test --workspace` puts beside this test.
fn programs() -> Programs {
    let tests = std::env::current_exe().unwrap();
    let folder = tests.parent().unwrap().parent().unwrap();
    let program = |name: &str| -> PathBuf {
        let program = folder.join(name).with_extension(std::env::consts::EXE_EXTENSION);
        assert!(program.exists(), "{} is built by `cargo test --workspace`", program.display());
        program
    };
    Programs { comity: program("comity"), far_end: program("examples/far_end") }
}

#[test]
fn x4_hosts_tell_a_tool_that_asks_too_fast_from_ours() {
    let limit = Limit::Bucket { every: Duration::from_millis(100), burst: 4 };
    let arm = Arm {
        name: "short",
        about: "token bucket, 10/s, burst 4",
        hosts: vec![("short.internal".to_owned(), limit)],
        urls: 100,
        at_most: Duration::from_secs(1),
        told: "10/s",
        cold: vec![Goal::Refused(1000), Goal::Seconds(0.0)],
        again: Vec::new(),
    };
    let programs = programs();
    let at = |name: &str, again| {
        let tool = TOOLS.into_iter().find(|tool| tool.name == name).unwrap();
        let folder = tempfile::tempdir().unwrap();
        run(&arm, &tool, &programs, &Manner { again, ..Manner::default() }, folder.path()).unwrap()
    };
    let control = at("curl-parallel", true);
    let ours = at(OURS, true);

    // All at once, and the bucket holds four.
    assert_eq!(control.len(), 1, "curl learns nothing that a second run could know");
    assert!(control[0].got() >= 4 && control[0].refused() >= 40, "{control:?}");
    assert_eq!(ours.iter().map(|run| run.again).collect::<Vec<_>>(), [false, true]);
    assert!(ours.iter().all(|run| run.got() >= 4 && run.refused() < control[0].refused()), "{ours:?}");
    assert!(ours[0].possible() <= 14, "{ours:?}");

    let (arms, seen) = ([arm], [ours, control].concat());
    assert_eq!(missed(&arms, &seen), ["short, comity: ≤ 0 s"]);
    let told = table(&arms, &seen);
    assert!(told.contains("refused ≤ 1000, ≤ 0 s MISSED"), "{told}");
    let json = json(&arms, &seen);
    assert_eq!(json["runs"].as_array().map(Vec::len), Some(3));
    assert_eq!(json["runs"][0]["goals"][1]["reached"], false);
    assert_eq!(json["runs"][2]["tool"], "curl-parallel");
}
