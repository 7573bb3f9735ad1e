//! Where the store is, and whether a store can be there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use comity_store::StoreError;

use crate::file::lock_within;
use crate::trouble::Trouble;

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
        if members.is_dir() && is_trusted(members.uid(), directory.uid()) {
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

/// Opens a regular file of this name: no link to another place, no pipe that is waited at.
pub(crate) fn open_itself(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
            return io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link");
        }
        error
    })?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
    }
    Ok(file)
}

/// Where a path leads, read once. That it is a link itself, too, is a person's choice, if that person may choose for us.
pub(crate) fn resolved(path: &Path) -> Result<PathBuf, Trouble> {
    let directory = directory_of(path);
    let real = directory.canonicalize().map_err(|error| cannot("find", directory, &error))?;
    let Some(name) = path.file_name() else {
        return Err(Trouble::Unusable(format!("{} is no file's name: give another path", path.display())));
    };
    let itself = real.join(name);
    match itself.symlink_metadata() {
        Ok(known) if known.is_symlink() => {
            if !is_trusted(known.uid(), real.metadata()?.uid()) {
                return Err(Trouble::Unusable(format!(
                    "{} is another user's symbolic link: give another path",
                    path.display()
                )));
            }
            let target = itself.canonicalize().map_err(|error| cannot("follow the link", path, &error))?;
            Ok(target)
        }
        _ => Ok(itself),
    }
}

/// Whether this process goes by what its owner made: its own user, root, and whose the store's directory is.
fn is_trusted(owner: u32, directory: u32) -> bool {
    [rustix::process::geteuid().as_raw(), 0, directory].contains(&owner)
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
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

    /// Whatever somebody laid in wait there.
    fn laid(name: &str, lay: impl FnOnce(&Path)) -> (tempfile::TempDir, String) {
        let there = tempfile::tempdir().unwrap();
        std::fs::write(there.path().join("precious"), PRECIOUS).unwrap();
        std::fs::create_dir(there.path().join("pace.members")).unwrap();
        lay(&there.path().join(name));
        let opened = crate::Machine::open(there.path().join("pace"), crate::Settings::default());
        let error = opened.map(drop).unwrap_err().to_string();
        assert_eq!(std::fs::read(there.path().join("precious")).unwrap(), PRECIOUS, "{name}");
        (there, error)
    }

    const PRECIOUS: &[u8] = b"somebody's key";

    #[test]
    fn no_file_of_a_store_is_a_link_to_somebodys_file() {
        for name in ["pace.members/0", "pace.lock"] {
            let (there, error) = laid(name, |path| {
                std::os::unix::fs::symlink(
                    path.ancestors().nth(name.split('/').count()).unwrap().join("precious"),
                    path,
                )
                .unwrap();
            });
            let path = there.path().join(name);
            assert!(error.contains("symbolic link") && error.contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn nobody_waits_at_a_pipe() {
        let (_there, error) = laid("pace.members/0", |path| {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        });
        assert!(error.contains("it is no file"), "{error}");
    }

    #[test]
    fn a_members_directory_that_leads_elsewhere_is_refused() {
        let there = tempfile::tempdir().unwrap();
        std::fs::create_dir(there.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", there.path().join("pace.members")).unwrap();
        let error = Place::prepare(&there.path().join("pace")).unwrap_err().to_string();
        assert!(error.contains("pace.members is no directory"), "{error}");
        assert_eq!(there.path().join("elsewhere").read_dir().unwrap().count(), 0);
    }

    #[test]
    fn what_another_user_made_is_trusted_only_in_that_users_directory() {
        let me = rustix::process::geteuid().as_raw();
        assert!(is_trusted(me, 7) && is_trusted(0, 7) && is_trusted(7, 7));
        assert!(!is_trusted(me + 1, me + 2));
    }

    #[test]
    fn a_path_through_links_of_this_user_leads_to_one_store() {
        let there = tempfile::tempdir().unwrap();
        std::fs::create_dir(there.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", there.path().join("directory")).unwrap();
        std::os::unix::fs::symlink("real/pace", there.path().join("link")).unwrap();
        let real = there.path().canonicalize().unwrap().join("real/pace");
        let _open = crate::Machine::open(&real, crate::Settings::default()).unwrap();
        for path in ["directory/pace", "link"] {
            let path = there.path().join(path);
            assert_eq!(Place::prepare(&path).unwrap().path, real);
            crate::Machine::look(&path).unwrap();
        }
    }
}
