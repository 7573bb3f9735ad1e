//! One gzip member a record (RFC 1952), by compressors that are used again: making one costs more than a small record.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Idle compressors; as many as are in use at once, at most [`IDLE_MAX`] kept.
#[derive(Default)]
pub(super) struct Deflaters {
    idle: Mutex<Vec<Deflater>>,
}

struct Deflater {
    compress: Compress,
    input: Box<[u8]>,
    output: Box<[u8]>,
}

impl Deflaters {
    /// Writes all of `record` to `out` as one member.
    pub(super) fn member(&self, record: &mut dyn Read, out: &mut dyn Write) -> io::Result<()> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut deflater = idle.unwrap_or_else(Deflater::new);
        deflater.member(record, out)?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(deflater);
        }
        Ok(())
    }
}

impl Deflater {
    fn new() -> Self {
        let buffer = || vec![0; BUFFER].into_boxed_slice();
        Self { compress: Compress::new(Compression::default(), false), input: buffer(), output: buffer() }
    }

    fn member(&mut self, record: &mut dyn Read, out: &mut dyn Write) -> io::Result<()> {
        self.compress.reset();
        let mut crc = Crc::new();
        out.write_all(&HEADER)?;
        loop {
            let read = fill(record, &mut self.input)?;
            let last = read < self.input.len();
            crc.update(&self.input[..read]);
            self.deflate(read, last, out)?;
            if last {
                break;
            }
        }
        out.write_all(&crc.sum().to_le_bytes())?;
        out.write_all(&crc.amount().to_le_bytes())
    }

    fn deflate(&mut self, read: usize, last: bool, out: &mut dyn Write) -> io::Result<()> {
        let flush = if last { FlushCompress::Finish } else { FlushCompress::None };
        let mut used = 0;
        loop {
            let (before_in, before_out) = (self.compress.total_in(), self.compress.total_out());
            let status = self.compress.compress(&self.input[used..read], &mut self.output, flush)?;
            used += (self.compress.total_in() - before_in) as usize;
            let made = (self.compress.total_out() - before_out) as usize;
            out.write_all(&self.output[..made])?;
            // With all input taken and room left in the output there is nothing more to come.
            let done = if last { status == Status::StreamEnd } else { used == read && made < self.output.len() };
            if done {
                return Ok(());
            }
        }
    }
}

/// Reads until `buffer` is full or the source ends.
fn fill(source: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// RFC 1952 section 2.3: deflate, no flags, no time, no extra flags, system unknown.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

const BUFFER: usize = 32 * 1024;

/// A compressor holds some 300 KB.
const IDLE_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_every_awkward_size_are_read_back_by_an_ordinary_decoder() {
        let deflaters = Deflaters::default();
        let mut seed = 1_u32;
        let noise: Vec<u8> = (0..3 * BUFFER + 1)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            })
            .collect();
        let (mut packed, mut plain) = (Vec::new(), Vec::new());
        for len in [0, 1, 1000, BUFFER - 1, BUFFER, BUFFER + 1, 2 * BUFFER, 3 * BUFFER + 1] {
            for source in [&noise[..len], &vec![b'x'; len]] {
                deflaters.member(&mut &*source, &mut packed).unwrap();
                plain.extend_from_slice(source);
            }
        }
        let mut back = Vec::new();
        flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut back).unwrap();
        assert_eq!(back, plain);
    }
}
