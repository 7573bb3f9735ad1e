//! The store in memory passes the suite every store must pass, with room for all and with room for few.

use std::sync::Arc;

use comity_core::scope::Rules;
use comity_store::{Memory, MemorySettings, conformance};

fn roomy(rules: Rules) -> Memory {
    Memory::new(Arc::new(rules), MemorySettings::default())
}

fn crowded(rules: Rules) -> Memory {
    Memory::new(Arc::new(rules), MemorySettings { most_scopes: 12, ..MemorySettings::default() })
}

comity_store::conformance_tests!(roomy, crowded);

#[test]
fn every_check_at_once() {
    conformance::every_check(roomy);
}
