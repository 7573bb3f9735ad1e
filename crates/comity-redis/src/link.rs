//! The connection: a thread of its own, on which calls go out pipelined and answers come back into a queue.

use core::time::Duration;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};

use comity_core::time::Instant;
use comity_store::{StoreError, Wake};
use futures_util::StreamExt;
use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::connect::{self, Connection, Failure, PULSE_SCRIPT, Script, evaluate};
use crate::keys::Keys;
use crate::members::{Member, NoSign, Sign};
use crate::script::pack;
use crate::url::Place;

/// The near end of the connection.
pub(crate) struct Link {
    jobs: mpsc::UnboundedSender<Job>,
    mail: Arc<Mail>,
    /// In a lock, so that the near end can be many threads'.
    ended: Mutex<std_mpsc::Receiver<()>>,
    thread: std::thread::ThreadId,
    /// The process whose thread it is: another that was forked off has none.
    process: u32,
}

/// What the connection needs to know.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) place: Place,
    pub(crate) keys: Keys,
    pub(crate) clock: Clock,
    pub(crate) deadline: Duration,
    pub(crate) lease: Duration,
    /// What calls are answered by.
    pub(crate) script: &'static Script,
    /// Whether others' changes are to be heard of.
    pub(crate) listens: bool,
    /// A test gives the time: no sign of life is sent, for it would read the store's.
    pub(crate) given_times: bool,
}

/// What came.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// A call's answer, and when it was sent and came.
    Answer { id: u64, sent: Instant, came: Instant, result: Result<Vec<u8>, Failure> },
    /// The store is within reach again.
    Up,
    /// It is not.
    Down(String),
    /// A sign of life was heard.
    Beat { sent: Instant, came: Instant, sign: Sign },
    /// Others changed this record.
    Woken(String),
    /// Whether others' changes are heard of.
    Listening(bool),
}

enum Job {
    Call { id: u64, sent: Instant, keys: Vec<Vec<u8>>, call: Vec<u8> },
    Close(Vec<(Vec<String>, Vec<u8>)>),
}

#[derive(Default)]
struct Mail {
    letters: Mutex<VecDeque<Arrived>>,
    wake: Mutex<Option<Wake>>,
}

impl Link {
    /// Connects, and returns once the store answered.
    pub(crate) fn open(terms: Terms, member: Member) -> Result<(Self, Sign), StoreError> {
        let (jobs, inbox) = mpsc::unbounded_channel();
        let (ready, opened) = std_mpsc::channel();
        let (ending, ended) = std_mpsc::channel();
        let mail = Arc::new(Mail::default());
        let (place, for_thread) = (terms.place.clone(), Arc::clone(&mail));
        let run = move || {
            let mail = Arc::clone(&for_thread);
            let keep = || {
                let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
                match built {
                    Ok(runtime) => runtime.block_on(tokio::task::LocalSet::new().run_until(async {
                        Keeper { terms, member, mail: for_thread }.run(inbox, &ready).await;
                    })),
                    Err(error) => drop(ready.send(Err(StoreError::OutOfReach(error.to_string())))),
                }
            };
            // Whoever is told of an arrival, or subscribes to its traces, runs on this thread and may panic.
            if catch_unwind(AssertUnwindSafe(keep)).is_err() {
                let _ = catch_unwind(AssertUnwindSafe(|| mail.put(Arrived::Down(ENDED.to_owned()))));
            }
            let _ = ending.send(());
        };
        let thread = std::thread::Builder::new()
            .name("comity-redis".to_owned())
            .spawn(run)
            .map_err(|error| StoreError::OutOfReach(format!("no thread for the store's connection: {error}")))?;
        match opened.recv_timeout(PATIENCE * 2) {
            Ok(Ok(sign)) => {
                let (thread, process) = (thread.thread().id(), std::process::id());
                Ok((Self { jobs, mail, ended: Mutex::new(ended), thread, process }, sign))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::OutOfReach(format!("{} does not answer", place.address()))),
        }
    }

    /// Sends a call; its answer arrives under this number.
    pub(crate) fn call(&self, id: u64, sent: Instant, keys: Vec<Vec<u8>>, call: Vec<u8>) {
        if self.jobs.send(Job::Call { id, sent, keys, call }).is_err() {
            // Without a word to anybody: whoever calls is there.
            let result = Err(Failure::Lost(ENDED.to_owned()));
            lock(&self.mail.letters).push_back(Arrived::Answer { id, sent, came: sent, result });
        }
    }

