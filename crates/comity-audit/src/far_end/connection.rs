//! One connection, from its first request to its end.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::answer::answer;
use super::log::{Arrival, Ticket};
use super::reply::{Ending, Reply};
use super::wire::{Head, read_body, read_head, write_reply};
use super::{Ordering, Shared};
use crate::clock::{http_date, wall_seconds};

/// Serves requests until either side has enough.
pub(super) fn serve(shared: &Shared, stream: &TcpStream, connection: u64) {
    let mut reader = BufReader::new(stream);
    loop {
        let head = match read_head(&mut reader, || shared.clock.now()) {
            Ok(Some(head)) => head,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return refuse(shared, stream),
            Ok(None) | Err(_) => return,
        };
        if !exchange(shared, stream, &mut reader, connection, head).unwrap_or(false) {
            return;
        }
    }
}

/// Counts what was not HTTP and says so.
fn refuse(shared: &Shared, mut stream: &TcpStream) {
    shared.malformed.fetch_add(1, Ordering::Relaxed);
    let date = http_date(wall_seconds());
    let refusal = write_reply(&Reply::status(400), "GET", false, &date);
    // The client may be gone; there is nobody else to tell.
    let _ = stream.write_all(&refusal.head);
}

/// Records one request and answers it; says whether another may follow.
fn exchange(
    shared: &Shared,
    mut stream: &TcpStream,
    reader: &mut BufReader<&TcpStream>,
    connection: u64,
    mut head: Head,
) -> io::Result<bool> {
    head.arrival.connection = connection;
    let ticket = shared.log.record(head.arrival.clone());
    if head.expects_continue {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    read_body(reader, &mut head)?;
    let Head { arrival, keep_alive, .. } = head;
    if arrival.body_length > 0 {
        shared.log.amend(ticket, |recorded| {
            recorded.body.clone_from(&arrival.body);
            recorded.body_length = arrival.body_length;
        });
    }

    let answer = answer(&shared.hosts, &arrival);
    let reply = &answer.reply;
    let ready = answer.ready.saturating_add(reply.after);
    if shared.stop.wait(ready.saturating_sub(shared.clock.now())) {
        return Ok(false);
    }
    match reply.ending {
        Ending::Reset => return reset(stream),
        Ending::Silence => return outlast(stream),
        Ending::KeepAlive | Ending::Close | Ending::CutAfter(_) => {}
    }
    let written = write_reply(reply, &arrival.method, keep_alive, &answer.date);
    settle(shared, ticket, reply, answer.queued);
    // The place is free before the client can know, so that its next request finds it so.
    drop(answer.place);
    if reply.body_after.is_zero() {
        stream.write_all(&[written.head, written.body].concat())?;
    } else {
        stream.write_all(&written.head)?;
        if shared.stop.wait(reply.body_after) {
            return Ok(false);
        }
        stream.write_all(&written.body)?;
    }
    Ok(!written.close)
}

/// Writes the status and what else is known into the log before the client can know it.
fn settle(shared: &Shared, ticket: Ticket, reply: &Reply, queued: Option<Duration>) {
    let answered: Duration = shared.clock.now();
    shared.log.amend(ticket, |arrival: &mut Arrival| {
        arrival.answered = Some(answered);
        arrival.queued = queued;
        arrival.status = (!reply.raw).then_some(reply.status);
    });
}

/// Makes the close that follows a reset.
fn reset(stream: &TcpStream) -> io::Result<bool> {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    Ok(false)
}

/// Says nothing until the client gives up or the far end stops.
fn outlast(mut stream: &TcpStream) -> io::Result<bool> {
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored)? > 0 {}
    Ok(false)
}
