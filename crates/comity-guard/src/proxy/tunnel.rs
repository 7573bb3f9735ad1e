//! Bytes both ways between two streams, for as long as either end has something to say.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::clock;

/// The tunnels of one proxy: how many there may be, and a way to end them all.
#[derive(Debug, Clone)]
pub struct Tunnels {
    places: Arc<Semaphore>,
    most: usize,
    idle: Duration,
    end: watch::Sender<bool>,
    bytes: Arc<AtomicU64>,
}

impl Tunnels {
    /// At most `most` tunnels at once; one through which no byte went for `idle` is closed.
    pub fn new(most: usize, idle: Duration) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        let bytes = Arc::default();
        Self { places: Arc::new(Semaphore::new(most)), most, idle, end: watch::Sender::new(false), bytes }
    }

    /// A place for one more tunnel, or none.
    pub fn enter(&self) -> Option<Place> {
        Some(Place(Arc::clone(&self.places).try_acquire_owned().ok()?))
    }

    /// How many tunnels are open.
    pub fn open(&self) -> usize {
        self.most - self.places.available_permits()
    }

    /// Bytes that went through all tunnels, both ways.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends every tunnel, also those yet to begin.
    pub fn close(&self) {
        self.end.send_replace(true);
    }

    /// Copies between `near` and `far` until both have ended, either fails, or nothing moved for the idle time-out.
    /// What one end has written before it closed reaches the other, and the other way goes on (a half-closed tunnel).
    ///
    /// # Errors
    /// The error of the stream that failed; [`io::ErrorKind::TimedOut`] after silence.
    pub async fn run<A, B>(&self, place: Place, near: A, far: B) -> io::Result<()>
    where
        A: AsyncRead + AsyncWrite + Unpin,
        B: AsyncRead + AsyncWrite + Unpin,
    {
        let mut end = self.end.subscribe();
        let outcome = tokio::select! {
            outcome = copy(near, far, self.idle, &self.bytes) => outcome,
            _ = end.wait_for(|end| *end) => Ok(()),
        };
        drop(place);
        outcome
    }
}

/// One tunnel's place; dropped, it is free again.
#[derive(Debug)]
pub struct Place(#[expect(dead_code, reason = "it is only held, and dropped")] OwnedSemaphorePermit);

async fn copy<A, B>(mut near: A, mut far: B, idle: Duration, bytes: &AtomicU64) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut up, mut down) = (Way::new(), Way::new());
    let mut last = clock::now();
    let mut timer = std::pin::pin!(tokio::time::sleep_until(last + idle));
    poll_fn(|cx| {
        let before = up.moved + down.moved;
        let ways = [up.poll(cx, &mut near, &mut far)?, down.poll(cx, &mut far, &mut near)?];
        let moved = up.moved + down.moved - before;
        if moved > 0 {
            bytes.fetch_add(moved, Ordering::Relaxed);
            last = clock::now();
        }
        if ways.iter().all(Poll::is_ready) {
            return Poll::Ready(Ok(()));
        }
        // The timer runs out on its own time and is then put to where it belongs: not moved at every byte.
        while timer.as_mut().poll(cx).is_ready() {
            if clock::now() >= last + idle {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(last + idle);
        }
        Poll::Pending
    })
    .await
}

/// One direction.
struct Way {
    buffer: Box<[u8]>,
    filled: std::ops::Range<usize>,
    moved: u64,
    state: State,
}

enum State {
    Copying,
    Ending,
    Ended,
}

impl Way {
    fn new() -> Self {
        Self { buffer: vec![0; BUFFER].into_boxed_slice(), filled: 0..0, moved: 0, state: State::Copying }
    }

    fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            match self.state {
                State::Copying if self.filled.is_empty() => {
                    let mut buffer = ReadBuf::new(&mut self.buffer);
                    match Pin::new(&mut *from).poll_read(cx, &mut buffer)? {
                        Poll::Ready(()) if buffer.filled().is_empty() => self.state = State::Ending,
                        Poll::Ready(()) => self.filled = 0..buffer.filled().len(),
                        Poll::Pending => {
                            // Whoever waits for more may have to see what there is.
                            let _ = Pin::new(&mut *to).poll_flush(cx)?;
                            return Poll::Pending;
                        }
                    }
                }
                State::Copying => {
                    let wrote = ready!(Pin::new(&mut *to).poll_write(cx, &self.buffer[self.filled.clone()]))?;
                    if wrote == 0 {
                        return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                    }
                    self.filled.start += wrote;
                    self.moved += wrote as u64;
                }
                State::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Ended;
                }
                State::Ended => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// For one direction: what a socket gives at once, without much weight on a thousand silent tunnels.
const BUFFER: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn i02_tunnels_have_a_cap_of_their_own() {
        let tunnels = Tunnels::new(2, Duration::from_secs(1));
        let (first, _second) = (tunnels.enter().unwrap(), tunnels.enter().unwrap());
        assert!(tunnels.enter().is_none());
        assert_eq!(tunnels.open(), 2);
        drop(first);
        assert!(tunnels.enter().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn i02_a_silent_tunnel_is_closed() {
        let tunnels = Tunnels::new(1, Duration::from_secs(60));
        let ((near, _client), (far, _server)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let began = clock::now();
        let error = tunnels.run(tunnels.enter().unwrap(), near, far).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(clock::now() - began < Duration::from_secs(61));
        assert_eq!(tunnels.open(), 0);
    }

    #[tokio::test]
    async fn i11_a_half_closed_tunnel_goes_on_the_other_way() {
        let tunnels = Tunnels::new(1, Duration::from_secs(60));
        let ((near, mut client), (far, mut server)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let place = tunnels.enter().unwrap();
        let counted = tunnels.clone();
        let running = tokio::spawn(async move { tunnels.run(place, near, far).await });
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "question");
        server.write_all(b"answer").await.unwrap();
        server.shutdown().await.unwrap();
        text.clear();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "answer");
        running.await.unwrap().unwrap();
        assert_eq!(counted.bytes(), 14);
    }

    #[tokio::test]
    async fn all_tunnels_can_be_ended() {
        let tunnels = Tunnels::new(1, Duration::from_secs(60));
        let ((near, _client), (far, _server)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        tunnels.close();
        tunnels.run(tunnels.enter().unwrap(), near, far).await.unwrap();
    }
}
