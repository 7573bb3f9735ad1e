//! Lines of a stream, of which none may take more memory than a line should.

use std::io::{self, BufRead, Read as _};

/// Reads a stream line by line, in one buffer.
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
}

/// What comes next.
pub(super) enum Next<'a> {
    /// A line, with its end.
    Line(&'a [u8]),
    /// The beginning of a line that was too long; the rest was passed over.
    TooLong(&'a [u8]),
    End,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0 }
    }

    /// The number of the line read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn next(&mut self) -> io::Result<Next<'_>> {
        self.buffer.clear();
        self.reader.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(Next::End);
        }
        self.number += 1;
        if self.buffer.len() <= MAX_LINE || self.buffer.ends_with(b"\n") {
            return Ok(Next::Line(&self.buffer));
        }
        self.skip_line()?;
        Ok(Next::TooLong(&self.buffer))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let (used, done) = match self.reader.fill_buf() {
                Ok([]) => return Ok(()),
                Ok(bytes) => match bytes.iter().position(|&byte| byte == b'\n') {
                    Some(end) => (end + 1, true),
                    None => (bytes.len(), false),
                },
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.reader.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}

pub(super) const TOO_LONG: &str = "is longer than 64 KiB";
/// Far above any URL that a server takes (8,000 bytes is what RFC 9110 section 4.1 asks to support), enough for a body.
pub(super) const MAX_LINE: usize = 64 * 1024;
