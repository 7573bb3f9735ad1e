//! One limit: for which requests, counted for whom, and how much.

use std::fmt;

use comity_core::guard::{Limit, NamedLimit, ParameterError};

use super::Route;

/// A limit on a route.
///
/// Every rule that is about a request holds, all are asked before any is charged, and the answer names the one that asks
/// for the longest wait.
///
/// ```
/// use comity_guard::{Route, Rule, TokenBucket};
/// use std::time::Duration;
/// let each = TokenBucket::rate(1, Duration::from_secs(60), 20)?;
/// let rule = Rule::new("login", each)?.on(Route::all().path("/login")?);
/// assert_eq!(rule.to_string(), "login: any method /login: each client: 20 at once, then 1 per 60 s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    named: NamedLimit,
    route: Route,
    counts: Counts,
    cost: u32,
}

/// Whose requests a rule counts together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// Those of each client by itself.
    #[default]
    EachClient,
    /// Those of all clients.
    AllTogether,
}

impl Rule {
    /// A limit on every request, for each client by itself. Its name is what answers, metrics and shared stores call it;
    /// after a reload, a rule of the same name and limit goes on with its buckets.
    ///
    /// # Errors
    /// The name is empty, longer than 64 bytes or has other characters than letters, digits and `-_./*:`.
    pub fn new(name: &str, limit: impl Into<Limit>) -> Result<Self, ParameterError> {
        Ok(Self {
            named: NamedLimit::new(name, limit.into())?,
            route: Route::all(),
            counts: Counts::EachClient,
            cost: 1,
        })
    }

    /// Only on these requests.
    #[must_use]
    pub fn on(mut self, route: Route) -> Self {
        self.route = route;
        self
    }

    /// Over all clients together.
    #[must_use]
    pub fn all_together(mut self) -> Self {
        self.counts = Counts::AllTogether;
        self
    }

    /// What a request costs, one unless told otherwise.
    ///
    /// # Errors
    /// It is nothing, or more than the limit ever lets in at once (G2).
    pub fn cost(mut self, cost: u32) -> Result<Self, comity_core::guard::CostError> {
        self.named.limit().check_cost(cost)?;
        self.cost = cost;
        Ok(self)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.named.name()
    }

    /// Its limit and name.
    pub fn named(&self) -> &NamedLimit {
        &self.named
    }

    /// Which requests it is about.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// Whose requests it counts together.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// What a request costs.
    pub fn cost_of_one(&self) -> u32 {
        self.cost
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.counts {
            Counts::EachClient => "each client",
            Counts::AllTogether => "all clients together",
        };
        write!(f, "{}: {}: {whose}: {}", self.name(), self.route, self.named.limit())?;
        if self.cost > 1 { write!(f, "; a request costs {}", self.cost) } else { Ok(()) }
    }
}
