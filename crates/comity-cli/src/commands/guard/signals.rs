//! What the system asks of a server: end (Ctrl-C, SIGTERM), or read the settings again (SIGHUP).

/// A wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    End,
    Reload,
}

/// Listens from its making on.
pub(super) struct Signals(platform::Signals);

impl Signals {
    /// # Errors
    /// When the system lets nobody listen.
    pub(super) fn new() -> std::io::Result<Self> {
        platform::Signals::new().map(Self)
    }

    /// The next one.
    pub(super) async fn next(&mut self) -> Signal {
        self.0.next().await
    }
}

#[cfg(unix)]
mod platform {
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    use super::Signal;

    pub(super) struct Signals {
        interrupt: Stream,
        terminate: Stream,
        hangup: Stream,
    }

    impl Signals {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
            })
        }

        pub(super) async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.interrupt.recv() => Signal::End,
                _ = self.terminate.recv() => Signal::End,
                _ = self.hangup.recv() => Signal::Reload,
            }
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use super::Signal;

    pub(super) struct Signals;

    impl Signals {
        pub(super) fn new() -> std::io::Result<Self> {
            Ok(Self)
        }

        pub(super) async fn next(&mut self) -> Signal {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            Signal::End
        }
    }
}
