//! Checksums and keys. They stand in the file, so they are the same in every process and every build.

/// A checksum of these bytes. Never zero, so that a page of zeros is never whole.
pub(crate) fn sum(seed: u64, bytes: &[u8]) -> u64 {
    // Eight at a time, because each multiplication waits for the one before it in its lane.
    let mut lanes: [u64; 8] = core::array::from_fn(|n| seed ^ ODD[n % 4].rotate_left(n as u32));
    let mut chunks = bytes.chunks_exact(64);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = fold(*lane ^ word_of(word), ODD[4]);
        }
    }
    for (n, word) in chunks.remainder().chunks(8).enumerate() {
        lanes[n] = fold(lanes[n] ^ word_of(word), ODD[4]);
    }
    let all = lanes.into_iter().fold(bytes.len() as u64, |all, lane| fold(all ^ lane, ODD[1]).rotate_left(17));
    fold(all, ODD[2]).max(1)
}

/// The key of a name.
pub(crate) fn key(name: &str) -> Key {
    [sum(0, name.as_bytes()), sum(1, name.as_bytes())]
}

/// A name in 128 bits.
pub(crate) type Key = [u64; 2];

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

/// Up to eight bytes as a word.
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Odd numbers without a pattern: digits of the square roots of small primes.
const ODD: [u64; 5] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1, 0x510e_527f_ade6_82d1];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_counts() {
        let bytes: Vec<u8> = (0..77u8).collect();
        let whole = sum(7, &bytes);
        for bit in 0..bytes.len() * 8 {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(sum(7, &other), whole, "bit {bit}");
        }
        assert_ne!(sum(8, &bytes), whole);
        assert_ne!(sum(7, &bytes[..76]), whole);
    }

    #[test]
    fn names_have_keys_of_their_own() {
        let mut keys: Vec<Key> = (0..100_000).map(|n| key(&format!("h{n}.example"))).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 100_000);
        assert_eq!(key("example.org"), key("example.org"));
    }
}
