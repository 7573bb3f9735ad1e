//! The first connection to an origin that may speak HTTP/2.
//!
//! Before the first handshake nobody knows whether connections can be shared. So one is opened and the others wait for
//! its outcome: a far end with HTTP/2 then sees one connection and not one for each request that was waiting.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Who is finding out about which origin, and which are known to speak only HTTP/1.1.
#[derive(Default)]
pub(super) struct First {
    facts: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    only_http1: HashSet<Arc<str>>,
    /// A semaphore without permits: waiting ends when it is closed.
    finding_out: HashMap<Arc<str>, Arc<Semaphore>>,
}

/// The right to find out. Dropped, in whatever way, the others go on.
pub(super) struct Leader<'a> {
    first: &'a First,
    key: Arc<str>,
}

impl First {
    /// Waits while another finds out about `key`. `Some` for the one who is to find out; `None` after a wait, or when
    /// it is known.
    pub(super) async fn enter(&self, key: &Arc<str>) -> Option<Leader<'_>> {
        let other = {
            let mut facts = self.lock();
            if facts.only_http1.contains(key) {
                return None;
            }
            match facts.finding_out.get(key) {
                Some(other) => Arc::clone(other),
                None => {
                    facts.finding_out.insert(Arc::clone(key), Arc::new(Semaphore::new(0)));
                    return Some(Leader { first: self, key: Arc::clone(key) });
                }
            }
        };
        // Nobody ever adds a permit, so this ends with "closed".
        drop(other.acquire().await);
        None
    }

    /// Remembers that connections to `key` cannot be shared, so that nobody waits there again.
    pub(super) fn only_http1(&self, key: &Arc<str>) {
        let mut facts = self.lock();
        if facts.only_http1.len() >= MOST_REMEMBERED {
            facts.only_http1.clear();
        }
        facts.only_http1.insert(Arc::clone(key));
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        if let Some(waited_for) = self.first.lock().finding_out.remove(&self.key) {
            waited_for.close();
        }
    }
}

/// Forgetting costs a wait of one handshake; remembering costs about 100 bytes.
const MOST_REMEMBERED: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_finds_out_and_the_others_wait_for_it() {
        let first = First::default();
        let key: Arc<str> = "https://a.example".into();
        let leader = first.enter(&key).await;
        assert!(leader.is_some());
        let (follower, ()) = tokio::join!(first.enter(&key), async { drop(leader) });
        assert!(follower.is_none());
        assert!(first.enter(&key).await.is_some(), "nothing was learnt, so it is to be found out again");
        first.only_http1(&key);
        assert!(first.enter(&key).await.is_none());
    }
}
