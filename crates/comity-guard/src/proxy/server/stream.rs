//! A connection's byte stream: plain or TLS, with notes of where it stands still.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::life::Life;

/// A client's bytes.
pub(super) enum Wire {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The same, watched.
pub(super) struct Stream {
    wire: Wire,
    /// Read before it was known how to read it.
    first: Bytes,
    life: Arc<Life>,
    shut: bool,
    lingered: usize,
}

impl Stream {
    pub(super) fn new(wire: Wire, first: Bytes, life: Arc<Life>) -> Self {
        Self { wire, first, life, shut: false, lingered: 0 }
    }

    fn read(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Wire::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }

    fn wrote(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &polled {
            Poll::Pending => self.life.write.set(&self.life),
            Poll::Ready(Ok(bytes)) => {
                self.life.write.clear();
                self.life.counters.bytes_out.fetch_add(*bytes as u64, Ordering::Relaxed);
            }
            Poll::Ready(Err(_)) => {}
        }
        polled
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.first.has_remaining() {
            let some = this.first.len().min(buffer.remaining());
            buffer.put_slice(&this.first.split_to(some));
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(this.read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        if read > 0 {
            this.life.counters.bytes_in.fetch_add(read as u64, Ordering::Relaxed);
            this.life.reading_head.store(true, Ordering::Relaxed);
        } else if this.life.client_ends() {
            // The end of what the client says is not the end of its wish to be answered (field case I11). Who waits here
            // for more is told nothing; the driver closes the connection in time.
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = match &mut this.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Wire::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        };
        this.wrote(polled)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A head alone is the most common write, and a plain one is the cheaper call.
        if let [only] = slices {
            return self.poll_write(cx, only);
        }
        let this = self.get_mut();
        let polled = match &mut this.wire {
            Wire::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Wire::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        };
        this.wrote(polled)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.wire {
            Wire::Plain(tcp) => tcp.is_write_vectored(),
            Wire::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = match &mut this.wire {
            Wire::Plain(_) => return Poll::Ready(Ok(())),
            Wire::Tls(tls) => Pin::new(tls).poll_flush(cx),
        };
        match &polled {
            Poll::Pending => this.life.write.set(&this.life),
            Poll::Ready(_) => this.life.write.clear(),
        }
        polled
    }

    /// Says that nothing more comes. Where the client may still be sending, what it sends is dropped for a while: closed
    /// on unread bytes, TCP resets the connection, and the client may lose the answer it has not read yet.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.shut {
            this.life.closing.set(&this.life);
            ready!(match &mut this.wire {
                Wire::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
                Wire::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            })?;
            this.shut = true;
        }
        let unread = &this.life.unread;
        if !unread.load(Ordering::Relaxed) && !this.life.reading_head.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let mut space = [0; LINGER_CHUNK];
        while this.lingered < LINGER_BYTES {
            let mut buffer = ReadBuf::new(&mut space);
            match ready!(this.read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => this.lingered += buffer.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(Ok(()))
    }
}

const LINGER_CHUNK: usize = 4 * 1024;

/// Nobody is listened to without end.
const LINGER_BYTES: usize = 1024 * 1024;
