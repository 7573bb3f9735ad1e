//! The shared store of one machine: a file of fixed records under the kernel's lock.
//!
//! [`Machine`] keeps the memories of several processes in step. Under the lock the records of a request's scopes come into
//! the memory, the core decides there, and what changed goes back: so every process decides by the same functions on the
//! same state, and no policy is written twice.
//!
//! # The file
//! | from | what |
//! |---|---|
//! | 0 | the header: format, generation, clock, how far the file is filled |
//! | 4 KiB | the index: record numbers by name, open addressing, 2^20 entries, sparse |
//! | 8 MiB + 4 KiB | records of 1 KiB, four to a page; some pages are logs of windows |
//!
//! Beside `pace` stand `pace.lock`, held while a store is made or set aside, and `pace.members/`, a file for each process
//! that shares it, which it holds locked while it lives.
//!
//! # Guards
//! [`MachineBuckets`] keeps the buckets of guards in the same way in a file of their own beside it, `pace.guard`, whose
//! records are small and many.
//!
//! # What holds
//! - A process that dies between any two writes has made the others slower at most: a start is charged before it is granted.
//! - The lock is tried with a deadline. Past it a process goes on with its part of every limit.
//! - One that goes on so says so, without the lock, and the others leave it its part.
//! - Processes that bring different spacings to one scope all keep the strictest, while the one that brought it comes.
//! - A file that is deleted, replaced, truncated or damaged is set aside; the new one begins with every burst spent, and
//!   every process holds to what it remembers (X9).

mod claim;
mod clock;
mod file;
mod guard;
mod header;
mod index;
mod log;
mod look;
mod machine;
mod opening;
mod place;
mod record;
mod roster;
mod section;
mod side;
mod sum;
mod teach;
mod trouble;
mod trust;
mod watch;

#[cfg(test)]
mod tests;

pub use guard::{BucketSettings, MachineBuckets};
pub use look::Look;
pub use machine::{Machine, Settings};
pub use place::default_path;
