//! Why a piece of work with the file did not come to its end.

use std::io;

/// What stood in the way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// Somebody held the lock past the deadline.
    #[error("its lock was held for longer than {} ms", .0.as_millis())]
    Busy(core::time::Duration),
    /// The file is no longer the store: deleted, replaced or set aside.
    #[error("the file is gone")]
    Gone,
    /// The file is not what was written.
    #[error("{0}")]
    Damaged(String),
    /// It can never be used so.
    #[error("{0}")]
    Unusable(String),
    /// The kernel said no.
    #[error("{0}")]
    Io(#[from] io::Error),
}
