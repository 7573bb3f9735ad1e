//! What can go wrong while keeping: always an act, a path and a cause.

use std::io;
use std::path::{Path, PathBuf};

/// An output could not be opened, written or read back.
///
/// The text names the act and the path; the cause (disk full, permission, …) is its
/// [`source`](std::error::Error::source), one level down.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} {}", path.display())]
pub struct KeepError {
    act: &'static str,
    path: PathBuf,
    #[source]
    cause: Cause,
}

impl KeepError {
    /// The file or directory concerned.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The disk, or this user's share of it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    /// The operating system does not let us.
    pub fn is_permission(&self) -> bool {
        matches!(self.io_kind(), Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem))
    }

    /// Whoever read our output is gone (a closed pipe): no fault of the disk.
    pub fn is_broken_pipe(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::BrokenPipe)
    }

    /// The output holds something already, and nobody said what to do with it.
    pub fn is_occupied(&self) -> bool {
        matches!(self.cause, Cause::Occupied)
    }

    /// Another running program writes the same output.
    pub fn is_in_use(&self) -> bool {
        matches!(self.cause, Cause::InUse)
    }

    /// The output of an earlier run is damaged elsewhere than at its end, so that cutting it would lose good records.
    pub fn is_damaged(&self) -> bool {
        matches!(self.cause, Cause::Damaged { .. })
    }

    pub(super) fn io(act: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::new(act, path, Cause::Io(cause))
    }

    pub(super) fn occupied(path: &Path) -> Self {
        Self::new("start", path, Cause::Occupied)
    }

    pub(super) fn in_use(path: &Path) -> Self {
        Self::new("open", path, Cause::InUse)
    }

    pub(super) fn damaged(path: &Path, at: u64) -> Self {
        Self::new("continue", path, Cause::Damaged { at })
    }

    pub(super) fn unsound(path: &Path) -> Self {
        Self::new("write", path, Cause::Unsound)
    }

    pub(super) fn not_a_url(path: &Path, url: &str) -> Self {
        Self::new("name a file in", path, Cause::NotAUrl(url.to_owned()))
    }

    fn new(act: &'static str, path: &Path, cause: Cause) -> Self {
        Self { act, path: path.to_owned(), cause }
    }

    fn io_kind(&self) -> Option<io::ErrorKind> {
        match &self.cause {
            Cause::Io(error) => Some(error.kind()),
            _ => None,
        }
    }
}

/// Adds the act and the path to an I/O error.
pub(super) trait Naming<T> {
    fn naming(self, act: &'static str, path: &Path) -> Result<T, KeepError>;
}

impl<T> Naming<T> for io::Result<T> {
    fn naming(self, act: &'static str, path: &Path) -> Result<T, KeepError> {
        self.map_err(|cause| KeepError::io(act, path, cause))
    }
}

#[derive(Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    Io(io::Error),
    #[error("it holds an earlier run: continue that, add to it, replace it, or name another file")]
    Occupied,
    #[error("another running program writes it")]
    InUse,
    #[error("it is damaged at byte {at}, and good records may follow: repair or move it first")]
    Damaged { at: u64 },
    #[error("an earlier write failed half-way and could not be taken back")]
    Unsound,
    #[error("`{0}` is not a URL")]
    NotAUrl(String),
}
