//! Record headers and `application/warc-fields`: `Name: value` lines.

use std::fmt::Write as _;

use super::super::time::Timestamp;

/// A record's header while it is written.
pub(super) struct Header {
    text: String,
}

impl Header {
    pub(super) fn new(kind: &str, id: &str, at: Timestamp) -> Self {
        let mut text = String::with_capacity(768);
        text.push_str("WARC/1.1\r\n");
        let mut header = Self { text };
        header.field("WARC-Type", kind);
        header.field("WARC-Record-ID", id);
        header.field("WARC-Date", &at.to_string());
        header
    }

    pub(super) fn field(&mut self, name: &str, value: &str) {
        push_field(&mut self.text, name, value);
    }

    /// The whole header, for a block of `length` bytes.
    pub(super) fn finish(mut self, length: u64) -> String {
        let _ = write!(self.text, "Content-Length: {length}\r\n\r\n");
        self.text
    }
}

/// A value is one line whatever it was.
pub(super) fn push_field(text: &mut String, name: &str, value: &str) {
    text.push_str(name);
    text.push_str(": ");
    text.extend(value.chars().map(|char| if char.is_control() { ' ' } else { char }));
    text.push_str("\r\n");
}

pub(in super::super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, &byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(HEX[usize::from(digit)]));
        }
        text
    })
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_begins_a_line_of_its_own() {
        let mut header = Header::new("request", "<urn:uuid:x>", Timestamp::from_millis(0));
        header.field("WARC-Target-URI", "https://a.test/\r\nEvil: yes");
        assert_eq!(
            header.finish(7),
            "WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: <urn:uuid:x>\r\nWARC-Date: 1970-01-01T00:00:00.000Z\r\n\
             WARC-Target-URI: https://a.test/  Evil: yes\r\nContent-Length: 7\r\n\r\n"
        );
    }

    #[test]
    fn hex_is_lower_case() {
        assert_eq!(hex(&[0, 0x9a, 0xff]), "009aff");
    }
}
