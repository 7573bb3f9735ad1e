//! A body on its way: in memory while it is small, then in a temporary file.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::{KeepError, Naming};

/// Bodies up to this many bytes stay in memory: a hundred fetches at once hold 25 MiB.
pub(super) const MEMORY_MAX: usize = 256 * 1024;

/// Where a body goes when it outgrows memory.
#[derive(Debug)]
pub(super) enum Room {
    /// Nobody keeps bodies.
    Nowhere,
    /// A file without a name in this directory: gone with us, however we end.
    Unnamed(PathBuf),
    /// This file, to be renamed into place later.
    Named(PathBuf),
}

#[derive(Debug)]
pub(super) struct Spool {
    room: Room,
    memory: Vec<u8>,
    file: Option<(File, Option<Temporary>)>,
}

impl Spool {
    pub(super) fn new(room: Room) -> Self {
        Self { room, memory: Vec::new(), file: None }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), KeepError> {
        if let Some((file, _)) = &mut self.file {
            return file.write_all(bytes).naming("write", self.room.path());
        }
        if matches!(self.room, Room::Nowhere) {
            return Ok(());
        }
        if self.memory.len() + bytes.len() <= MEMORY_MAX {
            self.memory.extend_from_slice(bytes);
            return Ok(());
        }
        let (mut file, temporary) = match &self.room {
            Room::Named(path) => {
                let temporary = Temporary::create(path)?;
                (temporary.1, Some(temporary.0))
            }
            room => (tempfile::tempfile_in(room.path()).naming("make a temporary file in", room.path())?, None),
        };
        file.write_all(&self.memory).and_then(|()| file.write_all(bytes)).naming("write", self.room.path())?;
        self.memory = Vec::new();
        self.file = Some((file, temporary));
        Ok(())
    }

    /// Whether it outgrew memory.
    pub(super) fn is_in_file(&self) -> bool {
        self.file.is_some()
    }

    /// All of it, from the start.
    pub(super) fn reader(&mut self) -> io::Result<Box<dyn Read + '_>> {
        match &mut self.file {
            Some((file, _)) => {
                file.seek(SeekFrom::Start(0))?;
                Ok(Box::new(file))
            }
            None => Ok(Box::new(self.memory.as_slice())),
        }
    }

    /// Gives the whole body the name `path`, at once.
    pub(super) fn persist(&mut self, path: &Path) -> Result<(), KeepError> {
        match (&mut self.file, &self.room) {
            (Some((_, temporary @ Some(_))), _) => temporary.take().map_or(Ok(()), |temporary| temporary.persist(path)),
            (None, Room::Named(name)) => write_and_rename(name, path, &self.memory),
            _ => Ok(()),
        }
    }
}

impl Room {
    fn path(&self) -> &Path {
        match self {
            Self::Nowhere => Path::new(""),
            Self::Unnamed(path) | Self::Named(path) => path,
        }
    }
}

/// A file that is removed unless it is given its name.
#[derive(Debug)]
pub(super) struct Temporary {
    path: Option<PathBuf>,
}

impl Temporary {
    pub(super) fn create(path: &Path) -> Result<(Self, File), KeepError> {
        let file = File::options().read(true).write(true).create_new(true).open(path).naming("create", path)?;
        Ok((Self { path: Some(path.to_owned()) }, file))
    }

    /// Renames it, making the directories above `to` where they are missing.
    pub(super) fn persist(mut self, to: &Path) -> Result<(), KeepError> {
        let Some(from) = &self.path else { return Ok(()) };
        let renamed = match fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = to.parent().unwrap_or(to);
                fs::create_dir_all(above).naming("create the directory", above)?;
                fs::rename(from, to)
            }
            renamed => renamed,
        };
        renamed.naming("write", to)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed now is removed when the directory is opened next.
            let _ = fs::remove_file(path);
        }
    }
}

/// `bytes` under the name `to`, by way of `temporary` in the same file system.
pub(super) fn write_and_rename(temporary: &Path, to: &Path, bytes: &[u8]) -> Result<(), KeepError> {
    let (guard, mut file) = Temporary::create(temporary)?;
    file.write_all(bytes).naming("write", to)?;
    drop(file);
    guard.persist(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(spool: &mut Spool) -> Vec<u8> {
        let mut bytes = Vec::new();
        spool.reader().unwrap().read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn small_stays_in_memory_and_large_goes_to_a_file_in_any_room() {
        let dir = tempfile::tempdir().unwrap();
        for room in [Room::Named(dir.path().join("0")), Room::Unnamed(dir.path().to_owned())] {
            let mut spool = Spool::new(room);
            spool.write(&[1; MEMORY_MAX]).unwrap();
            assert!(!spool.is_in_file());
            spool.write(&[2; 3]).unwrap();
            spool.write(&[3; 4]).unwrap();
            assert!(spool.is_in_file());
            let bytes = all(&mut spool);
            assert_eq!(bytes.len(), MEMORY_MAX + 7);
            assert_eq!(bytes[MEMORY_MAX - 1..], [1, 2, 2, 2, 3, 3, 3, 3]);
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "what was not persisted is gone");
    }

    #[test]
    fn persisted_under_its_name_with_directories_made() {
        let dir = tempfile::tempdir().unwrap();
        for len in [0, 10, MEMORY_MAX + 1] {
            let mut spool = Spool::new(Room::Named(dir.path().join("part")));
            spool.write(&vec![7; len]).unwrap();
            let path = dir.path().join(format!("deep/er{len}/file"));
            spool.persist(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), vec![7; len]);
            assert_eq!(all(&mut spool).len(), len, "still readable for the next output");
        }
        assert!(!dir.path().join("part").exists());
    }
}
