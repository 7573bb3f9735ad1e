//! Where the store is, and whether a store can be there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comity_store::StoreError;

use crate::file::lock_within;
use crate::trouble::Trouble;
use crate::trust::{directory_of, is_trusted, open_itself, resolved};

/// Where this user's processes share their pace unless told otherwise: `$XDG_STATE_HOME/comity/pace`, else
/// `~/.local/state/comity/pace`.
///
/// # Errors
/// When neither `XDG_STATE_HOME` nor `HOME` is set to an absolute path.
pub fn default_path() -> Result<PathBuf, StoreError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|state| state.join("comity/pace"))
        .ok_or_else(|| {
            StoreError::Unusable(
                "neither XDG_STATE_HOME nor HOME is set to an absolute path: give the path of the shared pace"
                    .to_owned(),
            )
        })
}

/// The store's file, and what stands beside it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The file.
    pub(crate) path: PathBuf,
    /// A file for each member, which it holds locked while it lives.
    pub(crate) members: PathBuf,
    /// Locked while a store is made or set aside.
    guard: PathBuf,
    /// Permissions of new files, before the umask.
    pub(crate) mode: u32,
}

impl Place {
    /// Makes sure that a store can be there, and makes the directories.
    pub(crate) fn prepare(path: &Path) -> Result<Self, Trouble> {
        if path.is_dir() {
            return Err(Trouble::Unusable(format!(
                "{} is a directory: give the path of a file in it, such as {}",
                path.display(),
                path.join("pace").display()
            )));
        }
        let directory = directory_of(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|error| cannot("make the directory", directory, &error))?;
        let mut place = Self::of(&resolved(path)?);
        let directory = place.directory().to_owned();
        refuse_networks(&directory, path)?;
        place.mode = mode_in(&directory)?;
        place.make_members()?;
        place.probe_locks()?;
        Ok(place)
    }

    /// The names alone.
    pub(crate) fn of(path: &Path) -> Self {
        let beside = |end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        Self { path: path.to_owned(), members: beside(".members"), guard: beside(".lock"), mode: 0o600 }
    }

    pub(crate) fn make_members(&self) -> Result<(), Trouble> {
        let execute = (self.mode & 0o444) >> 2;
        DirBuilder::new()
            .recursive(true)
            .mode(self.mode | execute)
            .create(&self.members)
            .map_err(|error| cannot("make the directory", &self.members, &error))?;
        self.trust_members()
    }

    /// In a directory that somebody else made, under a name that was foreseen, lie in wait what files they like.
    fn trust_members(&self) -> Result<(), Trouble> {
        let members = self.members.symlink_metadata()?;
        let directory = self.directory().metadata()?;
        if members.is_dir() && is_trusted(members.uid(), &directory) {
            return Ok(());
        }
        Err(Trouble::Unusable(format!(
            "{} is {}: move it away, or give another path",
            self.members.display(),
            if members.is_dir() { "another user's" } else { "no directory" }
        )))
    }

    /// Opens the guard's file, which is locked while a store is made or set aside.
    pub(crate) fn guard(&self) -> Result<File, Trouble> {
        self.open(&self.guard).map_err(|error| cannot("open", &self.guard, &error))
    }

    /// A file with this place's permissions, made where there is none.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        open_itself(OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(self.mode), path)
    }

    /// The name under which a file that is no store any more is set aside.
    pub(crate) fn aside(&self) -> PathBuf {
        let named = |n: u32| {
            let mut name = self.path.as_os_str().to_owned();
            name.push(format!(".damaged-{n}"));
            PathBuf::from(name)
        };
        (1..u32::MAX).map(named).find(|path| !path.exists()).unwrap_or_else(|| named(0))
    }

    fn directory(&self) -> &Path {
        directory_of(&self.path)
    }

    /// Locks that do not exclude would make every process believe it is alone.
    fn probe_locks(&self) -> Result<(), Trouble> {
        let (one, other) = (self.guard()?, self.guard()?);
        let held = lock_within(&one, PROBE_DEADLINE);
        let excludes = match held {
            // Somebody else holds it, against us.
            Err(Trouble::Busy(_)) => true,
            Err(error) => return Err(error),
            Ok(_) => matches!(other.try_lock(), Err(std::fs::TryLockError::WouldBlock)),
        };
        if excludes {
            return Ok(());
        }
        Err(Trouble::Unusable(format!(
            "locks on {} do not exclude each other there: give a path on a local file system",
            self.path.display()
        )))
    }
}

/// Why something about a path does not go, and what to do.
pub(crate) fn cannot(what: &str, path: &Path, error: &io::Error) -> Trouble {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "give a path that this user may write, or run as the user who made it",
        io::ErrorKind::ReadOnlyFilesystem => "give a path on a file system that can be written",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room there, or give another path",
        _ => "give another path",
    };
    Trouble::Unusable(format!("cannot {what} {}: {error}; {hint}", path.display()))
}

/// New files are their user's alone, unless the directory is one that others may write: then whoever may write there may
/// use the store, as far as the umask lets them.
fn mode_in(directory: &Path) -> Result<u32, Trouble> {
    let mode = directory.metadata()?.permissions().mode();
    Ok(match mode & 0o022 {
        0 => 0o600,
        0o020 => 0o660,
        _ => 0o666,
    })
}

/// The kernel's locks on a file of another machine are another thing on each file system, and on some nothing.
#[cfg(target_os = "linux")]
fn refuse_networks(directory: &Path, path: &Path) -> Result<(), Trouble> {
    let known = rustix::fs::statfs(directory).map_err(io::Error::from)?;
    let kind = known.f_type as u32;
    match NETWORKS.iter().find(|(magic, _)| *magic == kind) {
        None => Ok(()),
        Some((_, name)) => Err(Trouble::Unusable(format!(
            "{} is on a network file system ({name}), whose locks do not hold between machines: share the pace of several \
             machines with --shared redis://…, or give a path on a local file system",
            path.display()
        ))),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_networks(_directory: &Path, _path: &Path) -> Result<(), Trouble> {
    Ok(())
}

const PROBE_DEADLINE: Duration = Duration::from_millis(50);

/// Magic numbers of statfs(2).
#[cfg(target_os = "linux")]
const NETWORKS: [(u32, &str); 11] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x564c, "ncp"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_no_file() {
        let there = tempfile::tempdir().unwrap();
        let error = Place::prepare(there.path()).unwrap_err().to_string();
        assert!(error.contains("is a directory") && error.contains("/pace"), "{error}");
    }

    #[test]
    fn missing_directories_are_made_for_their_user_alone() {
        let there = tempfile::tempdir().unwrap();
        let path = there.path().join("a/b/pace");
        let place = Place::prepare(&path).unwrap();
        assert_eq!(place.mode, 0o600);
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&there.path().join("a")), mode(&place.members)), (0o700, 0o700));
    }

    #[test]
    fn a_directory_that_others_may_write_is_shared_with_them() {
        let there = tempfile::tempdir().unwrap();
        std::fs::set_permissions(there.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
        assert_eq!(Place::prepare(&there.path().join("pace")).unwrap().mode, 0o660);
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let there = tempfile::tempdir().unwrap();
        std::fs::write(there.path().join("a"), "").unwrap();
        let error = Place::prepare(&there.path().join("a/pace")).unwrap_err().to_string();
        assert!(error.contains("/a") && error.contains("give another path"), "{error}");
    }
}
