//! Several host names behind one limit.

use core::fmt::Debug;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::site::Site;

/// The limits that stand before several hosts of one world, by the name they have in `behind`.
#[derive(Debug, Default)]
pub struct Groups(BTreeMap<String, Shared>);

impl Groups {
    /// One more host behind a limit that is known already.
    pub(super) fn join(&mut self, name: &str) -> Option<Shared> {
        let shared = self.0.get(name)?;
        shared.lock().names += 1;
        Some(shared.clone())
    }

    /// The first host behind a limit brings it.
    pub(super) fn begin(&mut self, name: &str, site: Site) -> Shared {
        let shared = Shared(Arc::new(Mutex::new(Group { site, names: 1 })));
        self.0.insert(name.to_owned(), shared.clone());
        shared
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