    /// Why nothing can come by this connection any more.
    pub(crate) fn gone(&self) -> Option<&'static str> {
        if self.process != std::process::id() {
            return Some(FORKED);
        }
        self.jobs.is_closed().then_some(ENDED)
    }

    /// The oldest of what came.
    pub(crate) fn next(&self) -> Option<Arrived> {
        if self.process != std::process::id() {
            // Whoever held the lock when this process was forked off is not here to give it back.
            return None;
        }
        lock(&self.mail.letters).pop_front()
    }

    /// Whom to tell when something came.
    pub(crate) fn on_arrival(&self, wake: Wake) {
        *lock(&self.mail.wake) = Some(wake);
    }

    /// Sends the last calls, leaves, and waits no longer than this for it; not at all on the thread that sends them.
    pub(crate) fn close(&self, last: Vec<(Vec<String>, Vec<u8>)>, longest: Duration) {
        if self.process != std::process::id() {
            return;
        }
        if self.jobs.send(Job::Close(last)).is_ok() && std::thread::current().id() != self.thread {
            let _ = lock(&self.ended).recv_timeout(longest);
        }
    }
}

impl Mail {
    fn put(&self, letter: Arrived) {
        lock(&self.letters).push_back(letter);
        let wake = lock(&self.wake).clone();
        if let Some(wake) = wake {
            wake();
        }
    }
}

/// Keeps the connection.
struct Keeper {
    terms: Terms,
    member: Member,
    mail: Arc<Mail>,
}

