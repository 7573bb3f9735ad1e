//! The machine store's one thread: signs of life, and a look at what others changed while somebody waits here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;
use std::time::Duration;

use comity_core::time::Instant;
use comity_store::Wake;

use crate::clock::Clock;
use crate::file::PaceFile;
use crate::header::{Found, Header};
use crate::place::Place;
use crate::roster::Own;

/// What the store and its thread tell each other.
pub(crate) struct Watch {
    place: Place,
    lease: Duration,
    clock: Clock,
    watched: Mutex<Watched>,
    /// Until when somebody waits, on the file's clock.
    waiting_until: AtomicU64,
    /// The header's count of news that was last told.
    seen: AtomicU64,
    /// Others changed something.
    news: AtomicBool,
    /// The file is another, the lease may be over, or the store is lost: the store should look for itself.
    look: AtomicBool,
    /// The store is lost: every beat asks for a look.
    pub(crate) lost: AtomicBool,
    #[cfg(test)]
    pub(crate) frozen: AtomicBool,
}

#[derive(Default)]
struct Watched {
    own: Option<Arc<Own>>,
    file: Option<Arc<PaceFile>>,
    wake: Option<Wake>,
}

/// The thread's handle: it ends when this is dropped.
pub(crate) struct Watching {
    pub(crate) watch: Arc<Watch>,
    thread: Thread,
}

impl Watching {
    /// Starts the thread.
    pub(crate) fn start(place: Place, lease: Duration, clock: Clock) -> std::io::Result<Self> {
        let watch = Arc::new(Watch {
            place,
            lease,
            clock,
            watched: Mutex::default(),
            waiting_until: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            news: AtomicBool::new(false),
            look: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            #[cfg(test)]
            frozen: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&watch);
        let thread = std::thread::Builder::new().name("comity-pace".to_owned()).spawn(move || run(&weak))?;
        Ok(Self { thread: thread.thread().clone(), watch })
    }

    /// Somebody waits until then.
    pub(crate) fn waits_until(&self, until: Instant) {
        let now = self.watch.clock.now();
        let until = if until == Instant::FAR { now.after(FAR) } else { until };
        let before = self.watch.waiting_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
        if before < now.as_nanos() && until > now {
            self.thread.unpark();
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The thread holds a weak reference, and ends when it finds nothing there.
        self.thread.unpark();
    }
}

impl Watch {
    pub(crate) fn on_news(&self, wake: Wake) {
        self.watched().wake = Some(wake);
    }

    /// The file and the member to watch from now on.
    pub(crate) fn set(&self, own: Option<Arc<Own>>, file: Option<Arc<PaceFile>>) {
        let mut watched = self.watched();
        watched.own = own;
        watched.file = file;
    }

    /// The header's count of news, as the store read it. What is new in it is told.
    pub(crate) fn heard(&self, news: u64) {
        if self.seen.swap(news, Ordering::Relaxed) != news {
            self.news.store(true, Ordering::Relaxed);
        }
    }

    /// The count to begin with, or after a change of this process's own.
    pub(crate) fn begin_with(&self, news: u64) {
        self.seen.store(news, Ordering::Relaxed);
    }

    /// Something changed for those that wait here.
    pub(crate) fn tell(&self) {
        self.news.store(true, Ordering::Relaxed);
        let wake = self.watched().wake.clone();
        if let Some(wake) = wake {
            wake();
        }
    }

    pub(crate) fn take_news(&self) -> bool {
        self.news.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn should_look(&self) -> bool {
        self.look.load(Ordering::Relaxed)
    }

    pub(crate) fn take_look(&self) -> bool {
        self.look.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn ask_for_a_look(&self) {
        self.look.store(true, Ordering::Relaxed);
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_waited(&self) -> bool {
        self.waiting_until.load(Ordering::Relaxed) > self.clock.now().as_nanos()
    }

    /// One round. Returns how long to rest.
    fn round(&self) -> Duration {
        #[cfg(test)]
        if self.frozen.load(Ordering::Relaxed) {
            return LOOK_EVERY;
        }
        let (own, file) = {
            let watched = self.watched();
            (watched.own.clone(), watched.file.clone())
        };
        let mut wake = false;
        let beat_every = beat_every(self.lease);
        if let Some(own) = &own
            && own.since_beat() >= beat_every
        {
            let late = own.beat(self.lease);
            let moved = file.as_ref().is_none_or(|file| !file.is_at(&self.place.path));
            if late || moved || !own.is_named() || self.lost.load(Ordering::Relaxed) {
                self.ask_for_a_look();
                wake = true;
            }
        }
        let waited = self.is_waited();
        if waited
            && let Some(file) = &file
            && let Ok(Found::Header(header)) = Header::read(file)
        {
            self.heard(header.news);
        }
        if wake || self.news.load(Ordering::Relaxed) {
            let wake = self.watched().wake.clone();
            if let Some(wake) = wake {
                wake();
            }
        }
        if waited { LOOK_EVERY } else { beat_every }
    }
}

/// How often a sign of life is given.
pub(crate) fn beat_every(lease: Duration) -> Duration {
    lease / 10
}

fn run(watch: &Weak<Watch>) {
    loop {
        let Some(rest) = watch.upgrade().map(|watch| watch.round()) else { return };
        std::thread::park_timeout(rest);
    }
}

/// While somebody waits, what others changed is looked for so often: it must be noticed within 50 ms (X8).
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A wait that only this process's own doing can end counts for so long.
const FAR: Duration = Duration::from_secs(60);
