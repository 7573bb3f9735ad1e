//! Flags about who shares the limits.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use comity_guard::{Guard, Settings};
use comity_machine::{BucketSettings, MachineBuckets};
use comity_store::guard::Buckets;

use crate::exit::Usage;
use crate::flags::shared::{Place, file, place, wrong};

/// With whom the limits are shared.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Sharing")]
pub(crate) struct GuardSharedFlags {
    /// With whom the limits are shared: none, machine, a file, redis://… or rediss://… [default: none]
    ///
    /// All guards that share are one: a client has one bucket under each limit, by the limit's name, whichever guard it
    /// asks. machine is every guard of this user on this machine that says so; a file of your choice (with a slash in it)
    /// all who name it. So guards of different servers share different files. Places in flight are each guard's own.
    // Read by hand: a wrong address may hold a password, and clap would print it.
    #[arg(long, value_name = "WHERE")]
    shared: Option<String>,
}

impl GuardSharedFlags {
    /// Where they are shared.
    ///
    /// # Errors
    /// It is no place to share.
    pub(crate) fn place(&self) -> Result<Place, Usage> {
        let named = self.shared.as_deref().unwrap_or("none");
        place(named).map_err(|error| Usage(format!("--shared: {error}")))
    }
}

/// A guard with these settings, whose limits are shared there.
///
/// # Errors
/// The settings cannot be, or nothing can be shared there.
pub(crate) fn guard(settings: Settings, place: &Place) -> Result<Guard> {
    let buckets: Arc<dyn Buckets> = match place {
        Place::None => return Ok(Guard::new(settings).map_err(|error| Usage(error.to_string()))?),
        Place::Machine | Place::File(_) => {
            Arc::new(MachineBuckets::open(file(place)?, BucketSettings::default()).map_err(wrong)?)
        }
        Place::Redis(_) => {
            return Err(
                Usage("--shared: guards share on one machine: allowed are none, machine and a file".into()).into()
            );
        }
    };
    Ok(Guard::over(settings, buckets).map_err(|error| Usage(error.to_string()))?)
}

/// Where they are shared, in words; nothing where they are not.
pub(crate) fn in_words(place: &Place) -> Option<String> {
    match place {
        Place::None => None,
        Place::Machine => Some("shared with every guard of this user on this machine that says so".to_owned()),
        Place::File(path) => Some(format!("shared with every guard that names {}", path.display())),
        // Its address may hold a password.
        Place::Redis(_) => Some("shared with every guard that names the same server".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::parse;

    #[test]
    fn limits_are_shared_only_where_that_is_said() {
        let place = |words: &[&str]| parse::<GuardSharedFlags>(words).unwrap().place().map_err(|usage| usage.0);
        assert_eq!(place(&[]), Ok(Place::None));
        assert_eq!(place(&["--shared", "machine"]), Ok(Place::Machine));
        assert_eq!(place(&["--shared", "./here"]), Ok(Place::File("./here".into())));
        let error = place(&["--shared", "here"]).unwrap_err();
        assert!(error.contains("--shared: `here` is no place to share; allowed are machine, none"), "{error}");
        let secret = place(&["--shared", "http://a:secret@b"]).unwrap_err();
        assert!(!secret.contains("secret"), "{secret}");
    }

    #[test]
    fn two_guards_of_one_file_are_made_and_a_place_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::File(dir.path().join("limits"));
        let settings = || Settings::parse("[[limit]]\nrate = 1").unwrap();
        let guards = [guard(settings(), &place), guard(settings(), &place)];
        assert!(guards.iter().all(Result::is_ok), "{guards:?}");
        assert!(in_words(&place).unwrap().contains("limits") && in_words(&Place::None).is_none());
        let nowhere = Place::File("/proc/nowhere/limits".into());
        assert!(guard(settings(), &nowhere).unwrap_err().to_string().contains("cannot be shared there"));
    }
}