impl Keeper {
    async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<Job>,
        ready: &std_mpsc::Sender<Result<Sign, StoreError>>,
    ) {
        let mut nodes = vec![self.terms.place.clone()];
        let mut connection = match self.join(&mut nodes, PATIENCE).await {
            Ok((connection, sign)) => {
                connect::check_eviction(&connection, &self.terms.place).await;
                drop(ready.send(Ok(sign)));
                connection
            }
            Err(error) => {
                drop(ready.send(Err(error)));
                return;
            }
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let began = self.terms.clock.now();
            let why = match self.serve(&connection, &mut inbox).await {
                Ended::Closed(last) => return self.leave(&connection, last).await,
                Ended::Lost(why) => why,
            };
            drop(connection);
            if self.terms.clock.now().since(began) >= WELL {
                pause = FIRST_PAUSE;
            }
            self.mail.put(Arrived::Down(why));
            connection = loop {
                // Nothing waits in line for the store's return: calls fail at once.
                let rest = tokio::time::sleep(pause);
                tokio::pin!(rest);
                loop {
                    tokio::select! {
                        biased;
                        job = inbox.recv() => match job {
                            Some(Job::Call { id, sent, .. }) => self.fail(id, sent, "out of reach"),
                            Some(Job::Close(_)) | None => return,
                        },
                        () = &mut rest => break,
                    }
                }
                let within = (self.terms.deadline * 4).max(LEAST_CONNECT);
                let joining = self.join(&mut nodes, within);
                tokio::pin!(joining);
                let joined = loop {
                    tokio::select! {
                        joined = &mut joining => break joined,
                        job = inbox.recv() => match job {
                            Some(Job::Call { id, sent, .. }) => self.fail(id, sent, "out of reach"),
                            Some(Job::Close(_)) | None => return,
                        },
                    }
                };
                pause = (pause * 2).min(LONGEST_PAUSE);
                match joined {
                    Ok((connection, sign)) => {
                        let now = self.terms.clock.now();
                        self.mail.put(Arrived::Beat { sent: now, came: now, sign });
                        self.mail.put(Arrived::Up);
                        break connection;
                    }
                    Err(error) => tracing::debug!("the shared pace is still out of reach: {error}"),
                }
            };
        }
    }

    fn fail(&self, id: u64, sent: Instant, why: &str) {
        self.mail.put(Arrived::Answer {
            id,
            sent,
            came: self.terms.clock.now(),
            result: Err(Failure::Lost(why.to_owned())),
        });
    }

    /// Connects and joins the members.
    async fn join(&self, nodes: &mut Vec<Place>, within: Duration) -> Result<(Connection, Sign), StoreError> {
        let late = || StoreError::OutOfReach(format!("{} does not answer in time", self.terms.place.address()));
        let connecting = async {
            let connection = connect::any(nodes, within).await?;
            if self.terms.given_times {
                let sign = Sign { cluster: connection.is_cluster(), ..Sign::default() };
                return Ok((connection, sign));
            }
            match self.beat(&connection).await {
                Ok(sign) => Ok((connection, sign)),
                Err(error) => Err(connect::explain(&self.terms.place, &error)),
            }
        };
        tokio::time::timeout(within, connecting).await.unwrap_or_else(|_| Err(late()))
    }

    async fn beat(&self, connection: &Connection) -> Result<Sign, ::redis::RedisError> {
        let keys = vec![self.terms.keys.members(), self.terms.keys.generation()];
        loop {
            let value = evaluate(connection, &PULSE_SCRIPT, &keys, &pack(&self.member.pulse(self.terms.lease))).await?;
            match self.member.heard(&value) {
                Ok(sign) => return Ok(Sign { cluster: connection.is_cluster(), ..sign }),
                Err(NoSign::Taken) if self.member.rename() => {}
                Err(_) => return Err((::redis::ErrorKind::UnexpectedReturnType, "no answer of this script").into()),
            }
        }
    }

    async fn serve(&mut self, connection: &Connection, inbox: &mut mpsc::UnboundedReceiver<Job>) -> Ended {
        let (lost, mut losses) = watch::channel(None::<String>);
        let mut listening = tokio::task::spawn_local(listen(
            self.terms.place.clone(),
            format!("{}{}", self.terms.keys.wake(), self.member.id()),
            Arc::clone(&self.mail),
            self.terms.listens && !self.terms.given_times,
        ));
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        beats.tick().await;
        let ended = loop {
            tokio::select! {
                biased;
                _ = losses.changed() => {
                    let why = losses.borrow().clone();
                    break Ended::Lost(why.unwrap_or_default());
                }
                job = inbox.recv() => match job {
                    Some(Job::Call { id, sent, keys, call }) => self.spawn_call(connection, &lost, id, sent, keys, call),
                    Some(Job::Close(last)) => break Ended::Closed(last),
                    None => break Ended::Closed(Vec::new()),
                },
                _ = beats.tick(), if !self.terms.given_times => self.spawn_beat(connection, &lost),
                _ = &mut listening => {
                    // It ends only where nobody may listen.
                    listening = tokio::task::spawn_local(core::future::pending());
                }
            }
        };
        listening.abort();
        if let Ended::Lost(_) = ended {
            // Let what was under way fail by its own deadline before the queue is answered.
            tokio::task::yield_now().await;
        }
        ended
    }

    fn spawn_call(
        &self,
        connection: &Connection,
        lost: &watch::Sender<Option<String>>,
        id: u64,
        sent: Instant,
        keys: Vec<Vec<u8>>,
        call: Vec<u8>,
    ) {
        let (connection, lost, mail) = (connection.clone(), lost.clone(), Arc::clone(&self.mail));
        let (clock, deadline, script) = (self.terms.clock, self.terms.deadline, self.terms.script);
        tokio::task::spawn_local(async move {
            let evaluated = evaluate(&connection, script, &keys, &call);
            let result = match within(deadline, evaluated).await {
                Some(Ok(bytes)) => Ok(bytes),
                Some(Err(error)) => Err(Failure::of(&error)),
                None => Err(Failure::Lost(format!("no answer within {deadline:?}"))),
            };
            if let Err(Failure::Lost(why)) = &result {
                lost.send_if_modified(|known| {
                    let first = known.is_none();
                    known.get_or_insert_with(|| why.clone());
                    first
                });
            }
            mail.put(Arrived::Answer { id, sent, came: clock.now(), result });
        });
    }

    fn spawn_beat(&self, connection: &Connection, lost: &watch::Sender<Option<String>>) {
        let (connection, lost, mail) = (connection.clone(), lost.clone(), Arc::clone(&self.mail));
        let (terms, member) = (self.terms.clone(), self.member.clone());
        tokio::task::spawn_local(async move {
            let sent = terms.clock.now();
            let keeper = Self { terms, member, mail: Arc::clone(&mail) };
            let why = match within(keeper.terms.deadline, keeper.beat(&connection)).await {
                Some(Ok(sign)) => {
                    mail.put(Arrived::Beat { sent, came: keeper.terms.clock.now(), sign });
                    return;
                }
                Some(Err(error)) => connect::words(&error),
                None => format!("no answer within {:?}", keeper.terms.deadline),
            };
            lost.send_if_modified(|known| known.replace(why).is_none());
        });
    }

    /// The last calls, and good-bye; as far as the deadline lets it.
    async fn leave(&self, connection: &Connection, last: Vec<(Vec<String>, Vec<u8>)>) {
        let farewell = async {
            for (keys, call) in &last {
                drop(evaluate(connection, self.terms.script, keys, call).await);
            }
            if !self.terms.given_times {
                let keys = vec![self.terms.keys.members(), self.terms.keys.generation()];
                drop(evaluate(connection, &PULSE_SCRIPT, &keys, &pack(&self.member.leave(self.terms.lease))).await);
            }
        };
        drop(tokio::time::timeout(self.terms.deadline, farewell).await);
    }
}

