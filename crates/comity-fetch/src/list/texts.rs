//! Many short texts, in order, in few large pieces.

/// Texts by number. They lie end to end in chunks of a bounded size, so nothing large is ever moved or doubled.
#[derive(Default)]
pub(super) struct Texts {
    chunks: Vec<Chunk>,
    len: u32,
}

#[derive(Default)]
struct Chunk {
    /// The number of its first text.
    first: u32,
    text: String,
    /// Where each text ends.
    ends: Vec<u32>,
}

impl Texts {
    /// Adds a text of at most 4 GiB.
    pub(super) fn push(&mut self, text: &str) {
        if self.chunks.last().is_none_or(|last| last.text.len() + text.len() > CHUNK) {
            self.shrink();
            self.chunks.push(Chunk { first: self.len, ..Chunk::default() });
        }
        if let Some(last) = self.chunks.last_mut() {
            last.text.push_str(text);
            last.ends.push(last.text.len() as u32);
            self.len += 1;
        }
    }

    /// The text of this number; panics where there is none, as an index does.
    pub(super) fn get(&self, number: u32) -> &str {
        let after = self.chunks.partition_point(|chunk| chunk.first <= number);
        let chunk = &self.chunks[after - 1];
        let place = (number - chunk.first) as usize;
        let start = if place == 0 { 0 } else { chunk.ends[place - 1] };
        &chunk.text[start as usize..chunk.ends[place] as usize]
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Gives back what the last chunk holds ready for more.
    pub(super) fn shrink(&mut self) {
        if let Some(last) = self.chunks.last_mut() {
            last.text.shrink_to_fit();
            last.ends.shrink_to_fit();
        }
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let held = |chunk: &Chunk| chunk.text.capacity() + chunk.ends.capacity() * size_of::<u32>();
        self.chunks.capacity() * size_of::<Chunk>() + self.chunks.iter().map(held).sum::<usize>()
    }
}

/// A million URLs are some sixty chunks, found in six steps; the one being filled is the only one with room to spare.
const CHUNK: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_from_every_chunk() {
        let mut texts = Texts::default();
        let text = |n: u32| format!("{n}").repeat(1 + n as usize % 900);
        for n in 0..4_000 {
            texts.push(&text(n));
        }
        assert!(texts.chunks.len() > 3);
        assert!((0..4_000).all(|n| texts.get(n) == text(n)));
        texts.push("");
        texts.push(&"x".repeat(CHUNK + 1));
        texts.push("last");
        assert_eq!((texts.get(4_000), texts.get(4_001).len(), texts.get(4_002)), ("", CHUNK + 1, "last"));
    }
}
