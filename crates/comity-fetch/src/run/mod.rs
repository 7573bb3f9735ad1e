//! A run over a list.

mod attempt;
mod ending;
mod job;
mod judge;
mod options;
mod robots;
mod robots_answer;
mod sites;
mod status;
mod view;
mod work;

pub use options::Options;
pub use status::{HostLine, Observer, SharedPace, Status};

use std::future::Future;

use comity::Pacer;

use crate::client::Client;
use crate::keep::{KeepError, Kept, Report};
use crate::list::List;
use crate::request::{Requests, SaveError};

/// Everything a run needs.
pub struct Fetch {
    /// Decides when each request may start.
    pub pacer: Pacer,
    /// Opens connections.
    pub client: Client,
    /// Makes requests.
    pub requests: Requests,
    /// Keeps the answers.
    pub kept: Kept,
    /// What to fetch.
    pub list: List,
    /// How.
    pub options: Options,
}

/// How a run ended.
#[derive(Debug)]
pub struct End {
    /// What became of every URL, by host.
    pub report: Report,
    /// Why it ended before its list did; `None` where every URL had its turn.
    pub stopped: Option<Stop>,
}

/// Why a run ended before its list did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A person stopped it.
    Interrupted,
    /// More refusals than the run was told to take (H10).
    Limited,
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// An output cannot be written.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// The cookie jar cannot be written.
    #[error(transparent)]
    Cookies(#[from] SaveError),
}

impl Fetch {
    /// Fetches the list. `stop` ends it early: nothing more is sent, and what is not done is reported as not checked.
    ///
    /// # Errors
    /// When an output cannot be written. What was kept until then is whole.
    pub async fn run(self, observer: &mut dyn Observer, stop: impl Future<Output = ()>) -> Result<End, FetchError> {
        let (run, inbox) = work::Run::new(self, observer);
        run.work(inbox, stop).await
    }
}
