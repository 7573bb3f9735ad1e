//! Opening a store, making one, and setting one aside that is none any more (X9).

use std::collections::hash_map::RandomState;
use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{self, Boot};
use crate::file::{PaceFile, lock_within};
use crate::header::{Found, Header, Holds};
use crate::place::{Place, cannot};
use crate::roster::Roster;
use crate::trouble::Trouble;
use crate::trust::open_itself;

/// An open store.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) file: Arc<PaceFile>,
    pub(crate) generation: u64,
    pub(crate) base: u64,
}

/// What the one who opens knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    /// What is looked for; made with so many pages where there is none.
    pub(crate) holds: Holds,
    /// It had the store open, and lost it.
    pub(crate) lost: bool,
    /// The base of its clock, where it has one.
    pub(crate) base: Option<u64>,
    pub(crate) boot: Boot,
    pub(crate) deadline: Duration,
    pub(crate) lease: Duration,
}

/// Opens the store, or makes one where there is none or what is there is none any more. One process at a time does so.
pub(crate) fn open(place: &Place, roster: &Roster, mut opening: Opening) -> Result<Opened, Trouble> {
    let guard = place.guard()?;
    let _guarded = lock_within(&guard, opening.deadline)?;
    for _ in 0..ATTEMPTS {
        let file = match open_itself(OpenOptions::new().read(true).write(true), &place.path) {
            Ok(file) => Arc::new(PaceFile::new(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return make(place, roster, opening),
            Err(error) => return Err(cannot("open", &place.path, &error)),
        };
        let _locked = file.lock(opening.deadline)?;
        let why = match Header::read(&file)? {
            Found::Header(header) if !header.holds.is_like(opening.holds) => {
                return Err(Trouble::Unusable(format!(
                    "{} holds {}: give another path",
                    place.path.display(),
                    header.holds.name()
                )));
            }
            Found::Header(header) if header.retired => "it was set aside before".to_owned(),
            Found::Header(header) => match adopt(&file, header, opening) {
                Ok((generation, base)) => return Ok(Opened { file: Arc::clone(&file), generation, base }),
                Err(Trouble::Damaged(why)) => why,
                Err(error) => return Err(error),
            },
            Found::OtherVersion(version) if roster.has_others() => {
                return Err(Trouble::Unusable(format!(
                    "{} is in use by another version of this program (format {version}): stop that one, or give another path",
                    place.path.display()
                )));
            }
            Found::OtherVersion(version) => format!("it has format {version}"),
            Found::Foreign if !opening.lost && is_somebodys(&file, opening.holds)? => {
                return Err(Trouble::Unusable(format!(
                    "{} is no shared pace but another file: move it away, or give another path",
                    place.path.display()
                )));
            }
            Found::Foreign => "its beginning is not what was written".to_owned(),
            Found::Damaged => "its header is damaged".to_owned(),
        };
        let empty = file.len()? == 0;
        set_aside(place, &file, &why)?;
        opening.lost |= !empty;
    }
    Err(Trouble::Damaged("another process keeps replacing it".to_owned()))
}

/// Takes a whole file into use; after a boot its clock is set to go on.
fn adopt(file: &PaceFile, mut header: Header, opening: Opening) -> Result<(u64, u64), Trouble> {
    let Opening { boot, lease, .. } = opening;
    if file.len()? < header.least_length() {
        return Err(Trouble::Damaged("it is shorter than it should be".to_owned()));
    }
    if header.boot.id == boot.id && header.boot.namespace != boot.namespace {
        return Err(Trouble::Unusable(
            "the processes that share it run in another time namespace, whose clock is another: give another path"
                .to_owned(),
        ));
    }
    let since_boot = clock::since_boot();
    if header.boot != boot || header.is_of_an_earlier_boot(since_boot, lease) {
        header.after_boot(boot, since_boot, clock::wall());
        header.write(file)?;
    }
    Ok((header.generation, header.base))
}

/// Makes a new file under another name and then gives it its own, so that nobody sees a part of one.
fn make(place: &Place, roster: &Roster, opening: Opening) -> Result<Opened, Trouble> {
    sweep(place);
    let after_loss = opening.lost || roster.has_others();
    let base = opening.base.or_else(|| roster.base());
    let generation = random().max(1);
    let header =
        Header::new(opening.holds, generation, after_loss, base, opening.boot, clock::since_boot(), clock::wall());
    let mut name = place.path.as_os_str().to_owned();
    name.push(format!(".new-{generation:016x}"));
    let made = std::path::PathBuf::from(name);
    let fill = |file: File| -> Result<PaceFile, Trouble> {
        let file = PaceFile::new(file)?;
        file.set_len(header.least_length())?;
        header.write(&file)?;
        std::fs::rename(&made, &place.path).map_err(|error| cannot("make", &place.path, &error))?;
        Ok(file)
    };
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(place.mode).open(&made);
    let filled = file.map_err(|error| cannot("make", &place.path, &error)).and_then(fill);
    match filled {
        Ok(file) => Ok(Opened { file: Arc::new(file), generation, base: header.base }),
        Err(error) => {
            drop(std::fs::remove_file(&made));
            Err(error)
        }
    }
}

/// Whoever has it open still sees that it is retired, and looks for its successor.
fn set_aside(place: &Place, file: &PaceFile, why: &str) -> Result<(), Trouble> {
    if let Found::Header(header) = Header::read(file)?
        && !header.retired
    {
        Header { retired: true, ..header }.write(file)?;
    }
    let aside = place.aside();
    std::fs::rename(&place.path, &aside).map_err(|error| cannot("set aside", &place.path, &error))?;
    tracing::warn!(
        "the shared pace at {} cannot be used ({why}): it was set aside as {}, and a new one begins with every burst spent",
        place.path.display(),
        aside.display()
    );
    Ok(())
}

/// Too short to have been a store, and not empty: a file of somebody's, not a store that was overwritten.
fn is_somebodys(file: &PaceFile, holds: Holds) -> Result<bool, Trouble> {
    Ok((1..holds.least_length(0)).contains(&file.len()?))
}

/// What somebody left who died while making a file.
fn sweep(place: &Place) {
    let Some(directory) = place.path.parent().and_then(|parent| parent.read_dir().ok()) else { return };
    let Some(name) = place.path.file_name() else { return };
    let unfinished = format!("{}.new-", name.to_string_lossy());
    for entry in directory.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&unfinished)) {
        if let Err(error) = std::fs::remove_file(entry.path()) {
            tracing::debug!("an unfinished file stays: {error}");
        }
    }
}

/// A number nobody else has.
fn random() -> u64 {
    RandomState::new().build_hasher().finish() ^ clock::wall()
}

const ATTEMPTS: u32 = 4;
