//! Where a scope's record is.
//!
//! `comity:1:{example.org}:api.example.org`: the tag in braces is the registrable domain, so that a host and its domain's
//! group are in one slot and commit together (decision 9).

use core::net::IpAddr;

/// The keys under one prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// A scope's record. `global` is what `*` is shared as.
    pub(crate) fn scope(&self, name: &str, global: Option<&str>) -> String {
        match (name, global) {
            ("*", Some(global)) => format!("{}:{{*{global}}}:*", self.prefix),
            _ => format!("{}:{{{}}}:{name}", self.prefix, tag(name)),
        }
    }

    /// The scope's name, from its key.
    pub(crate) fn name<'a>(&self, key: &'a str) -> Option<&'a str> {
        let name = key.strip_prefix(&self.prefix)?.strip_prefix(":{")?.split_once("}:")?.1;
        (!name.is_empty() && !key.ends_with(LOG) && !key.contains(MEMBERS_TAG)).then_some(name)
    }

    /// The tag of a key.
    pub(crate) fn slot(key: &str) -> &str {
        key.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or(key, |(tag, _)| tag)
    }

    /// The log of a scope's windows.
    pub(crate) fn log(key: &str) -> String {
        format!("{key}{LOG}")
    }

    pub(crate) fn members(&self) -> String {
        format!("{}:{MEMBERS_TAG}:members", self.prefix)
    }

    pub(crate) fn generation(&self) -> String {
        format!("{}:{MEMBERS_TAG}:generation", self.prefix)
    }

    /// The bucket of a guard's client. No limit's name has an equals sign in it, and no other key has one.
    pub(crate) fn bucket(&self, limit: &str, key: &[u8]) -> Vec<u8> {
        [self.prefix.as_bytes(), b":", MEMBERS_TAG.as_bytes(), b":", limit.as_bytes(), b"=", key].concat()
    }

    /// The beginning of the channels that members listen on.
    pub(crate) fn wake(&self) -> String {
        format!("{}:wake:", self.prefix)
    }

    /// What finds every record.
    pub(crate) fn pattern(&self) -> String {
        format!("{}:{{*", self.prefix)
    }
}

/// The registrable domain of a scope's host; an address by itself.
fn tag(name: &str) -> String {
    let name = name.strip_prefix("*.").unwrap_or(name);
    let host = name.split(['/', ' ', '#']).next().unwrap_or(name);
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    };
    if bare.parse::<IpAddr>().is_ok() {
        return bare.to_owned();
    }
    let domain = psl::domain_str(bare).unwrap_or(bare);
    // Braces would end the tag; no normalised name has any.
    domain.replace(['{', '}'], "")
}

const LOG: &str = "#log";
/// No host is named so.
const MEMBERS_TAG: &str = "{~}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_its_domains_group_share_a_slot() {
        let keys = Keys::new("comity:1");
        for (name, expected) in [
            ("api.example.org", "example.org"),
            ("example.org", "example.org"),
            ("*.example.org", "example.org"),
            ("example.org:8080", "example.org"),
            ("example.org/api", "example.org"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("*.shop.example.co.uk", "example.co.uk"),
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:8080", "192.0.2.1"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("localhost", "localhost"),
            ("*", "*"),
        ] {
            let key = keys.scope(name, None);
            assert_eq!(Keys::slot(&key), expected, "{key}");
            assert_eq!(keys.name(&key), Some(name));
            assert_eq!(keys.name(&Keys::log(&key)), None);
        }
        assert_eq!(keys.scope("*", Some("fleet")), "comity:1:{*fleet}:*");
        assert_eq!(keys.name(&keys.members()), None);
    }
}
