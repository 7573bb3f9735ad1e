//! How it stands with the store that a pacer shares.

use std::time::Duration;

use crate::pacer::Pacer;

/// How it stands between a pacer and the store it shares with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Where the store is, as it was said, without secrets.
    pub place: String,
    /// Processes that share it, this one included, as far as is known.
    pub members: u32,
    /// How long it has been out of reach, and why; `None` where it is not. Requests then start as
    /// [`OnFailure`](crate::OnFailure) says: with a part of every limit, if nothing else was asked for.
    pub lost: Option<(Duration, String)>,
    /// How often it was lost.
    pub losses: u32,
}

impl Pacer {
    /// How it stands between this pacer and the store it shares; `None` for a pacer of this process alone.
    pub fn standing(&self) -> Option<Standing> {
        let now = self.inner.now();
        let standing = self.inner.engine().store.standing()?;
        Some(Standing {
            place: standing.place,
            members: standing.members,
            lost: standing.lost.map(|(since, why)| (now.since(since), why)),
            losses: standing.losses,
        })
    }
}
