//! Which URLs an output holds: 24 bytes each, no text.

use sha2::{Digest as _, Sha256};

/// A URL without its fragment, as 128 bits of its SHA-256: two of a billion URLs share one with odds of 10⁻²¹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u64; 2]);

impl Key {
    pub(super) fn of(url: &str) -> Self {
        let url = url.split('#').next().unwrap_or(url);
        let digest = Sha256::digest(url.as_bytes());
        let half = |from: usize| digest[from..from + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Self([half(0), half(8)])
    }
}

/// Sorted, one entry a URL: built once when an output is opened, then only read.
#[derive(Default)]
pub(super) struct Index {
    entries: Vec<(Key, u64)>,
}

impl Index {
    /// Of several entries for one URL the one with the greatest place stays.
    pub(super) fn new(mut entries: Vec<(Key, u64)>) -> Self {
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries.dedup_by_key(|entry| entry.0);
        entries.shrink_to_fit();
        Self { entries }
    }

    /// The number given with the URL, if it is here.
    pub(super) fn place(&self, key: Key) -> Option<u64> {
        let at = self.entries.binary_search_by_key(&key, |entry| entry.0).ok()?;
        Some(self.entries[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_of_a_url_wins_and_fragments_do_not_matter() {
        let [a, b] = ["https://a.test/", "https://b.test/"].map(Key::of);
        let index = Index::new(vec![(a, 3), (b, 0), (a, 7), (a, 5)]);
        assert_eq!((index.place(a), index.place(b), index.entries.len()), (Some(7), Some(0), 2));
        assert_eq!(index.place(Key::of("https://b.test/#x")), Some(0));
        assert_eq!(index.place(Key::of("https://c.test/")), None);
    }

    #[test]
    fn an_entry_takes_24_bytes() {
        assert_eq!(size_of::<(Key, u64)>(), 24);
        let index = Index::new((0..1000).map(|n| (Key::of(&n.to_string()), n)).collect());
        assert_eq!(index.entries.capacity(), 1000);
    }
}
