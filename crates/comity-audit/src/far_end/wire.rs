//! Requests read from a connection, answers written to it (RFC 9112).

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use super::log::Arrival;
use super::reply::{Ending, Reply};
use super::world::host_name;

/// A request up to its body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) arrival: Arrival,
    pub(super) expects_continue: bool,
    /// The client lets the connection live on.
    pub(super) keep_alive: bool,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(u64),
    Chunked,
}

/// Reads a request up to its body; the arrival is stamped by `now` when its first byte is there. `None` where the client
/// is done; what is not HTTP is an error of kind `InvalidData`.
pub(super) fn read_head(reader: &mut impl BufRead, now: impl FnOnce() -> Duration) -> io::Result<Option<Head>> {
    if reader.fill_buf()?.is_empty() {
        return Ok(None);
    }
    let at = now();
    let mut lines = Vec::new();
    let mut room = MAX_HEAD;
    loop {
        let line = read_line(reader, &mut room)?.ok_or(malformed())?;
        if line.is_empty() {
            break;
        }
        lines.push(line);
    }
    parse_head(at, &lines).ok_or(malformed()).map(Some)
}

/// Reads the body and puts it, or its first part, into the arrival.
pub(super) fn read_body(reader: &mut impl BufRead, head: &mut Head) -> io::Result<()> {
    match head.framing {
        Framing::Length(length) => read_part(reader, length, &mut head.arrival),
        Framing::Chunked => loop {
            let length = read_line(reader, &mut { MAX_LINE })?.as_deref().and_then(chunk_length).ok_or(malformed())?;
            if length == 0 {
                let mut room = MAX_HEAD;
                while !read_line(reader, &mut room)?.ok_or(malformed())?.is_empty() {}
                return Ok(());
            }
            read_part(reader, length, &mut head.arrival)?;
            read_line(reader, &mut { MAX_LINE })?.filter(String::is_empty).ok_or(malformed())?;
        },
    }
}

/// The bytes of an answer: its head, and what follows it.
pub(super) struct Written {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    /// The connection has to close after it.
    pub(super) close: bool,
}

/// Turns an answer to `method` into bytes; `keep_alive` says whether the client lets the connection live on.
pub(super) fn write_reply(reply: &Reply, method: &str, keep_alive: bool, date: &str) -> Written {
    if reply.raw {
        return Written { head: reply.body.clone(), body: Vec::new(), close: true };
    }
    let close = !keep_alive || reply.ending != Ending::KeepAlive;
    let bodiless = matches!(reply.status, 100..=199 | 204 | 304);
    let mut head = format!("HTTP/1.1 {} {}\r\n", reply.status, reason(reply.status)).into_bytes();
    let mut field = |name: &str, value: &[u8]| {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    };
    for (name, value) in &reply.headers {
        field(name, value);
    }
    if !reply.has("date") {
        field("date", date.as_bytes());
    }
    if reply.chunked && !bodiless {
        field("transfer-encoding", b"chunked");
    } else if !bodiless && !reply.has("content-length") {
        field("content-length", reply.body.len().to_string().as_bytes());
    }
    field("connection", if close { b"close" } else { b"keep-alive" });
    head.extend_from_slice(b"\r\n");

    let mut body = if bodiless || method == "HEAD" { Vec::new() } else { reply.body.clone() };
    if reply.chunked && !bodiless && method != "HEAD" {
        body = chunks(&body);
    }
    if let Ending::CutAfter(bytes) = reply.ending {
        body.truncate(bytes);
    }
    Written { head, body, close }
}

fn parse_head(at: Duration, lines: &[String]) -> Option<Head> {
    let (request, fields) = lines.split_first()?;
    let [method, target, version] = request.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let minor = version.strip_prefix("HTTP/1.").filter(|minor| matches!(*minor, "0" | "1"))?;
    let mut headers = Vec::with_capacity(fields.len());
    for line in fields {
        let (name, value) = line.split_once(':').filter(|(name, _)| !name.is_empty() && !name.contains(' '))?;
        headers.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let mut arrival = Arrival { at, method: method.to_owned(), headers, ..Arrival::default() };

    let absolute = target.split_once("://").map(|(_, rest)| rest);
    let (authority, target) = match absolute {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => (arrival.header("host").unwrap_or_default(), target),
    };
    arrival.host = host_name(authority);
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query.to_owned())));
    arrival.path = if path.is_empty() { "/".to_owned() } else { path.to_owned() };
    arrival.query = query;

    let lists = |name: &str, token: &str| {
        let mut values = arrival.headers.iter().filter(|(field, _)| field == name).map(|(_, value)| value);
        values.any(|value| value.split(',').any(|listed| listed.trim().eq_ignore_ascii_case(token)))
    };
    let framing = if lists("transfer-encoding", "chunked") {
        Framing::Chunked
    } else {
        Framing::Length(arrival.header("content-length").map_or(Some(0), |length| length.parse().ok())?)
    };
    let keep_alive = if minor == "0" { lists("connection", "keep-alive") } else { !lists("connection", "close") };
    Some(Head { expects_continue: lists("expect", "100-continue"), keep_alive, framing, arrival })
}

/// One line without its end; `None` where the connection or the room ends first.
fn read_line(reader: &mut impl BufRead, room: &mut u64) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = reader.take(*room).read_until(b'\n', &mut line)?;
    *room -= u64::try_from(read).unwrap_or(*room);
    if line.pop() != Some(b'\n') {
        return Ok(None);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

fn chunk_length(line: &str) -> Option<u64> {
    let digits = line.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).ok()
}

