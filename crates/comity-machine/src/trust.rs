//! Whose files this process opens: in a directory that others may write, under names that can be foreseen, lies what they
//! like.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::place::cannot;
use crate::trouble::Trouble;

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
            if !is_trusted(known.uid(), &real.metadata()?) {
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

/// Whether this process goes by what this owner made in a directory: its own user, root, and whose the directory is; and
/// whoever may write there by the group that its owner chose. Where everybody may write nobody was chosen.
pub(crate) fn is_trusted(owner: u32, directory: &Metadata) -> bool {
    let mine = rustix::process::geteuid().as_raw();
    [mine, 0, directory.uid()].contains(&owner) || directory.mode() & 0o022 == 0o020
}

/// The directory of a path.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Place;

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
        use std::os::unix::fs::PermissionsExt as _;
        let there = tempfile::tempdir().unwrap();
        let with = |mode| {
            std::fs::set_permissions(there.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            there.path().metadata().unwrap()
        };
        let me = rustix::process::geteuid().as_raw();
        for mode in [0o700, 0o1777, 0o777] {
            assert!(is_trusted(me, &with(mode)) && is_trusted(0, &with(mode)));
            assert!(!is_trusted(me + 1, &with(mode)), "{mode:o}");
        }
        assert!(is_trusted(me + 1, &with(0o770)), "their group shares it");
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
