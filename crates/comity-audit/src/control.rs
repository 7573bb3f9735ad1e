//! A perfect client, to learn the machine's own unrest.
//!
//! What a far end measures of a limiter includes the delays of two sockets and a scheduler. A control run puts a number on
//! them: one client that sends at an exact spacing, shares no code with any limiter and has a thread to itself. A run in
//! which even the control's gaps come out short says nothing about the limiter beside it (behaviour X5).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::arrivals::Gaps;
use crate::clock::Clock;
use crate::far_end::FarEnd;

/// What a control run found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The gaps between the sends; none is shorter than the spacing.
    pub sent: Gaps,
    /// The gaps between the same requests' arrivals: what is shorter here than the spacing is the machine's doing.
    pub arrived: Gaps,
    /// When they arrived, in order, since the far end started.
    pub times: Vec<Duration>,
}

/// Sends `requests` to `host` at an exact spacing over one connection, and compares what was sent with what arrived.
///
/// A request goes out no sooner than `spacing` after the one before and after that one's answer. Blocks until done.
///
/// # Errors
/// Whatever the connection fails with, and an answer that is not HTTP/1.1 with a Content-Length.
pub fn control_run(far_end: &FarEnd, host: &str, spacing: Duration, requests: u32) -> io::Result<Control> {
    control_while(far_end, host, |clock, sent| {
        let more = u32::try_from(sent.len()).is_ok_and(|sent| sent < requests);
        if let Some(&last) = sent.last().filter(|_| more) {
            clock.wait_until(last.saturating_add(spacing));
        }
        more
    })
}

/// The same for as long as `next` says so: it gets what was sent so far, returns when the next is due, and says whether
/// there is to be one.
pub(crate) fn control_while(
    far_end: &FarEnd,
    host: &str,
    next: impl FnMut(&Clock, &[Duration]) -> bool,
) -> io::Result<Control> {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed).to_string();
    let sent = send(far_end.addr(), host, &run, next)?;
    let arrivals = far_end.arrivals().into_iter().filter(|arrival| arrival.header(MARK) == Some(&run));
    let times: Vec<_> = arrivals.map(|arrival| arrival.at).collect();
    Ok(Control { sent: Gaps::of(&sent), arrived: Gaps::of(&times), times })
}

fn send(
    addr: SocketAddr,
    host: &str,
    run: &str,
    mut next: impl FnMut(&Clock, &[Duration]) -> bool,
) -> io::Result<Vec<Duration>> {
    let stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(&stream);
    let request =
        format!("GET /control HTTP/1.1\r\nhost: {host}\r\nuser-agent: comity-control\r\n{MARK}: {run}\r\n\r\n");
    let clock = Clock::start();
    let mut sent: Vec<Duration> = Vec::new();
    // `next` counts from the last send as it was, not as it was planned: one that was late must not shorten the next gap.
    while next(&clock, &sent) {
        sent.push(clock.now());
        (&stream).write_all(request.as_bytes())?;
        read_answer(&mut reader)?;
    }
    Ok(sent)
}

fn read_answer(reader: &mut impl BufRead) -> io::Result<()> {
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.by_ref().take(MAX_LINE).read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok(),
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let length: u64 = length.ok_or(io::ErrorKind::InvalidData)?;
    io::copy(&mut reader.take(length), &mut io::sink())?;
    Ok(())
}

/// The header field by which a run finds its own requests among all that arrived.
const MARK: &str = "x-control-run";

/// Bytes of a line of an answer's head.
const MAX_LINE: u64 = 16 * 1024;