enum Ended {
    Lost(String),
    Closed(Vec<(Vec<String>, Vec<u8>)>),
}

/// Hears of others' changes until it is told to stop.
async fn listen(place: Place, channel: String, mail: Arc<Mail>, listens: bool) {
    if !listens {
        return;
    }
    loop {
        let subscribed = async {
            let mut messages = place.client()?.get_async_pubsub().await?;
            messages.subscribe(&channel).await?;
            Ok::<_, ::redis::RedisError>(messages.into_on_message())
        };
        match tokio::time::timeout(PATIENCE, subscribed).await {
            Ok(Ok(mut messages)) => {
                mail.put(Arrived::Listening(true));
                while let Some(message) = messages.next().await {
                    mail.put(Arrived::Woken(String::from_utf8_lossy(message.get_payload_bytes()).into_owned()));
                }
                mail.put(Arrived::Listening(false));
            }
            Ok(Err(error)) if matches!(error.code(), Some("NOPERM")) => {
                tracing::debug!("{place} lets this user hear no messages; changes by others are asked for instead");
                return;
            }
            Ok(Err(_)) | Err(_) => {}
        }
        tokio::time::sleep(LONGEST_PAUSE).await;
    }
}

/// As a time-out, but an answer that has come while this thread had no turn is an answer.
async fn within<T>(deadline: Duration, answer: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(answer);
    if let Ok(answer) = tokio::time::timeout(deadline, &mut answer).await {
        return Some(answer);
    }
    for _ in 0..GRACE {
        tokio::task::yield_now().await;
        if let Some(answer) = futures_util::FutureExt::now_or_never(&mut answer) {
            return Some(answer);
        }
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long the first connection may take.
const PATIENCE: Duration = Duration::from_secs(3);
const ENDED: &str = "the thread of its connection has ended";
const FORKED: &str = "this process was forked off another, whose connection it is";
/// Between two signs of life.
const BEAT: Duration = Duration::from_secs(1);
/// The pauses between two attempts to find a lost store.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A store that was there for so long is looked for at once when it is lost again.
const WELL: Duration = Duration::from_secs(10);
/// A connection takes several round trips.
const LEAST_CONNECT: Duration = Duration::from_millis(400);
/// Turns that other tasks get to hand over an answer that has come.
const GRACE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_off_has_no_connection_and_waits_for_none() {
        let ((jobs, mut inbox), (ending, ended)) = (mpsc::unbounded_channel(), std_mpsc::channel());
        let thread = std::thread::spawn(|| {}).thread().id();
        let mut link =
            Link { jobs, mail: Arc::default(), ended: Mutex::new(ended), thread, process: std::process::id() };
        assert_eq!(link.gone(), None);
        link.process = link.process.wrapping_add(1);
        assert_eq!(link.gone(), Some(FORKED));
        let _held = lock(&link.mail.letters);
        assert!(link.next().is_none(), "whoever held the lock is not in this process");
        link.close(Vec::new(), PATIENCE * 100);
        assert!(inbox.try_recv().is_err(), "the other process has not left");
        drop(ending);
    }

    #[test]
    fn a_call_after_the_end_of_the_connection_has_an_answer() {
        let ((jobs, inbox), (_ending, ended)) = (mpsc::unbounded_channel(), std_mpsc::channel());
        let thread = std::thread::current().id();
        let link = Link { jobs, mail: Arc::default(), ended: Mutex::new(ended), thread, process: std::process::id() };
        drop(inbox);
        assert_eq!(link.gone(), Some(ENDED));
        link.call(3, Instant::ZERO, Vec::new(), Vec::new());
        assert!(matches!(link.next(), Some(Arrived::Answer { id: 3, result: Err(Failure::Lost(_)), .. })));
    }
}
