//! Ctrl-C, SIGTERM and SIGHUP (a closed terminal): the first ends the run, the second the process.

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
    /// Nothing where a closed terminal is not to end us.
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // Listening to a signal takes it from `nohup`, which has us ignore it.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let hangup = (!ignores_hangup(&status)).then(|| signal(SignalKind::hangup())).transpose()?;
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())?, hangup })
    }

    async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Whether SIGHUP is ignored, by what Linux says of this process. Elsewhere nobody can say: there it ends the process or
/// is ignored, as it was before.
#[cfg(unix)]
fn ignores_hangup(status: &str) -> bool {
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_none_or(|set| set & 1 != 0)
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_has_us_ignore_stays_ignored() {
        assert!(ignores_hangup("Name:\tcomity\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000000\n"));
        assert!(!ignores_hangup("SigIgn:\t0000000000001000\n"));
        assert!(ignores_hangup(""), "where nobody can say, it stays as it is");
    }
}