/// Reads `length` bytes of body, keeps what the arrival has room for and counts the rest.
fn read_part(reader: &mut impl BufRead, length: u64, arrival: &mut Arrival) -> io::Result<()> {
    if arrival.body_length.saturating_add(length) > MAX_BODY {
        return Err(malformed());
    }
    let kept = u64::try_from(KEPT_BODY - arrival.body.len()).unwrap_or_default().min(length);
    let read = reader.by_ref().take(kept).read_to_end(&mut arrival.body)?;
    let drained = io::copy(&mut reader.take(length - kept), &mut io::sink())?;
    arrival.body_length += length;
    if u64::try_from(read).unwrap_or_default() + drained == length { Ok(()) } else { Err(malformed()) }
}

fn chunks(body: &[u8]) -> Vec<u8> {
    let mut chunked = Vec::with_capacity(body.len() + 64);
    for chunk in body.chunks(CHUNK) {
        // Writing to a Vec does not fail.
        let _ = write!(chunked, "{:x}\r\n", chunk.len());
        chunked.extend_from_slice(chunk);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    chunked
}

fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        301 => "Moved Permanently",
        302 => "Found",
        304 => "Not Modified",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        // A reason may be empty (RFC 9112 section 4).
        _ => "",
    }
}

/// Bytes of a request's head, as many as large servers allow.
const MAX_HEAD: u64 = 64 * 1024;

/// Bytes of a chunk's first line.
const MAX_LINE: u64 = 256;

/// Bytes of a request's body that are read at all.
const MAX_BODY: u64 = 64 * 1024 * 1024;

/// Bytes of a body that the log keeps.
const KEPT_BODY: usize = 64 * 1024;

/// Bytes of a chunk sent.
const CHUNK: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Option<Head>> {
        read_head(&mut bytes, || Duration::from_millis(7))
    }

    fn request(text: &str) -> Head {
        let mut bytes = text.as_bytes();
        let mut head = read_head(&mut bytes, || Duration::from_millis(7)).unwrap().unwrap();
        read_body(&mut bytes, &mut head).unwrap();
        head
    }

    #[test]
    fn a_request_is_taken_apart() {
        let head =
            request("GET /a/b?c=d?e HTTP/1.1\r\nHost: A.example:81\r\nUser-Agent:  one two \r\nCookie: x\r\n\r\n");
        let arrival = &head.arrival;
        assert_eq!((arrival.host.as_str(), arrival.method.as_str()), ("a.example", "GET"));
        assert_eq!((arrival.path.as_str(), arrival.query.as_deref()), ("/a/b", Some("c=d?e")));
        assert_eq!((arrival.header("user-agent"), arrival.header("cookie")), (Some("one two"), Some("x")));
        assert_eq!(arrival.at, Duration::from_millis(7));
        assert!(head.keep_alive);
    }

    #[test]
    fn an_absolute_target_names_the_host() {
        let head = request("GET http://b.example:8080?q HTTP/1.1\r\nhost: a.example\r\n\r\n");
        assert_eq!((head.arrival.host.as_str(), head.arrival.target().as_str()), ("b.example", "/?q"));
    }

    #[test]
    fn bodies_are_read_by_length_and_by_chunks() {
        let head = request("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
        assert_eq!((head.arrival.body.as_slice(), head.arrival.body_length), (&b"abc"[..], 3));
        let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nt: 1\r\n\r\n";
        assert_eq!(request(chunked).arrival.body, b"abc");
    }

    #[test]
    fn a_large_body_is_counted_whole_and_kept_in_part() {
        let body = "x".repeat(KEPT_BODY + 5);
        let head = request(&format!("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        assert_eq!((head.arrival.body.len(), head.arrival.body_length), (KEPT_BODY, body.len() as u64));
    }

    #[test]
    fn http_1_0_closes_unless_asked_not_to() {
        assert!(!request("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(request("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        assert!(!request("GET / HTTP/1.1\r\nconnection: x, close\r\n\r\n").keep_alive);
    }

    #[test]
    fn what_is_not_http_is_malformed_and_silence_is_the_end() {
        assert!(read(b"").unwrap().is_none());
        let endless = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
        for bytes in [
            "\x16\x03\x01\n\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n",
            "GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
            &endless,
        ] {
            assert_eq!(read(bytes.as_bytes()).unwrap_err().kind(), io::ErrorKind::InvalidData, "{bytes:.40?}");
        }
    }

    fn text(reply: &Reply, method: &str, keep_alive: bool) -> String {
        let written = write_reply(reply, method, keep_alive, "today");
        String::from_utf8([written.head, written.body].concat()).unwrap()
    }

    #[test]
    fn an_answer_says_its_length_and_whether_it_stays() {
        let reply = Reply::ok("abc").header("x", "1\r\n2");
        let head = "HTTP/1.1 200 OK\r\nx: 1  2\r\ndate: today\r\ncontent-length: 3\r\nconnection: ";
        assert_eq!(text(&reply, "GET", true), format!("{head}keep-alive\r\n\r\nabc"));
        assert_eq!(text(&reply, "HEAD", false), format!("{head}close\r\n\r\n"));
    }

    #[test]
    fn answers_that_may_not_have_a_body_have_none() {
        let reply = Reply::status(304).body("abc");
        assert_eq!(
            text(&reply, "GET", true),
            "HTTP/1.1 304 Not Modified\r\ndate: today\r\nconnection: keep-alive\r\n\r\n"
        );
    }

    #[test]
    fn a_body_can_come_in_chunks_or_be_cut() {
        assert!(text(&Reply::ok("abc").chunked(), "GET", true).ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"));
        let cut = text(&Reply::ok("abc").ending(Ending::CutAfter(1)), "GET", true);
        assert!(cut.contains("content-length: 3\r\nconnection: close") && cut.ends_with("\r\n\r\na"));
    }
}
