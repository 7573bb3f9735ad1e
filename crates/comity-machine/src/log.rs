//! The log of a scope's windows: a page of starts, where records have no room for them.

use core::time::Duration;

use comity_core::limits::Windows;
use comity_core::time::{Instant, nanos};

use crate::record::{KEY, KIND, KIND_LOG, NAME_LENGTH, PAGE_BYTES};
use crate::sum::{Key, sum};

/// A page of starts: the log of a scope's windows.
#[derive(Clone, Debug)]
pub(crate) struct LogPage(pub(crate) Box<[u8; PAGE_BYTES]>);

impl LogPage {
    pub(crate) fn blank() -> Self {
        Self(Box::new([0; PAGE_BYTES]))
    }

    /// The starts of this scope, as a page.
    pub(crate) fn make(generation: u64, key: Key, windows: &Windows) -> Self {
        let mut page = Self::blank();
        let bytes = &mut page.0;
        bytes[KIND] = KIND_LOG;
        let kept = windows.to_keep(LOG_ENTRIES);
        bytes[NAME_LENGTH..NAME_LENGTH + 2].copy_from_slice(&(kept.len() as u16).to_le_bytes());
        bytes[KEY..KEY + 8].copy_from_slice(&key[0].to_le_bytes());
        bytes[KEY + 8..KEY + 16].copy_from_slice(&key[1].to_le_bytes());
        let (most, longest) = windows.reach();
        bytes[MOST_AT..MOST_AT + 4].copy_from_slice(&most.to_le_bytes());
        bytes[LONGEST_AT..LONGEST_AT + 8].copy_from_slice(&nanos(longest).to_le_bytes());
        for (entry, (at, count)) in bytes[LOG_AT..].chunks_exact_mut(LOG_ENTRY_BYTES).zip(kept) {
            entry[..8].copy_from_slice(&at.as_nanos().to_le_bytes());
            entry[8..].copy_from_slice(&count.to_le_bytes());
        }
        let sum = sum(generation, &bytes[8..]);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// The starts, where these bytes are this scope's log.
    pub(crate) fn windows(&self, generation: u64, key: Key) -> Option<Windows> {
        let bytes = &self.0;
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        if word(0) != sum(generation, &bytes[8..]) || bytes[KIND] != KIND_LOG || [word(KEY), word(KEY + 8)] != key {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([bytes[NAME_LENGTH], bytes[NAME_LENGTH + 1]])).min(LOG_ENTRIES);
        let entry = |entry: &[u8]| {
            let at = u64::from_le_bytes(core::array::from_fn(|n| entry[n]));
            let count = u32::from_le_bytes(core::array::from_fn(|n| entry[8 + n]));
            (Instant::from_nanos(at), count)
        };
        let most = u32::from_le_bytes(core::array::from_fn(|n| bytes[MOST_AT + n]));
        let starts = bytes[LOG_AT..].chunks_exact(LOG_ENTRY_BYTES).take(count).map(entry);
        Some(Windows::kept(starts).reaching(most, Duration::from_nanos(word(LONGEST_AT))))
    }
}

// The beginning is like a record's, so that a walk over the pages tells the two apart.
const MOST_AT: usize = 32;
const LONGEST_AT: usize = 40;
const LOG_AT: usize = 48;
const LOG_ENTRY_BYTES: usize = 12;
/// Starts a log tells apart; more are told together with their later neighbours.
const LOG_ENTRIES: usize = (PAGE_BYTES - LOG_AT) / LOG_ENTRY_BYTES;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sum::key;

    #[test]
    fn a_log_comes_back_from_its_page() {
        let starts: Vec<(Instant, u32)> = (1..200).map(|n| (Instant::from_millis(n), n as u32 % 3 + 1)).collect();
        let windows = Windows::kept(starts);
        let page = LogPage::make(9, key("a"), &windows);
        assert_eq!(page.windows(9, key("a")), Some(windows));
        assert_eq!(page.windows(9, key("b")), None);
        assert_eq!(LogPage::blank().windows(9, key("a")), None);
    }
}
