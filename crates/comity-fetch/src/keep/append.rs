//! A file that only grows, by whole pieces: a failed write is taken back, a torn end can be cut off.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::error::{KeepError, Naming};

/// What to do with an output that holds something already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// An error: nothing of the user's is lost by accident.
    Refuse,
    /// Start again, empty.
    Replace,
    /// Go on after it.
    Continue,
}

/// The open file, locked against other runs, and its length.
pub(super) struct Appender {
    file: File,
    path: PathBuf,
    len: u64,
    /// A pipe or a device can be neither read back nor cut.
    regular: bool,
    /// A torn piece is at the end and could not be taken back.
    unsound: bool,
}

impl Appender {
    pub(super) fn open(path: &Path, earlier: Earlier) -> Result<Self, KeepError> {
        let special = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(!special);
        let file = options.open(path).naming("open", path)?;
        let mut opened = Self { file, path: path.to_owned(), len: 0, regular: !special, unsound: false };
        if special {
            return Ok(opened);
        }
        lock(&opened.file, path)?;
        opened.len = opened.file.metadata().naming("look at", path)?.len();
        match earlier {
            Earlier::Refuse if opened.len > 0 => Err(KeepError::occupied(path)),
            Earlier::Replace if opened.len > 0 => opened.cut(0).map(|()| opened),
            _ => Ok(opened),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// From its first byte, for a scan. What is appended meanwhile goes to the end all the same.
    pub(super) fn reader(&self) -> Result<&File, KeepError> {
        (&self.file).seek(SeekFrom::Start(0)).naming("read", &self.path)?;
        Ok(&self.file)
    }

    /// The line that begins at `offset`, without its end.
    pub(super) fn line_at(&mut self, offset: u64) -> Result<Vec<u8>, KeepError> {
        self.file.seek(SeekFrom::Start(offset)).naming("read", &self.path)?;
        let mut line = Vec::new();
        let mut piece = [0; 2048];
        loop {
            let read = self.file.read(&mut piece).naming("read", &self.path)?;
            let piece = &piece[..read];
            match piece.iter().position(|&byte| byte == b'\n') {
                Some(end) => {
                    line.extend_from_slice(&piece[..end]);
                    return Ok(line);
                }
                None if read == 0 => return Ok(line),
                None => line.extend_from_slice(piece),
            }
        }
    }

    /// Drops what is after the first `len` bytes.
    pub(super) fn cut(&mut self, len: u64) -> Result<(), KeepError> {
        self.file.set_len(len).naming("shorten", &self.path)?;
        self.len = len;
        Ok(())
    }

    /// Adds `bytes` and then all of `rest`, or nothing. Where the file allows it, `bytes` is one system call.
    pub(super) fn append(&mut self, bytes: &[u8], rest: Option<&mut File>) -> Result<(), KeepError> {
        if self.unsound {
            return Err(KeepError::unsound(&self.path));
        }
        match self.add(bytes, rest) {
            Ok(added) => {
                self.len += added;
                Ok(())
            }
            Err(cause) => {
                self.unsound = !self.regular || self.file.set_len(self.len).is_err();
                Err(KeepError::io("write", &self.path, cause))
            }
        }
    }

    /// Survives a power cut from here on.
    pub(super) fn sync(&self) -> Result<(), KeepError> {
        if self.regular { self.file.sync_data().naming("write", &self.path) } else { Ok(()) }
    }

    fn add(&mut self, bytes: &[u8], rest: Option<&mut File>) -> io::Result<u64> {
        self.file.write_all(bytes)?;
        let mut added = bytes.len() as u64;
        if let Some(rest) = rest {
            rest.seek(SeekFrom::Start(0))?;
            added += io::copy(rest, &mut self.file)?;
        }
        Ok(added)
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        // At once, even while a child process that was just started still shares the file.
        let _ = self.file.unlock();
    }
}

/// Two runs writing one output would tear it. The kernel frees the lock when its holder dies; a file system without
/// locks is taken as it is.
pub(super) fn lock(file: &File, path: &Path) -> Result<(), KeepError> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(KeepError::in_use(path)),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_run_is_refused_replaced_or_continued_as_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "earlier\n").unwrap();
        assert!(Appender::open(&path, Earlier::Refuse).err().unwrap().is_occupied());
        let mut file = Appender::open(&path, Earlier::Continue).unwrap();
        file.append(b"later\n", None).unwrap();
        assert_eq!(file.line_at(8).unwrap(), b"later");
        file.append(b"last\n", None).unwrap();
        drop(file);
        assert_eq!(std::fs::read(&path).unwrap(), b"earlier\nlater\nlast\n");
        assert_eq!(Appender::open(&path, Earlier::Replace).unwrap().len(), 0);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
    }

    #[test]
    fn a_second_writer_is_told_that_the_file_is_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let _first = Appender::open(&path, Earlier::Refuse).unwrap();
        assert!(Appender::open(&path, Earlier::Replace).err().unwrap().is_in_use());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_named_with_its_path() {
        let mut full = Appender::open(Path::new("/dev/full"), Earlier::Refuse).unwrap();
        let error = full.append(b"line\n", None).unwrap_err();
        assert!(error.is_disk_full());
        assert_eq!(error.to_string(), "cannot write /dev/full");
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("No space left"));
        assert!(full.append(b"line\n", None).unwrap_err().to_string().contains("/dev/full"));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no/such/out");
        let error = Appender::open(&path, Earlier::Refuse).err().unwrap();
        assert!(error.to_string().starts_with("cannot open ") && error.path() == path);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_could_not_be_added_whole_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let mut file = Appender::open(&path, Earlier::Refuse).unwrap();
        file.append(b"whole\n", None).unwrap();
        // A directory opens, and cannot be read: the second half of the piece fails after the first was written.
        let mut unreadable = File::open(dir.path()).unwrap();
        assert!(file.append(b"torn", Some(&mut unreadable)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"whole\n");
        file.append(b"next\n", None).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole\nnext\n");
    }
}
