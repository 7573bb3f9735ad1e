//! Several host names behind one limit.

use core::fmt::Debug;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::model::Described;
use super::said::ModelError;
use super::site::Site;

/// The limits that stand before several hosts of one world, by the name they have in `behind`.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<String, (Described, Shared)>);

impl Groups {
    /// One more host behind a limit. The first one describes it; the others need not, and not otherwise.
    pub(super) fn joined(
        &mut self,
        name: &str,
        described: Option<&Described>,
        build: impl FnOnce(&Described) -> Result<Site, ModelError>,
    ) -> Result<Shared, ModelError> {
        let wrong = |allowed| Err(ModelError::value("behind", format!("{name:?}"), allowed));
        match (self.0.get(name), described) {
            (Some((known, _)), Some(described)) if known != described => {
                wrong("a limit that no other host describes otherwise")
            }
            (Some((_, shared)), _) => {
                shared.lock().names += 1;
                Ok(shared.clone())
            }
            (None, None) => wrong("a limit that an earlier host describes, with a `kind` beside its `behind`"),
            (None, Some(described)) => {
                let shared = Shared(Arc::new(Mutex::new(Group { site: build(described)?, names: 1 })));
                self.0.insert(name.to_owned(), (described.clone(), shared.clone()));
                Ok(shared)
            }
        }
    }
}

/// How a host name gets to what stands behind it.
pub(super) trait Reach: Debug + Send {
    fn change<R>(&mut self, f: impl FnOnce(&mut Site) -> R) -> R;

    fn look<R>(&self, f: impl FnOnce(&Site) -> R) -> R;

    /// The share of it that is counted as this name's: names behind one limit have equal ones, so that they add up.
    fn share(&self) -> f64;
}

/// A host of its own.
impl Reach for Site {
    fn change<R>(&mut self, f: impl FnOnce(&mut Site) -> R) -> R {
        f(self)
    }

    fn look<R>(&self, f: impl FnOnce(&Site) -> R) -> R {
        f(self)
    }

    fn share(&self) -> f64 {
        1.0
    }
}

/// A limit that stands before several names. A world runs in one thread, so it is never waited for.
#[derive(Clone, Debug)]
pub(super) struct Shared(Arc<Mutex<Group>>);

#[derive(Debug)]
struct Group {
    site: Site,
    names: u32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Group> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reach for Shared {
    fn change<R>(&mut self, f: impl FnOnce(&mut Site) -> R) -> R {
        f(&mut self.lock().site)
    }

    fn look<R>(&self, f: impl FnOnce(&Site) -> R) -> R {
        f(&self.lock().site)
    }

    fn share(&self) -> f64 {
        1.0 / f64::from(self.lock().names)
    }
}
