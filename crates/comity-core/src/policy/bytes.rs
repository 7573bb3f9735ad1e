//! Plain numbers as bytes, little-endian, for stores to keep.

use crate::time::Instant;

/// Writes into a buffer that its owner made large enough; what does not fit is dropped, and the reader will say so.
pub(crate) struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

/// Reads what a [`Writer`] wrote. `None` where there is too little of it.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, at: 0 }
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.at
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        if let Some(room) = self.buffer.get_mut(self.at..self.at + bytes.len()) {
            room.copy_from_slice(bytes);
        }
        self.at += bytes.len();
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn instant(&mut self, value: Instant) {
        self.u64(value.as_nanos());
    }
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.bytes().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(crate) fn instant(&mut self) -> Option<Instant> {
        self.u64().map(Instant::from_nanos)
    }
}
