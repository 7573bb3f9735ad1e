//! The list's URLs by site: a queue each, of four bytes a URL.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use url::Url;

use crate::keep::{Outcome, Timestamp};
use crate::list::List;
use crate::robots::Robots;

/// Sites (an origin: scheme, host and port) with their URLs in order of the list.
pub(super) struct Sites {
    sites: Vec<Site>,
    next: Vec<u32>,
    index: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    /// Origins that no URL of the list names: redirects led there.
    origins: Vec<Box<str>>,
}

/// A site's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SiteId(pub(super) u32);

/// One site.
#[derive(Debug)]
pub(super) struct Site {
    /// A URL of the list that has its origin, or (past the list) an origin of its own.
    named_by: u32,
    head: u32,
    tail: u32,
    /// URLs that are not in the line yet.
    pub(super) left: u32,
    pub(super) robots: RobotsState,
    pub(super) opened: bool,
    pub(super) trouble: Option<Box<Trouble>>,
    /// Jobs in the line that are asked of it.
    pub(super) in_line: u32,
    /// Why it was left for good.
    pub(super) left_for: Option<Box<(Outcome, String)>>,
}

/// What is known of a site's robots.txt.
#[derive(Debug, Default)]
pub(super) enum RobotsState {
    /// Nobody asked.
    #[default]
    Unknown,
    /// It is being asked for; so many times in vain so far.
    Asked(u8),
    /// It holds until then.
    Known(Robots, Timestamp),
}

/// A site that refuses or does not answer.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The first refusal since it last served anything.
    pub(super) refusing_since: Option<Timestamp>,
    /// The first attempt without an answer since it last answered, and how many.
    pub(super) silent_since: Option<Timestamp>,
    pub(super) silent: u32,
    /// Answers in a row that were errors (H19).
    pub(super) errors: u32,
}

impl Sites {
    /// Sorts the URLs of a list for which `wanted` holds.
    pub(super) fn of(list: &List, mut wanted: impl FnMut(u32) -> bool) -> Self {
        let len = list.len();
        let mut sites = Self {
            sites: Vec::new(),
            next: vec![NONE; len as usize],
            index: HashTable::new(),
            hasher: foldhash::fast::RandomState::default(),
            origins: Vec::new(),
        };
        for index in (0..len).filter(|index| wanted(*index)) {
            let SiteId(site) = sites.intern(list, origin_of(list.text(index)), Some(index));
            let site = &mut sites.sites[site as usize];
            if site.head == NONE {
                site.head = index;
            } else {
                sites.next[site.tail as usize] = index;
            }
            site.tail = index;
            site.left += 1;
        }
        sites
    }

    pub(super) fn len(&self) -> usize {
        self.sites.len()
    }

    /// The site a URL belongs to; made if the list has none.
    pub(super) fn site_of(&mut self, list: &List, url: &Url) -> SiteId {
        self.intern(list, origin_of(url.as_str()), None)
    }

    pub(super) fn get(&self, site: SiteId) -> &Site {
        &self.sites[site.0 as usize]
    }

    pub(super) fn get_mut(&mut self, site: SiteId) -> &mut Site {
        &mut self.sites[site.0 as usize]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SiteId> + use<> {
        (0..self.sites.len() as u32).map(SiteId)
    }

    /// Its origin: `https://example.org:8443`.
    pub(super) fn origin<'a>(&'a self, list: &'a List, site: SiteId) -> &'a str {
        origin_named(list, &self.origins, &self.sites[site.0 as usize])
    }

    /// The next URL of a site, without taking it.
    pub(super) fn peek(&self, site: SiteId) -> Option<u32> {
        let head = self.get(site).head;
        (head != NONE).then_some(head)
    }

    /// Takes the next URL of a site.
    pub(super) fn pop(&mut self, site: SiteId) -> Option<u32> {
        let index = self.peek(site)?;
        let next = self.next[index as usize];
        let site = self.get_mut(site);
        site.head = next;
        site.left -= 1;
        Some(index)
    }

    fn intern(&mut self, list: &List, origin: &str, index: Option<u32>) -> SiteId {
        let hash = self.hasher.hash_one(origin);
        let (sites, origins) = (&self.sites, &self.origins);
        let same = |site: &u32| origin_named(list, origins, &sites[*site as usize]) == origin;
        if let Some(site) = self.index.find(hash, same) {
            return SiteId(*site);
        }
        let named_by = index.unwrap_or_else(|| {
            self.origins.push(origin.into());
            FIRST_OWN + (self.origins.len() as u32 - 1)
        });
        self.sites.push(Site {
            named_by,
            head: NONE,
            tail: NONE,
            left: 0,
            robots: RobotsState::Unknown,
            opened: false,
            trouble: None,
            in_line: 0,
            left_for: None,
        });
        let id = (self.sites.len() - 1) as u32;
        let (sites, origins, hasher) = (&self.sites, &self.origins, &self.hasher);
        let rehash = |site: &u32| hasher.hash_one(origin_named(list, origins, &sites[*site as usize]));
        self.index.insert_unique(hash, id, rehash);
        SiteId(id)
    }
}

/// The part of a URL before its path. A URL of the list is normalised, so equal origins are equal texts.
fn origin_of(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    &url[..end]
}

fn origin_named<'a>(list: &'a List, origins: &'a [Box<str>], site: &Site) -> &'a str {
    match site.named_by.checked_sub(FIRST_OWN) {
        Some(own) => &origins[own as usize],
        None => origin_of(list.text(site.named_by)),
    }
}

const NONE: u32 = u32::MAX;
/// Numbers from here on mean origins that the list does not name.
const FIRST_OWN: u32 = 1 << 31;
