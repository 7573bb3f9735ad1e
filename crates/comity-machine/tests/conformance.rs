//! The machine store passes the suite every store must pass, with room for all and with room for few.

use std::cell::RefCell;
use std::sync::Arc;

use comity_core::scope::Rules;
use comity_machine::{Machine, Settings};
use comity_store::{Joined, Memory, MemorySettings, conformance};
use tempfile::TempDir;

thread_local! {
    /// Directories of this thread's stores, which go with it.
    static DIRECTORIES: RefCell<Vec<TempDir>> = const { RefCell::new(Vec::new()) };
}

/// A store of its own for every check.
fn joined(rules: Rules, settings: MemorySettings) -> Joined<Machine> {
    let directory = tempfile::tempdir().expect("a directory");
    let machine = Machine::open(directory.path().join("pace"), Settings::default()).expect("a store");
    DIRECTORIES.with_borrow_mut(|directories| directories.push(directory));
    Joined::new(Memory::new(Arc::new(rules), settings), machine)
}

fn roomy(rules: Rules) -> Joined<Machine> {
    joined(rules, MemorySettings::default())
}

fn crowded(rules: Rules) -> Joined<Machine> {
    joined(rules, MemorySettings { most_scopes: 12, ..MemorySettings::default() })
}

comity_store::conformance_tests!(roomy, crowded);

#[test]
fn every_check_at_once() {
    conformance::every_check(roomy);
}
