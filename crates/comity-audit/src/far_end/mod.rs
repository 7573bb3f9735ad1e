//! A server that plays any number of hosts on one loopback port and records every request that reaches it.
//!
//! It speaks HTTP/1.0 and HTTP/1.1 with keep-alive, one thread a connection, standard library only. Hosts are told apart
//! by the Host header (or an absolute-form target), whatever port it names.

mod answer;
mod connection;
mod limit;
mod log;
mod reply;
mod wire;
mod world;

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};

pub use self::limit::Limit;
pub use self::log::Arrival;
pub use self::reply::{Ending, Reply};
pub use self::world::{Advertise, Host, Outage, RetryAfter, World};

use self::log::Log;
use self::world::Hosts;
use crate::clock::Clock;
use crate::stop::{Stop, lock};

/// A running far end. Dropped, it stops: the port closes and every connection with it.
#[derive(Debug)]
pub struct FarEnd {
    shared: Arc<Shared>,
    addr: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

/// What could not be recorded, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unrecorded {
    /// Connections closed at once because too many were open (4,096).
    pub turned_away: u64,
    /// Requests that could not be read as HTTP.
    pub malformed: u64,
    /// Arrivals past the log's bound (200,000), served but not kept.
    pub overflowed: u64,
}

impl FarEnd {
    /// Starts serving `world` on a free loopback port.
    ///
    /// # Errors
    /// Whatever binding the port or starting the accepting thread fails with.
    pub fn start(world: World) -> io::Result<Self> {
        let listener = listen()?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            clock: Clock::start(),
            hosts: world.open(),
            log: Log::default(),
            stop: Stop::default(),
            open: Mutex::default(),
            turned_away: AtomicU64::new(0),
            malformed: AtomicU64::new(0),
        });
        let accepting = {
            let shared = Arc::clone(&shared);
            Builder::new().name("far-end".into()).spawn(move || accept(&shared, &listener))?
        };
        Ok(Self { shared, addr, accepting: Some(accepting) })
    }

    /// Where every host of the world is served.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The `http` URL of a host's path, with the far end's port; a client still has to be told that the name resolves to
    /// [`FarEnd::addr`].
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.addr.port())
    }

    /// Time since the far end started, on the clock that stamps arrivals.
    pub fn now(&self) -> Duration {
        self.shared.clock.now()
    }

    /// Everything that has arrived since the start or the last [`FarEnd::clear`], in order of arrival.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.shared.log.arrivals()
    }

    /// When requests for one host arrived, in order.
    pub fn times(&self, host: &str) -> Vec<Duration> {
        crate::arrivals::times(&self.arrivals(), host)
    }

    /// Forgets the arrivals so far; what hosts remember of their clients stays.
    pub fn clear(&self) {
        self.shared.log.clear();
    }

    /// How many arrivals are kept now.
    pub fn kept(&self) -> usize {
        self.shared.log.kept()
    }

    /// What arrived without being recorded. A verdict should not be read off a log where this is not all zero.
    pub fn unrecorded(&self) -> Unrecorded {
        Unrecorded {
            turned_away: self.shared.turned_away.load(Ordering::Relaxed),
            malformed: self.shared.malformed.load(Ordering::Relaxed),
            overflowed: self.shared.log.overflowed(),
        }
    }

    /// Connections open now.
    pub fn connections(&self) -> usize {
        lock(&self.shared.open).len()
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.shared.stop.now();
        // A connection to ourselves is what wakes a thread that waits in `accept`.
        drop(TcpStream::connect_timeout(&self.addr, Duration::from_secs(1)));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        for stream in lock(&self.shared.open).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    hosts: Hosts,
    log: Log,
    stop: Stop,
    open: Mutex<HashMap<u64, Arc<TcpStream>>>,
    turned_away: AtomicU64,
    malformed: AtomicU64,
}

/// A listener whose queue holds a crowd: the standard library's 128 make a thousand clients retry for seconds.
fn listen() -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for connection in 0.. {
        let accepted = listener.accept();
        if shared.stop.told() {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                if let Err(_turned_away) = open(shared, stream, connection) {
                    shared.turned_away.fetch_add(1, Ordering::Relaxed);
                }
            }
            // Out of file descriptors, or a client that was gone before we looked.
            Err(_) => {
                shared.stop.wait(ACCEPT_AGAIN);
            }
        }
    }
}

fn open(shared: &Arc<Shared>, stream: TcpStream, connection: u64) -> io::Result<()> {
    let stream = Arc::new(stream);
    stream.set_nodelay(true)?;
    {
        let mut open = lock(&shared.open);
        if open.len() >= MAX_CONNECTIONS {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        open.insert(connection, Arc::clone(&stream));
    }
    let served = Arc::clone(shared);
    let started = Builder::new().stack_size(STACK).spawn(move || {
        connection::serve(&served, &stream, connection);
        lock(&served.open).remove(&connection);
    });
    if started.is_err() {
        lock(&shared.open).remove(&connection);
    }
    started.map(drop)
}

/// Connections open at once; some thousand threads are still cheap, tens of thousands are not.
const MAX_CONNECTIONS: usize = 4096;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// Stack of a connection's thread: a script may format and allocate, but nothing here recurses.
const STACK: usize = 256 * 1024;

/// How long to leave the listener alone after it failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);
