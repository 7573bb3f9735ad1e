//! `comity forget`: what was learned of a host is forgotten, for all who share it.

use anyhow::Result;
use clap::Args;
use comity_store::{Readable, StoreError};

use super::hosts::pick::Asked;
use crate::exit::Exit;
use crate::flags::look::LookFlags;
use crate::flags::shared::wrong;
use crate::screen::say;
use crate::screen::words::{clean, count};

/// Forget what was learned of a host: its pace, its pause and its quota
///
/// For all who share the store, at once. Limits that you set, presets and what robots.txt declares are not learned and
/// stay. The groups a host is in are scopes of their own: forget them by their names (*.example.org).
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES, group(clap::ArgGroup::new("what").args(["host", "all"]).required(true)))]
pub(crate) struct ForgetCommand {
    /// A host, a URL or a scope (*.example.org)
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// Every host and group
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    look: LookFlags,
}

impl ForgetCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        let asked = self.host.as_deref().map(Asked::parse).transpose()?;
        let mut store = self.look.look()?;
        let (said, exit) = forget(store.as_mut(), asked.as_ref()).map_err(wrong)?;
        say(&format!("comity: {said}"));
        Ok(exit)
    }
}

/// Forgets one or all, and says what.
fn forget(store: &mut dyn Readable, asked: Option<&Asked>) -> Result<(String, Exit), StoreError> {
    let Some(asked) = asked else {
        return Ok(match store.forget_by_name(None)? {
            0 => ("nothing was known that could be forgotten".to_owned(), Exit::Done),
            scopes => (format!("forgot what was learned of {}", count(scopes as u64, "scope")), Exit::Done),
        });
    };
    for name in asked.names() {
        match store.forget_by_name(Some(&name))? {
            0 => {}
            1 => return Ok((format!("forgot what was learned of {}", clean(&name)), Exit::Done)),
            scopes => {
                let scopes = count(scopes as u64, "scope");
                return Ok((format!("forgot what was learned of {} ({scopes})", clean(&name)), Exit::Done));
            }
        }
    }
    Ok((format!("nothing is known of {}", clean(&asked.to_string())), Exit::Error))
}

const EXIT_CODES: &str = "Exit codes:
    0  forgotten
    1  nothing is known of HOST, or the shared store does not answer
    2  the command line or the configuration is wrong";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::hosts::fake::{Fake, known, listing};
    use crate::flags::testing::{parse, refused};

    fn store() -> Fake {
        let names = ["a.example", "b.example:8080", "*.example"];
        Fake { listing: listing(names.iter().map(|name| known(name)).collect()), gone: false }
    }

    fn told(store: &mut Fake, host: Option<&str>) -> (String, Exit) {
        let asked = host.map(|host| Asked::parse(host).unwrap());
        forget(store, asked.as_ref()).unwrap()
    }

    #[test]
    fn t13_a_host_is_forgotten_however_its_name_is_written() {
        for host in ["A.EXAMPLE.", "https://a.example/x", "https://a.example:8443/x"] {
            let mut store = store();
            assert_eq!(told(&mut store, Some(host)), ("forgot what was learned of a.example".to_owned(), Exit::Done));
            assert_eq!(store.listing.scopes.len(), 2, "{host}");
        }
        assert_eq!(told(&mut store(), Some("http://b.example:8080/")).0, "forgot what was learned of b.example:8080");
        assert_eq!(told(&mut store(), Some("*.Example")).0, "forgot what was learned of *.example");
    }

    #[test]
    fn t13_all_are_forgotten() {
        let mut store = store();
        assert_eq!(told(&mut store, None), ("forgot what was learned of 3 scopes".to_owned(), Exit::Done));
        assert_eq!(told(&mut store, None).1, Exit::Done, "nothing left is nothing wrong");
    }

    #[test]
    fn an_unknown_host_is_named_and_ends_with_an_error() {
        let mut store = store();
        assert_eq!(told(&mut store, Some("C.example")), ("nothing is known of c.example".to_owned(), Exit::Error));
        assert_eq!(store.listing.scopes.len(), 3);
    }

    #[test]
    fn one_of_both_is_said() {
        assert!(parse::<ForgetCommand>(&["--all"]).is_ok() && parse::<ForgetCommand>(&["a.example"]).is_ok());
        refused::<ForgetCommand>(&[], &["HOST", "--all"]);
        refused::<ForgetCommand>(&["a.example", "--all"], &["HOST", "--all"]);
    }
}
