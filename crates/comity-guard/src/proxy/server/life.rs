//! What the parts of one connection know of each other: its stream, its requests, and whoever drives it.
//!
//! A connection has one timer. The parts only note when something began ([`Stamp`]); the driver finds out which bound is
//! the next to run out. So a request costs no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::bounds::Bounds;
use super::counters::Counters;
use crate::proxy::clock;

/// The shared state of one connection.
pub(super) struct Life {
    began: Instant,
    pub(super) bounds: Arc<Bounds>,
    pub(super) counters: Arc<Counters>,
    /// HTTP/1.1, where one request follows the other and a body nobody wants stands in the way of the next head.
    pub(super) http1: AtomicBool,
    /// Requests whose answer is not written yet.
    open: AtomicUsize,
    /// HTTP/1.1: the request's body is not read to its end.
    pub(super) body_open: AtomicBool,
    /// HTTP/1.1: the request asked whether to send its body.
    pub(super) expects: AtomicBool,
    /// HTTP/1.1: there may be a [`rest`](Self::rest).
    pub(super) has_rest: AtomicBool,
    /// HTTP/1.1: who waits for more of the body.
    body_waker: Mutex<Option<Waker>>,
    /// HTTP/1.1: a body that nobody wants any more.
    pub(super) rest: Mutex<Option<Incoming>>,
    /// Bytes of it read away.
    pub(super) drained: AtomicU64,
    /// Something was read after the last head; or of the first.
    pub(super) reading_head: AtomicBool,
    /// The connection closes on bytes unread.
    pub(super) unread: AtomicBool,

    /// No request since.
    pub(super) idle: Stamp,
    /// A head began to arrive.
    pub(super) head: Stamp,
    /// A write found no room.
    pub(super) write: Stamp,
    /// The client closed its side while it waits for an answer.
    pub(super) half_closed: Stamp,
    /// The rest of a body is read away.
    pub(super) draining: Stamp,
    /// The stream is shut down.
    pub(super) closing: Stamp,
    /// HTTP/2: since when a frame of an answer has been waiting for its reader.
    pub(super) streams: Mutex<Vec<Arc<AtomicU64>>>,
}

impl Life {
    pub(super) fn new(bounds: Arc<Bounds>, counters: Arc<Counters>) -> Arc<Self> {
        let life = Self {
            began: clock::now(),
            bounds,
            counters,
            http1: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            body_open: AtomicBool::new(false),
            expects: AtomicBool::new(false),
            has_rest: AtomicBool::new(false),
            body_waker: Mutex::new(None),
            rest: Mutex::new(None),
            drained: AtomicU64::new(0),
            reading_head: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            idle: Stamp::default(),
            head: Stamp::default(),
            write: Stamp::default(),
            half_closed: Stamp::default(),
            draining: Stamp::default(),
            closing: Stamp::default(),
            streams: Mutex::new(Vec::new()),
        };
        life.head.set(&life);
        Arc::new(life)
    }

    /// Milliseconds of this connection's life, never 0.
    pub(super) fn age(&self) -> u64 {
        clock::now().saturating_duration_since(self.began).as_millis() as u64 + 1
    }

    /// The instant at which the age is `age` plus `within`.
    pub(super) fn instant(&self, age: u64, within: Duration) -> Instant {
        self.began + Duration::from_millis(age) + within
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A head was read.
    pub(super) fn request_begins(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.reading_head.store(false, Ordering::Relaxed);
        self.head.clear();
        self.idle.clear();
    }

    /// An answer is written or abandoned.
    pub(super) fn request_ends(&self) {
        if self.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle.set(self);
        }
    }

    /// The request's body is read to its end.
    pub(super) fn body_ends(&self) {
        self.body_open.store(false, Ordering::Relaxed);
        self.reading_head.store(false, Ordering::Relaxed);
        self.draining.clear();
    }

    /// The client closed its side. True when that is no reason to stop: it may still wait for an answer.
    pub(super) fn client_ends(&self) -> bool {
        if !self.http1.load(Ordering::Relaxed) || self.open() == 0 {
            return false;
        }
        self.half_closed.set(self);
        if let Some(waker) = self.body_waker.lock().take() {
            waker.wake();
        }
        true
    }

    /// Whether no more of a body can come of which there is nothing now. Otherwise `cx` hears of it.
    pub(super) fn body_is_cut_off(&self, cx: &Context<'_>) -> bool {
        if !self.http1.load(Ordering::Relaxed) {
            return false;
        }
        let mut waker = self.body_waker.lock();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.half_closed.get().is_some()
    }
}

/// Since when something is so, as an age of the connection; 0 where it is not.
#[derive(Default)]
pub(super) struct Stamp(AtomicU64);

impl Stamp {
    pub(super) fn get(&self) -> Option<u64> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            age => Some(age),
        }
    }

    /// Notes the present, unless it is noted already.
    pub(super) fn set(&self, life: &Life) {
        if self.get().is_none() {
            self.0.store(life.age(), Ordering::Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        if self.get().is_some() {
            self.0.store(0, Ordering::Relaxed);
        }
    }
}
