//! Flags about who shares the pace.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use comity::{Builder, OnFailure, Pacer};
use comity_machine::Machine;
use comity_redis::Redis;
use comity_store::{Readable, StoreError};

use crate::exit::Usage;

/// Where the pace is shared.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sharing")]
pub(crate) struct PlaceFlags {
    /// With whom the pace is shared: machine, none, a file, redis://… or rediss://… [default: machine]
    ///
    /// machine is every comity of this user on this machine. A file of your choice (with a slash in it) is shared by all
    /// who name it: several users, several containers. redis://[USER:PASSWORD@]HOST[:PORT][/DB] is one pace for many
    /// machines, rediss:// the same over TLS. none paces this process alone: six of them ask six times as often. Without
    /// this flag the environment's COMITY_SHARED says it, else `shared` in the configuration; a password is safest there.
    // Read by hand: a wrong address may hold a password, and clap would print it.
    #[arg(long, value_name = "WHERE")]
    shared: Option<String>,
}

/// With whom the pace is shared, and what holds without them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sharing")]
pub(crate) struct SharedFlags {
    #[command(flatten)]
    place: PlaceFlags,

    /// While the shared store is out of reach: share, pause or local [default: share]
    ///
    /// share goes on with this process's part of every limit, for as many as last shared it; pause starts nothing until
    /// it is back; local goes on as if alone, so that hosts may be asked more often than was promised.
    #[arg(long, value_name = "WHAT", value_parser = on_failure)]
    shared_failure: Option<OnFailure>,
}

/// Where a pace is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Nowhere: this process alone.
    None,
    /// Among this user's processes of this machine.
    Machine,
    /// In this file.
    File(PathBuf),
    /// On this server.
    Redis(String),
}

impl PlaceFlags {
    /// Where the pace is shared, from the flag, else the environment's `COMITY_SHARED`, else the configuration.
    pub(crate) fn place(&self, environment: Option<OsString>, configured: Option<&str>) -> Result<Place> {
        if let Some(named) = &self.shared {
            return Ok(place(named).map_err(|error| Usage(format!("--shared: {error}")))?);
        }
        if let Some(named) = environment.filter(|named| !named.is_empty()) {
            let named = named.to_str().ok_or_else(|| Usage("COMITY_SHARED is no text".to_owned()))?;
            return Ok(place(named).map_err(|error| Usage(format!("COMITY_SHARED: {error}")))?);
        }
        match configured {
            Some(named) => Ok(place(named).map_err(|error| Usage(format!("`shared` in the configuration: {error}")))?),
            None => Ok(Place::Machine),
        }
    }

    /// The store there, to look at.
    pub(crate) fn look(place: &Place) -> Result<Box<dyn Readable>> {
        Ok(match place {
            Place::None => {
                return Err(Usage("nothing is shared with `none`: there is nothing to look at".into()).into());
            }
            Place::Machine | Place::File(_) => Box::new(Machine::look(file(place)?).map_err(wrong)?),
            Place::Redis(url) => Box::new(Redis::look(url, &comity_redis::Settings::default().prefix).map_err(wrong)?),
        })
    }
}

impl SharedFlags {
    /// A pacer that shares its pace as the flags, `COMITY_SHARED` or the configuration say.
    pub(crate) fn pacer(&self, configured: Option<&str>, builder: &Builder) -> Result<Pacer> {
        let place = &self.place.place(std::env::var_os("COMITY_SHARED"), configured)?;
        let on_failure = self.shared_failure.unwrap_or_default();
        Ok(match place {
            Place::None => builder.local(),
            Place::Machine | Place::File(_) => {
                let settings = comity_machine::Settings { on_failure, ..comity_machine::Settings::default() };
                builder.shared(Machine::open(file(place)?, settings).map_err(wrong)?)
            }
            Place::Redis(url) => {
                let settings = comity_redis::Settings { on_failure, ..comity_redis::Settings::default() };
                builder.shared(Redis::open(url, settings).map_err(wrong)?)
            }
        })
    }
}

