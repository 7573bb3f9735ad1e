//! Which scopes a request falls under, and with what limits.
//!
//! A look-up asks a hash table once for the host and once for each domain above it (a name has at most 127 labels), so it
//! costs the same with ten rules as with ten thousand.

use alloc::sync::Arc;

use hashbrown::HashMap;

use super::host::{HostKey, HostKeyError, Target};
use super::pattern::{Narrowing, Pattern, Site};
use crate::limits::{Limits, Partial};

/// The compiled rules: what a person, the presets and the profile say of every host.
#[derive(Clone, Debug)]
pub struct Rules {
    hosts: HashMap<Box<str>, Entry>,
    groups: HashMap<Box<str>, Entry>,
    all: Said,
    default: Arc<Limits>,
    base: Limits,
    template: Partial,
    ports_matter_for_addresses: bool,
    any_narrowed: bool,
}

/// Collects rules and compiles them.
#[derive(Clone, Debug)]
pub struct RulesBuilder {
    base: Limits,
    template: Partial,
    written: Vec<(Pattern, Partial)>,
    presets: Vec<(Pattern, Partial)>,
    ports_matter_for_addresses: bool,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    whole: Said,
    narrowed: Vec<(Narrowing, Said)>,
}

/// What was said of one scope, and what follows.
#[derive(Clone, Debug, Default)]
struct Said {
    written: Option<Partial>,
    preset: Option<Partial>,
    limits: Option<Arc<Limits>>,
}

impl Said {
    fn add(&mut self, partial: &Partial, preset: bool) {
        let slot = if preset { &mut self.preset } else { &mut self.written };
        *slot = Some(match slot.take() {
            Some(earlier) => partial.merged_over(&earlier),
            None => partial.clone(),
        });
    }

    /// The limits that follow from a base: a person's own words, tightened by what the service published unless they say
    /// that theirs win.
    fn resolve(&mut self, base: impl FnOnce() -> Limits, fallback: &Self) {
        let own = merged(self.written.as_ref(), fallback.written.as_ref());
        let preset = merged(self.preset.as_ref(), fallback.preset.as_ref());
        if own.is_none() && preset.is_none() {
            return;
        }
        let mut limits = base();
        if let Some(own) = &own {
            own.apply(&mut limits);
        }
        if let Some(preset) = &preset
            && !own.as_ref().is_some_and(|own| own.overrides_preset)
        {
            preset.tighten(&mut limits);
        }
        self.limits = Some(Arc::new(limits));
    }
}

/// A scope as a person reads it, and the key a store finds it by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeName(pub Box<str>);

impl Rules {
    /// Starts from what holds for every host where nothing else is said: the profile.
    pub fn builder(base: Limits) -> RulesBuilder {
        RulesBuilder {
            base,
            template: Partial::default(),
            written: Vec::new(),
            presets: Vec::new(),
            ports_matter_for_addresses: true,
        }
    }

    /// The name of the host's own scope: without port unless the host is an IP literal or a rule is written for that port.
    ///
    /// # Errors
    /// When the target's host is no normalised name.
    pub fn host_key(&self, target: &Target<'_>) -> Result<HostKey, HostKeyError> {
        let with_port = target.port.is_some()
            && ((self.ports_matter_for_addresses && target.is_ip_literal()) || self.port_is_a_host(target));
        HostKey::new(target.name(), if with_port { target.port } else { None })
    }

    fn port_is_a_host(&self, target: &Target<'_>) -> bool {
        !self.hosts.is_empty()
            && HostKey::new(target.name(), target.port).is_ok_and(|key| self.hosts.contains_key(key.as_str()))
    }

    /// Whether every request's host scope is found by its bare name, so that no key need be made to look it up.
    pub fn key_is_the_name(&self, target: &Target<'_>) -> bool {
        target.port.is_none()
            || !((self.ports_matter_for_addresses && target.is_ip_literal()) || self.port_is_a_host(target))
    }

