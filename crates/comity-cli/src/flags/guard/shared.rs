//! Flags about who shares the limits.

use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use comity_guard::{Guard, Settings};
use comity_machine::MachineBuckets;
use comity_redis::RedisBuckets;
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
    /// all who name it; redis:// and rediss:// any number of machines. Places in flight are each guard's own.
    // Read by hand: a wrong address may hold a password, and clap would print it.
    #[arg(long, value_name = "WHERE")]
    shared: Option<String>,

    /// The service whose limits these are: guards with another name, or none, share nothing with these
    #[arg(long, value_name = "NAME", value_parser = name, requires = "shared")]
    shared_name: Option<String>,
}

/// Where limits are shared, and as whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuardPlace {
    place: Place,
    name: Option<String>,
}

impl GuardSharedFlags {
    /// Where they are shared.
    ///
    /// # Errors
    /// It is no place to share, or a file with a name beside it.
    pub(crate) fn place(&self) -> Result<GuardPlace, Usage> {
        let named = self.shared.as_deref().unwrap_or("none");
        let place = place(named).map_err(|error| Usage(format!("--shared: {error}")))?;
        if let (Some(name), Place::None | Place::File(_)) = (&self.shared_name, &place) {
            let allowed = "allowed is that with machine and servers; another service names another file";
            return Err(Usage(format!("--shared-name {name} beside --shared {named}: {allowed}")));
        }
        Ok(GuardPlace { place, name: self.shared_name.clone() })
    }
}

/// A guard with these settings, whose limits are shared there.
///
/// # Errors
/// The settings cannot be, or nothing can be shared there.
pub(crate) fn guard(settings: Settings, at: &GuardPlace) -> Result<Guard> {
    let GuardPlace { place, name } = at;
    let buckets: Arc<dyn Buckets> = match place {
        Place::None => return Ok(Guard::new(settings).map_err(|error| Usage(error.to_string()))?),
        Place::Machine | Place::File(_) => {
            let mut path = file(place)?;
            if let Some(name) = name {
                path.set_file_name(format!("guard-{name}"));
            }
            Arc::new(MachineBuckets::open(path, comity_machine::BucketSettings::default()).map_err(wrong)?)
        }
        Place::Redis(url) => {
            let mut settings = comity_redis::BucketSettings::default();
            if let Some(name) = name {
                settings.prefix = format!("{}:{name}", settings.prefix);
            }
            Arc::new(RedisBuckets::open(url, settings).map_err(wrong)?)
        }
    };
    Ok(Guard::over(settings, buckets).map_err(|error| Usage(error.to_string()))?)
}

/// Where they are shared, in words; nothing where they are not.
pub(crate) fn in_words(at: &GuardPlace) -> Option<String> {
    let whose = at.name.as_ref().map(|name| format!(" as {name}")).unwrap_or_default();
    match &at.place {
        Place::None => None,
        Place::Machine => Some(format!("shared{whose} with every guard of this user on this machine that says so")),
        Place::File(path) => Some(format!("shared with every guard that names {}", path.display())),
        // Its address may hold a password.
        Place::Redis(_) => Some(format!("shared{whose} with every guard that names the same server")),
    }
}

/// A name that can be a part of a file's name and of a key.
fn name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = (1..=MOST_LETTERS).contains(&text.len()) && text.bytes().all(plain);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("allowed are up to {MOST_LETTERS} small letters, digits and -"))
    }
}

const MOST_LETTERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    #[test]
    fn limits_are_shared_only_where_that_is_said() {
        let place = |words: &[&str]| {
            let at = parse::<GuardSharedFlags>(words).unwrap().place();
            at.map(|at| at.place).map_err(|usage| usage.0)
        };
        assert_eq!(place(&[]), Ok(Place::None));
        assert_eq!(place(&["--shared", "machine"]), Ok(Place::Machine));
        assert_eq!(place(&["--shared", "./here"]), Ok(Place::File("./here".into())));
        let error = place(&["--shared", "here"]).unwrap_err();
        assert!(error.contains("--shared: `here` is no place to share; allowed are machine, none"), "{error}");
        let named = place(&["--shared", "./here", "--shared-name", "shop"]).unwrap_err();
        assert!(named.contains("--shared-name shop") && named.contains("another file"), "{named}");
        refused::<GuardSharedFlags>(&["--shared-name", "shop"], &["--shared"]);
        refused::<GuardSharedFlags>(
            &["--shared", "machine", "--shared-name", "../a"],
            &["--shared-name", "../a", "small letters"],
        );
        let secret = place(&["--shared", "http://a:secret@b"]).unwrap_err();
        assert!(!secret.contains("secret"), "{secret}");
    }

    #[test]
    fn two_guards_of_one_file_are_made_and_a_place_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path| GuardPlace { place: Place::File(path), name: None };
        let place = at(dir.path().join("limits"));
        let settings = || Settings::parse("[[limit]]\nrate = 1").unwrap();
        let guards = [guard(settings(), &place), guard(settings(), &place)];
        assert!(guards.iter().all(Result::is_ok), "{guards:?}");
        assert!(
            in_words(&place).unwrap().contains("limits")
                && in_words(&GuardPlace { place: Place::None, name: None }).is_none()
        );
        let nowhere = at("/proc/nowhere/limits".into());
        assert!(guard(settings(), &nowhere).unwrap_err().to_string().contains("cannot be shared there"));
    }
}
