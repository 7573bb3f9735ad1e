//! The cookies that sites set, by site.

use std::collections::HashMap;
use std::convert::Infallible;

use cookie_store::{Cookie, CookieDomain, CookieStore};
use url::{Host, Url};

/// Cookies by registrable domain. The store below goes through all the domains it has, for every request; a site has few.
///
/// It reads the clock by itself, to know what has expired.
#[derive(Default)]
pub(super) struct Jar {
    sites: HashMap<String, Site>,
    count: usize,
}

#[derive(Default)]
struct Site {
    store: CookieStore,
    /// Cookies in the store, expired ones included.
    count: usize,
}

impl Jar {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All cookies that are not over, in an order that is always the same.
    pub(super) fn cookies(&self) -> Vec<&Cookie<'static>> {
        let mut all: Vec<_> = self.sites.values().flat_map(|site| site.store.iter_unexpired()).collect();
        all.sort_by_key(|cookie| (cookie.domain.as_cow(), String::from(&cookie.path), cookie.name().to_owned()));
        all
    }

    /// The value of a `Cookie` field, of whole cookies. Those of the longest path come first (RFC 6265 section 5.4).
    pub(super) fn field(&self, url: &Url, max: usize) -> String {
        let Some(site) = url.host_str().and_then(|host| self.sites.get(site_of(host))) else { return String::new() };
        let mut matching = site.store.matches(url);
        matching.sort_by_key(|cookie| (usize::MAX - cookie.path.len(), cookie.name().to_owned()));
        let mut field = String::new();
        for (name, value) in matching.into_iter().map(|cookie| cookie.name_value()) {
            let parting = if field.is_empty() { "" } else { "; " };
            if field.len() + parting.len() + name.len() + 1 + value.len() <= max {
                field.extend([parting, name, "=", value]);
            }
        }
        field
    }

    /// Takes a `Set-Cookie` value from `url`; `false` if nothing came of it because of a bound. A cookie that is malformed
    /// or not for the site to set is ignored, as RFC 6265 section 5.3 says.
    pub(super) fn set(&mut self, url: &Url, value: &[u8]) -> bool {
        let Ok(text) = str::from_utf8(value) else { return true };
        if text.len() > MAX_COOKIE {
            return false;
        }
        match Cookie::parse(text.to_owned(), url) {
            Ok(cookie) if may_set(&cookie, url) => self.put(cookie, url),
            _ => true,
        }
    }

    /// Takes a cookie of a file.
    pub(super) fn load(&mut self, cookie: Cookie<'static>) {
        let url = cookie.domain.as_cow().and_then(|domain| Url::parse(&format!("https://{domain}/")).ok());
        if let Some(url) = url {
            self.put(cookie, &url);
        }
    }

    fn put(&mut self, mut cookie: Cookie<'static>, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return true };
        let (name, value) = cookie.name_value();
        if [name, value, &*cookie.path].iter().any(|text| text.contains(char::is_control)) {
            return true;
        }
        if let CookieDomain::Suffix(domain) = &cookie.domain
            && is_public_suffix(domain)
        {
            // A cookie for all of `co.uk` is nobody's to set; for a site at the suffix itself it is its own.
            match CookieDomain::host_only(url) {
                Ok(own) if domain == host => cookie.domain = own,
                _ => return true,
            }
        }
        let site = self.sites.entry(site_of(host).to_owned()).or_default();
        let domain = cookie.domain.as_cow().unwrap_or_default();
        let is_new = !site.store.contains_any(&domain, &cookie.path, cookie.name());
        if is_new && !cookie.is_expired() {
            if site.count >= MAX_OF_SITE {
                let before = site.count;
                site.forget_expired();
                self.count -= before - site.count;
            }
            if site.count >= MAX_OF_SITE || self.count >= MAX {
                return false;
            }
        }
        if site.store.insert(cookie, url).is_ok() && is_new {
            site.count += 1;
            self.count += 1;
        }
        if site.count == 0 {
            self.sites.remove(site_of(host));
        }
        true
    }
}

impl Site {
    fn forget_expired(&mut self) {
        let fresh = self.store.iter_unexpired().cloned().map(Ok::<_, Infallible>);
        let Ok(store) = CookieStore::from_cookies(fresh, false);
        self.count = store.iter_any().count();
        self.store = store;
    }
}

/// The names and the scheme that a cookie's attributes need (RFC 6265bis sections 4.1.3 and 5.7).
fn may_set(cookie: &Cookie<'_>, url: &Url) -> bool {
    let secure = cookie.secure() == Some(true);
    if secure && url.scheme() != "https" && !is_loopback(url) {
        return false;
    }
    let prefixed = |prefix: &str| cookie.name().get(..prefix.len()).is_some_and(|s| s.eq_ignore_ascii_case(prefix));
    if prefixed("__Host-") {
        return secure && matches!(cookie.domain, CookieDomain::HostOnly(_)) && &*cookie.path == "/";
    }
    secure || !prefixed("__Secure-")
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// The part of a host that can share cookies with others: its registrable domain, or itself.
fn site_of(host: &str) -> &str {
    let is_name = host.parse::<std::net::Ipv4Addr>().is_err() && !host.starts_with('[');
    is_name.then(|| psl::domain_str(host)).flatten().unwrap_or(host)
}

/// Whether the Public Suffix List has `domain`, or implies it: a single label (`internal`) is one whether listed or not.
fn is_public_suffix(domain: &str) -> bool {
    !domain.contains('.')
        || psl::suffix(domain.as_bytes())
            .is_some_and(|suffix| suffix.is_known() && suffix.as_bytes() == domain.as_bytes())
}

/// RFC 6265 section 6.1 asks for 4,096 bytes a cookie, attributes included, and browsers keep 180 of a site.
const MAX_COOKIE: usize = 4_096;
const MAX_OF_SITE: usize = 180;
/// Some 50 MB.
const MAX: usize = 100_000;