    /// The limits of a host by itself, fields falling back one by one: `host:port`, `host`, `[default]`, profile
    /// (behaviour T2). Where loopback is exempt (P3), only what a person wrote holds for a loopback host.
    pub fn host(&self, key: &HostKey, target: &Target<'_>, loopback_exempt: bool) -> Arc<Limits> {
        let exact = self.hosts.get(key.as_str());
        let by_name = self.hosts.get(target.name());
        if loopback_exempt && target.is_loopback() {
            let mut limits = self.template.over(&Limits::none());
            for entry in [by_name, exact].into_iter().flatten() {
                if let Some(written) = &entry.whole.written {
                    written.apply(&mut limits);
                }
            }
            return Arc::new(limits);
        }
        let said = |entry: Option<&Entry>| entry.and_then(|entry| entry.whole.limits.clone());
        said(exact).or_else(|| said(by_name)).unwrap_or_else(|| Arc::clone(&self.default))
    }

    /// The groups a host is in, the narrowest domain first; then `*`. Each with its limits.
    pub fn groups(&self, target: &Target<'_>) -> Vec<(ScopeName, Arc<Limits>)> {
        let mut found = Vec::new();
        if !self.groups.is_empty() && !target.is_ip_literal() {
            for domain in domains(target.name()) {
                if let Some(limits) = self.groups.get(domain).and_then(|entry| entry.whole.limits.as_ref()) {
                    found.push((ScopeName(format!("*.{domain}").into()), Arc::clone(limits)));
                }
            }
        }
        if let Some(limits) = &self.all.limits {
            found.push((ScopeName("*".into()), Arc::clone(limits)));
        }
        found
    }

    /// The narrowed scopes (path prefix, identity) a request falls under, the narrowest first.
    pub fn narrowed(&self, key: &HostKey, target: &Target<'_>) -> Vec<(ScopeName, Arc<Limits>)> {
        let mut found: Vec<(ScopeName, Arc<Limits>)> = Vec::new();
        let mut collect = |entry: Option<&Entry>, site: &str| {
            for (narrowing, said) in entry.map(|entry| entry.narrowed.as_slice()).unwrap_or_default() {
                let Some(limits) = &said.limits else { continue };
                if !narrowing.covers(target.path, target.identity) {
                    continue;
                }
                let name = ScopeName(narrowed_name(site, narrowing, target.identity));
                match found.iter_mut().find(|(known, _)| *known == name) {
                    // One identity's scope is the same by its own rule and by the one for every identity; its own holds.
                    Some(known) if !narrowing.is_every_identity() => known.1 = Arc::clone(limits),
                    Some(_) => {}
                    None => found.push((name, Arc::clone(limits))),
                }
            }
        };
        collect(self.hosts.get(key.as_str()), key.as_str());
        if key.as_str() != target.name() {
            collect(self.hosts.get(target.name()), target.name());
        }
        for domain in domains(target.name()) {
            collect(self.groups.get(domain), &format!("*.{domain}"));
        }
        found
    }

    /// The limits of a group by its name (`*.example.org`, `*`).
    pub fn group(&self, name: &str) -> Option<Arc<Limits>> {
        match name.strip_prefix("*.") {
            Some(domain) => self.groups.get(domain)?.whole.limits.clone(),
            None => self.all.limits.clone(),
        }
    }

    /// The limits of a narrowed scope by its name (`example.org/api`, `example.org#gold`).
    pub fn narrowed_scope(&self, name: &str) -> Option<Arc<Limits>> {
        let pattern = Pattern::parse(name).ok()?;
        let entry = match &pattern.site {
            Site::All => return None,
            Site::Group(domain) => self.groups.get(domain.as_str())?,
            Site::Host(host) => self.hosts.get(host.as_str())?,
        };
        let named = |every: bool| {
            entry.narrowed.iter().find(|(narrowing, _)| {
                narrowing.path == pattern.narrowing.path
                    && (narrowing.identity == pattern.narrowing.identity && !every
                        || narrowing.is_every_identity() && every && pattern.narrowing.identity.is_some())
            })
        };
        named(false).or_else(|| named(true))?.1.limits.clone()
    }

    /// Whether any rule is narrowed, so that paths and identities must be looked at.
    pub fn any_narrowed(&self) -> bool {
        self.any_narrowed
    }
}

impl RulesBuilder {
    /// The `[default]` template: what a person wants for every host by itself.
    pub fn template(&mut self, partial: Partial) -> &mut Self {
        self.template = partial;
        self
    }

    /// What a person wants for a pattern; a later rule for the same pattern replaces the fields it names.
    pub fn rule(&mut self, pattern: Pattern, partial: Partial) -> &mut Self {
        self.written.push((pattern, partial));
        self
    }

