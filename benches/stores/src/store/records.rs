//! What the peers keep of a scope, under which names.

/// As large as a record of Comity's machine store.
pub(super) const BYTES: usize = 1024;

/// What is done to a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// A request starts.
    Claim,
    /// It gives its place back.
    Release,
}

/// A scope's record: how many started, how many are in flight, and room for the rest.
#[derive(Clone)]
pub(super) struct Record([u8; BYTES]);

impl Record {
    pub(super) fn new() -> Self {
        Self([0; BYTES])
    }

    /// Of a record's bytes; a new one where they are none.
    pub(super) fn read(bytes: &[u8]) -> Self {
        bytes.try_into().map_or_else(|_| Self::new(), Self)
    }

    pub(super) fn bytes(&self) -> &[u8; BYTES] {
        &self.0
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8; BYTES] {
        &mut self.0
    }

    pub(super) fn take(&mut self, turn: Turn) {
        match turn {
            Turn::Claim => {
                self.set(STARTS, self.starts() + 1);
                self.set(IN_FLIGHT, self.in_flight() + 1);
            }
            Turn::Release => self.set(IN_FLIGHT, self.in_flight().wrapping_sub(1)),
        }
    }

    pub(super) fn starts(&self) -> u64 {
        self.get(STARTS)
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.get(IN_FLIGHT)
    }

    fn get(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }

    fn set(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}

/// The scopes of all hosts' claims, each host's in the order host, group, all.
pub(super) fn names(keys: usize) -> Vec<[String; 3]> {
    (0..keys).map(|key| [host(key), group(key), ALL.to_owned()]).collect()
}

/// Host number `key`.
pub(super) fn host(key: usize) -> String {
    format!("host-{key}.{}", domain(key))
}

/// The group that host number `key` is in.
pub(super) fn group(key: usize) -> String {
    format!("*.{}", domain(key))
}

/// Where each of a host's three records lies among `keys` hosts' records.
pub(super) fn slots(key: usize) -> [usize; 3] {
    [1 + DOMAINS + key, 1 + key % DOMAINS, 0]
}

/// How many records so many hosts have at most.
pub(super) fn most(keys: usize) -> usize {
    1 + DOMAINS + keys
}

fn domain(key: usize) -> String {
    format!("domain-{}.example", key % DOMAINS)
}

/// All hosts together.
pub(super) const ALL: &str = "*";
/// Groups that the hosts are in, ten to each where there are a thousand.
const DOMAINS: usize = 100;
const STARTS: usize = 0;
const IN_FLIGHT: usize = 8;
