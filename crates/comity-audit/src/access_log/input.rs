//! Lines of a file nobody vouches for: bounded, and of any bytes.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// A file, line by line.
pub(super) struct Input<R> {
    input: R,
    line: Vec<u8>,
    begun: bool,
}

/// A line, without what ends it.
pub(super) enum Line<'a> {
    Whole(Cow<'a, str>),
    /// A line over the bound: how it begins.
    TooLong(String),
}

impl<R: BufRead> Input<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), begun: false }
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let (mut length, mut ended) = (0, false);
        while !ended {
            let chunk = match self.input.fill_buf() {
                Ok([]) if length == 0 => return Ok(None),
                Ok([]) => break,
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = chunk.iter().position(|&byte| byte == b'\n');
            let taken = end.map_or(chunk.len(), |end| end + 1);
            let room = MOST_BYTES - self.line.len();
            self.line.extend_from_slice(&chunk[..taken.min(room)]);
            length += taken;
            ended = end.is_some();
            self.input.consume(taken);
        }
        let mut bytes = self.line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        if length > MOST_BYTES {
            let beginning = &bytes[..bytes.len().min(SHOWN_BYTES)];
            return Ok(Some(Line::TooLong(String::from_utf8_lossy(beginning).into_owned())));
        }
        Ok(Some(Line::Whole(String::from_utf8_lossy(bytes))))
    }
}

/// Servers bound a request's head to 8 or 16 KiB; a line of an honest log is shorter than that four times over.
const MOST_BYTES: usize = 64 * 1024;
/// Enough of an overlong line to know it again.
const SHOWN_BYTES: usize = 512;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        // A reader with a small buffer, so that lines come in pieces.
        let mut input = Input::new(io::BufReader::with_capacity(7, bytes));
        let mut lines = Vec::new();
        while let Some(line) = input.next().unwrap() {
            lines.push(match line {
                Line::Whole(text) => text.trim_end().to_owned(),
                Line::TooLong(_) => "too long".to_owned(),
            });
        }
        lines
    }

    #[test]
    fn lines_come_whole_whatever_ends_them() {
        assert_eq!(lines(b""), Vec::<String>::new());
        assert_eq!(
            lines(b"\xef\xbb\xbffirst line\r\n\nthird, without an end"),
            ["first line", "", "third, without an end"]
        );
        assert_eq!(lines(b"caf\xe9 au lait\n"), ["caf\u{fffd} au lait"]);
    }

    #[test]
    fn an_overlong_line_is_dropped_and_the_next_one_read() {
        let mut bytes = vec![b'x'; MOST_BYTES + 1];
        bytes.extend_from_slice(b"\nnext\n");
        assert_eq!(lines(&bytes), ["too long", "next"]);
        let mut bytes = vec![b'x'; MOST_BYTES - 1];
        bytes.extend_from_slice(b"\n");
        assert_eq!(lines(&bytes)[0].len(), MOST_BYTES - 1);
    }
}
