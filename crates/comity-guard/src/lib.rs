//! The same courtesy from the server's side: a guard in front of a server.

pub mod answer;
pub mod key;
pub mod rules;

pub use answer::Answers;
pub use comity_core::guard::{FixedWindow, LeakyBucket, Limit, ParameterError, TokenBucket};
pub use key::{ClientKey, ForwardedField, KeyBy, Network};
pub use rules::{Counts, InFlight, OnStoreFailure, Queue, Route, RouteError, Rule, Settings, SettingsError};
