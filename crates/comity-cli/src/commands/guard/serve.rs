//! The guard at work: from its listeners to its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use comity_guard::proxy::server::Peer;
use comity_guard::proxy::{Bounds, Certificates, Forward, Listen, Server};
use comity_guard::{Guard, Settings};
use tokio::sync::{oneshot, watch};
use tower_layer::Layer as _;

use super::access_log::AccessLog;
use super::admin::Admin;
use super::judging::{Believed, Judging};
use super::logged::{Logged, note_decisions};
use super::metrics::{Facts, Reloads};
use super::signals::{Signal, Signals};
use super::told::{Found, Teller, key_in_words};
use crate::exit::{Exit, Usage};
use crate::flags::guard::LimitFlags;
use crate::screen::say;

/// All that a guard is made of, found to be right.
pub(super) struct Assembled {
    pub(super) limits: LimitFlags,
    pub(super) listen: Vec<(Listen, bool)>,
    pub(super) bounds: Bounds,
    pub(super) certificates: Option<Certificates>,
    pub(super) guard: Guard,
    pub(super) believed: Believed,
    pub(super) forward: Forward,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) teller: Teller,
    /// How clients are told apart, in words.
    pub(super) key: Option<String>,
}

/// What a signal can change.
struct Running {
    limits: LimitFlags,
    certificates: Option<Certificates>,
    guard: Guard,
    believed: Believed,
    log: Option<Arc<AccessLog>>,
    teller: Teller,
    found: Found,
    reloads: Arc<Reloads>,
}

impl Assembled {
    /// Serves until it is told to end.
    pub(super) async fn serve(self) -> Result<Exit> {
        let Self { limits, listen, bounds, certificates, guard, believed, forward, log, admin, teller, key } = self;
        let mut signals = Signals::new().context("cannot listen for signals")?;
        let admin = match admin {
            Some(address) => {
                Some(Server::bind(vec![Listen::plain(address)], of_the_operator()).await.context("--admin")?)
            }
            None => None,
        };
        let (listen, tls): (Vec<Listen>, Vec<bool>) = listen.into_iter().unzip();
        let drain = bounds.ending;
        let server = Server::bind(listen, bounds).await.context("--listen")?;
        let found = Found {
            listening: server.addresses()?.into_iter().zip(tls).map(|(address, tls)| url(address, tls)).collect(),
            admin: admin
                .as_ref()
                .map(|admin| admin.addresses())
                .transpose()?
                .and_then(|addresses| Some(url(*addresses.first()?, false))),
        };
        let (ending, reloads) = (Arc::<AtomicBool>::default(), Arc::<Reloads>::default());
        let facts = Facts {
            guard: guard.clone(),
            server: server.counters(),
            forward: forward.clone(),
            log: log.clone(),
            reloads: Arc::clone(&reloads),
        };
        let (end_of_admin, told) = oneshot::channel::<()>();
        let admin = admin.map(|admin| {
            let service = Admin { facts: Arc::new(facts), ending: Arc::clone(&ending) };
            tokio::spawn(admin.run(service, async { drop(told.await) }))
        });

        let layer = guard.layer().peer(|extensions| extensions.get::<Peer>().map(|peer| peer.address.ip()));
        let service = layer.layer(Judging { believed: believed.clone(), forward: forward.clone() });
        let (end, mut wanted) = watch::channel(false);
        let wanted = async move { drop(wanted.wait_for(|end| *end).await) };
        let served = match &log {
            None => tokio::spawn(server.run(service, wanted)),
            Some(log) => {
                note_decisions(&guard);
                tokio::spawn(server.run(Logged { inner: service, log: Arc::clone(log) }, wanted))
            }
        };
        let running = Running { limits, certificates, guard, believed, log, teller, found, reloads };
        running.teller.listening(&running.found, &running.guard, key)?;

        running.until_the_end(&mut signals).await;
        ending.store(true, Ordering::Relaxed);
        end.send_replace(true);
        running.teller.ending();
        let drained = async {
            let tunnels = forward.tunnels().clone();
            let all = async {
                let _ = served.await;
                while tunnels.open() > 0 {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
            };
            // The server keeps to the same bound; a tunnel does not.
            let _ = tokio::time::timeout(drain + LOOK_AGAIN, all).await;
            forward.tunnels().close();
        };
        tokio::select! {
            biased;
            () = drained => {}
            () = running.until_the_end(&mut signals) => std::process::exit(Exit::Interrupted.code().into()),
        }
        let _ = end_of_admin.send(());
        if let Some(admin) = admin {
            let _ = admin.await;
        }
        if let Some(log) = &running.log {
            log.close();
        }
        running.teller.ended(&running.found, &running.guard)?;
        Ok(Exit::Done)
    }
}

impl Running {
    /// Reads settings again whenever that is asked for, until the end is.
    async fn until_the_end(&self, signals: &mut Signals) {
        while signals.next().await == Signal::Reload {
            match self.reload() {
                Ok(key) => {
                    self.reloads.done.fetch_add(1, Ordering::Relaxed);
                    // Whoever read the events has gone; the guard goes on.
                    let _ = self.teller.reloaded(&self.found, &self.guard, key);
                }
                Err(error) => {
                    self.reloads.failed.fetch_add(1, Ordering::Relaxed);
                    say(&format!("comity: read again, and nothing is changed: {error}"));
                }
            }
            if let Some(log) = &self.log {
                log.reopen();
            }
        }
    }

    /// All of it, or nothing.
    fn reload(&self) -> Result<Option<String>, Usage> {
        let settings: Settings = self.limits.settings()?;
        if let Some(certificates) = &self.certificates {
            certificates.reload().map_err(|error| Usage(format!("--tls-cert, --tls-key: {error}")))?;
        }
        let (key, trust) = (key_in_words(&settings.key), settings.key.trust.clone());
        self.guard.reload(settings).map_err(|error| Usage(error.to_string()))?;
        self.believed.set(trust);
        Ok(key)
    }
}

/// Lets this process open as many files as the system allows it: a request may hold a connection on either side.
pub(super) fn raise_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let limit = getrlimit(Resource::Nofile);
        // Where that is not allowed, as many as before are.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

fn url(address: SocketAddr, tls: bool) -> String {
    format!("{}://{address}", if tls { "https" } else { "http" })
}

fn of_the_operator() -> Bounds {
    let mut bounds = Bounds::default();
    bounds.connections = 64;
    bounds.ending = Duration::from_secs(1);
    bounds
}

/// How soon the end of the last tunnel is noticed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
