//! Which requests' answers an output holds: 24 bytes each, no text.

use sha2::{Digest as _, Sha256};

/// A URL without its fragment, and which of the requests for it, as 128 bits of their SHA-256: two of a billion share one
/// with odds of 10⁻²¹.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key([u64; 2]);

impl Key {
    pub(super) fn of(url: &str, variant: Option<&str>) -> Self {
        let url = url.split('#').next().unwrap_or(url);
        let mut digest = Sha256::new_with_prefix(url);
        if let Some(variant) = variant {
            // No URL is mistaken for one with a variant: its fragment is gone.
            digest.update("#");
            digest.update(variant);
        }
        let digest = digest.finalize();
        let half = |from: usize| digest[from..from + 8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Self([half(0), half(8)])
    }
}

/// Sorted, one entry a request: built once when an output is opened, then only read.
#[derive(Default)]
pub(super) struct Index {
    entries: Vec<(Key, u64)>,
}

impl Index {
    /// Of several entries for one request the one with the greatest place stays.
    pub(super) fn new(mut entries: Vec<(Key, u64)>) -> Self {
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        entries.dedup_by_key(|entry| entry.0);
        entries.shrink_to_fit();
        Self { entries }
    }

    /// The number given with the request, if it is here.
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
        let [a, b] = ["https://a.test/", "https://b.test/"].map(|url| Key::of(url, None));
        let index = Index::new(vec![(a, 3), (b, 0), (a, 7), (a, 5)]);
        assert_eq!((index.place(a), index.place(b), index.entries.len()), (Some(7), Some(0), 2));
        assert_eq!(index.place(Key::of("https://b.test/#x", None)), Some(0));
        assert_eq!(index.place(Key::of("https://c.test/", None)), None);
    }

    #[test]
    fn a_variant_is_another_entry() {
        let keys = [("https://a.test/", None), ("https://a.test/", Some("POST-1")), ("https://a.test/", Some(""))];
        let index = Index::new(keys.iter().zip(0..).map(|((url, variant), n)| (Key::of(url, *variant), n)).collect());
        assert_eq!(keys.map(|(url, variant)| index.place(Key::of(url, variant))), [Some(0), Some(1), Some(2)]);
        assert_eq!(index.place(Key::of("https://a.test/#POST-1", None)), Some(0));
        assert_eq!(index.place(Key::of("https://a.test/#x", Some("POST-1"))), Some(1));
    }

    #[test]
    fn an_entry_takes_24_bytes() {
        assert_eq!(size_of::<(Key, u64)>(), 24);
        let index = Index::new((0..1000).map(|n| (Key::of(&n.to_string(), None), n)).collect());
        assert_eq!(index.entries.capacity(), 1000);
    }
}