    /// A published limit. A person's own limits win where they are stricter, or when they say so
    /// ([`Partial::overrides_preset`]).
    pub fn preset(&mut self, pattern: Pattern, partial: Partial) -> &mut Self {
        self.presets.push((pattern, partial));
        self
    }

    /// Whether IP literals with different ports are different hosts (decision 11); not so in the browse profile (P1).
    pub fn ports_matter_for_addresses(&mut self, yes: bool) -> &mut Self {
        self.ports_matter_for_addresses = yes;
        self
    }

    /// Compiles the rules.
    pub fn build(&self) -> Rules {
        let mut rules = Rules {
            hosts: HashMap::new(),
            groups: HashMap::new(),
            all: Said::default(),
            default: Arc::new(self.template.over(&self.base)),
            base: self.base.clone(),
            template: self.template.clone(),
            ports_matter_for_addresses: self.ports_matter_for_addresses,
            any_narrowed: [&self.presets, &self.written]
                .iter()
                .any(|rules| rules.iter().any(|(p, _)| !p.narrowing.is_whole())),
        };
        for (pattern, partial) in &self.presets {
            rules.add(pattern, partial, true);
        }
        for (pattern, partial) in &self.written {
            rules.add(pattern, partial, false);
        }
        rules.resolve();
        rules
    }
}

impl Rules {
    fn add(&mut self, pattern: &Pattern, partial: &Partial, preset: bool) {
        let entry = match &pattern.site {
            Site::All => {
                self.all.add(partial, preset);
                return;
            }
            Site::Group(domain) => self.groups.entry(domain.as_str().into()).or_default(),
            Site::Host(host) => self.hosts.entry(host.as_str().into()).or_default(),
        };
        if pattern.narrowing.is_whole() {
            entry.whole.add(partial, preset);
            return;
        }
        let at =
            entry.narrowed.iter().position(|(narrowing, _)| *narrowing == pattern.narrowing).unwrap_or_else(|| {
                entry.narrowed.push((pattern.narrowing.clone(), Said::default()));
                entry.narrowed.len() - 1
            });
        entry.narrowed[at].1.add(partial, preset);
        // The longest path first: the narrowest scope is the one that is taught.
        entry.narrowed.sort_by_key(|(n, _)| core::cmp::Reverse(n.path.as_ref().map_or(0, |p| p.len())));
    }

    fn resolve(&mut self) {
        let names: Vec<Box<str>> = self.hosts.keys().cloned().collect();
        for name in names {
            // `host:port` falls back to `host`, field by field.
            let host = name.rsplit_once(':').map(|(host, _)| host).filter(|_| !name.ends_with(']'));
            let fallback =
                host.and_then(|host| self.hosts.get(host)).map(|entry| entry.whole.clone()).unwrap_or_default();
            if let Some(entry) = self.hosts.get_mut(&name) {
                entry.whole.resolve(|| self.template.over(&self.base), &fallback);
            }
        }
        self.all.resolve(Limits::none, &Said::default());
        for entry in self.groups.values_mut() {
            entry.whole.resolve(|| self.base.group(), &Said::default());
        }
        for entry in self.hosts.values_mut().chain(self.groups.values_mut()) {
            for (_, said) in &mut entry.narrowed {
                said.resolve(|| self.base.group(), &Said::default());
            }
        }
    }
}

fn merged(own: Option<&Partial>, fallback: Option<&Partial>) -> Option<Partial> {
    match (own, fallback) {
        (Some(own), Some(fallback)) => Some(own.merged_over(fallback)),
        (own, fallback) => own.or(fallback).cloned(),
    }
}

/// The name itself and every domain above it.
fn domains(name: &str) -> impl Iterator<Item = &str> {
    core::iter::successors(Some(name), |rest| rest.split_once('.').map(|(_, above)| above))
}

fn narrowed_name(site: &str, narrowing: &Narrowing, identity: Option<&str>) -> Box<str> {
    let mut name = site.to_owned();
    name.push_str(narrowing.path.as_deref().unwrap_or_default());
    if narrowing.identity.is_some() {
        name.push('#');
        name.push_str(identity.unwrap_or_default());
    }
    name.into()
}