/// The file of a place on this machine.
pub(crate) fn file(place: &Place) -> Result<PathBuf> {
    match place {
        Place::File(path) => Ok(path.clone()),
        _ => comity_machine::default_path().map_err(wrong),
    }
}

/// What was asked for is wrong, or the store does not answer: both say what can be done instead.
pub(crate) fn wrong(error: StoreError) -> anyhow::Error {
    match error {
        StoreError::Unusable(text) => Usage(format!("the pace cannot be shared there: {text}")).into(),
        StoreError::OutOfReach(text) => anyhow::anyhow!("the shared store does not answer: {text}"),
    }
}

/// Reads a place; what is said of a wrong one holds no password.
pub(crate) fn place(text: &str) -> Result<Place, String> {
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    match (text, scheme.as_deref()) {
        ("none", _) => Ok(Place::None),
        ("machine", _) => Ok(Place::Machine),
        (_, Some(scheme)) if SERVERS.contains(&scheme) => {
            Ok(Place::Redis(format!("{scheme}{}", &text[scheme.len()..])))
        }
        (_, Some(scheme)) => {
            Err(format!("`{scheme}://` is no store; allowed are redis:// and rediss://, a file, machine and none"))
        }
        // A password would become the name of a file.
        _ if text.contains('@')
            || SERVERS.iter().any(|scheme| text.to_ascii_lowercase().starts_with(&format!("{scheme}:"))) =>
        {
            Err("an address of a server begins with redis:// or rediss://, and the name of a file has no `@` in it"
                .to_owned())
        }
        _ if text.contains(['/', std::path::MAIN_SEPARATOR]) => Ok(Place::File(text.into())),
        _ => Err(format!(
            "`{text}` is no place to share; allowed are machine, none, a file with a slash in it (./{text}), redis:// and rediss://"
        )),
    }
}

/// Schemes of the addresses of servers.
const SERVERS: [&str; 6] = ["redis", "rediss", "valkey", "valkeys", "redis+unix", "unix"];

fn on_failure(text: &str) -> Result<OnFailure, String> {
    [OnFailure::Share, OnFailure::Pause, OnFailure::Local]
        .into_iter()
        .find(|what| what.name() == text)
        .ok_or_else(|| format!("`{text}` is not known; allowed are share, pause and local"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_its_spelling() {
        assert_eq!(place("none"), Ok(Place::None));
        assert_eq!(place("machine"), Ok(Place::Machine));
        assert_eq!(place("./pace"), Ok(Place::File("./pace".into())));
        for (text, url) in
            [("redis://h/1", "redis://h/1"), ("REDISS://u:p@h", "rediss://u:p@h"), ("valkey://h", "valkey://h")]
        {
            assert_eq!(place(text), Ok(Place::Redis(url.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_refused_without_its_password() {
        for text in ["redis:/u:PW@h", "redis//:PW@h", "reids://:PW@h", ":PW@127.0.0.1:79", "redis:PW/x", "pace"] {
            let error = place(text).unwrap_err();
            assert!(!error.contains("PW") && error.contains("redis://"), "{text}: {error}");
        }
    }

    #[test]
    fn the_flag_comes_before_the_environment_and_that_before_the_configuration() {
        let flags = |shared: Option<&str>| PlaceFlags { shared: shared.map(str::to_owned) };
        let environment = || Some(OsString::from("./env"));
        let file = |name: &str| Place::File(name.into());
        assert_eq!(flags(Some("./flag")).place(environment(), Some("./config")).unwrap(), file("./flag"));
        assert_eq!(flags(None).place(environment(), Some("./config")).unwrap(), file("./env"));
        assert_eq!(flags(None).place(Some(OsString::new()), Some("./config")).unwrap(), file("./config"));
        assert_eq!(flags(None).place(None, None).unwrap(), Place::Machine);
    }
}
