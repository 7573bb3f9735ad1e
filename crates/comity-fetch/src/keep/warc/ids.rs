//! `WARC-Record-ID`s.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};

/// Makes version 4 UUIDs (RFC 9562 section 5.4) from 256 bits of the system's randomness and a counter, so that no
/// record costs a system call.
pub(super) struct Ids {
    seed: [u8; 32],
    next: AtomicU64,
}

impl Ids {
    pub(super) fn new() -> io::Result<Self> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(io::Error::other)?;
        Ok(Self { seed, next: AtomicU64::new(0) })
    }

    /// `<urn:uuid:…>`, never the same twice.
    pub(super) fn next(&self) -> String {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256::new_with_prefix(self.seed).chain_update(count.to_be_bytes()).finalize();
        let mut hex = super::text::hex(&digest[..16]).into_bytes();
        hex[12] = b'4';
        hex[16] = VARIANT[usize::from(digest[8] & 3)];
        let hex = String::from_utf8_lossy(&hex);
        format!("<urn:uuid:{}-{}-{}-{}-{}>", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }
}

/// The two bits `10` and two free ones.
const VARIANT: &[u8; 4] = b"89ab";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn are_version_4_uuids_and_differ_within_and_between_runs() {
        let (one, two) = (Ids::new().unwrap(), Ids::new().unwrap());
        let ids: HashSet<String> = (0..1000).flat_map(|_| [one.next(), two.next()]).collect();
        assert_eq!(ids.len(), 2000);
        for id in ids {
            let uuid = id.strip_prefix("<urn:uuid:").and_then(|rest| rest.strip_suffix('>')).unwrap();
            let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12]);
            assert_eq!(&uuid[14..15], "4");
            assert!("89ab".contains(&uuid[19..20]));
        }
    }
}
