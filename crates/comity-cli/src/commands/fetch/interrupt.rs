//! Ctrl-C and SIGTERM: the first ends the run, the second the process.

use std::future::Future;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::sync::Notify;

use crate::exit::Exit;

/// Becomes ready at the first signal; a second one ends the process at once.
///
/// # Errors
/// When the system lets nobody listen to signals.
pub(crate) fn interrupted() -> Result<impl Future<Output = ()>> {
    let mut signals = Signals::new().context("cannot listen for Ctrl-C")?;
    let first = Arc::new(Notify::new());
    let told = Arc::clone(&first);
    tokio::spawn(async move {
        signals.next().await;
        told.notify_one();
        signals.next().await;
        std::process::exit(Exit::Interrupted.code().into());
    });
    Ok(async move { first.notified().await })
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
