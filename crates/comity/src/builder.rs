//! Makes a pacer.

use std::sync::Arc;

use comity_core::limits::Partial;
use comity_core::scope::{Pattern, Rules, RulesBuilder};
use comity_store::{Memory, MemorySettings, Shared};

use crate::inner::Inner;
use crate::pacer::Pacer;
use crate::profile::Profile;

/// Makes a [`Pacer`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) profile: Profile,
    pub(crate) rules: RulesBuilder,
    pub(crate) settings: MemorySettings,
}

impl Builder {
    /// What holds for every host by itself (`[default]`).
    #[must_use]
    pub fn template(mut self, limits: Partial) -> Self {
        self.rules.template(limits);
        self
    }

    /// What holds for a host, a group, or a part of one.
    #[must_use]
    pub fn rule(mut self, pattern: Pattern, limits: Partial) -> Self {
        self.rules.rule(pattern, limits);
        self
    }

    /// A limit that a service published; a person's own wins where it is stricter.
    #[must_use]
    pub fn preset(mut self, pattern: Pattern, limits: Partial) -> Self {
        self.rules.preset(pattern, limits);
        self
    }

    /// Whether loopback hosts are paced like others (P3).
    #[must_use]
    pub fn pace_loopback(mut self, yes: bool) -> Self {
        self.settings.pace_loopback = yes;
        self
    }

    /// Scopes kept at most. What could still matter is never evicted: when all of it does, new hosts wait.
    #[must_use]
    pub fn most_hosts(mut self, most: usize) -> Self {
        self.settings.most_scopes = most.max(1);
        self
    }

    /// The rules as they stand, for [`Pacer::set_rules`].
    pub fn rules(&self) -> Rules {
        self.rules.build()
    }

    /// A pacer for this process alone.
    pub fn local(&self) -> Pacer {
        let memory = Memory::new(Arc::new(self.rules.build()), self.settings);
        Pacer { inner: Inner::local(memory, self.profile), own: None }
    }

    /// A pacer that keeps one pace with all who share this store (X1): a file of this machine, a Redis or Valkey server.
    pub fn shared(&self, store: impl Shared + 'static) -> Pacer {
        let memory = Memory::new(Arc::new(self.rules.build()), self.settings);
        Pacer { inner: Inner::sharing(memory, Box::new(store), self.profile), own: None }
    }
}
