//! What a run does and when it gives up.

use std::time::Duration;

use comity::Pattern;

/// How a run behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Transfers at once, over all hosts.
    pub parallel: usize,
    /// How often a refused request is tried again; a number asked for also covers 504s and failures (T10). `None` leaves
    /// it to the host's limits.
    pub retries: Option<u32>,
    /// The longest an attempt may take, connecting and body included.
    pub max_time: Option<Duration>,
    /// The longest without a byte received: before an answer's headers, and between pieces of its body.
    pub idle_time: Duration,
    /// The longest a URL may wait for its host's turn, once it is next in its host's line.
    pub queue_timeout: Option<Duration>,
    /// A host that has refused for so long without serving anything is given up (D04).
    pub stall_time: Duration,
    /// A host that has not answered for so long, several times in a row, is given up.
    pub dead_time: Duration,
    /// Redirects followed for one URL.
    pub max_redirects: usize,
    /// Whether robots.txt is asked for and obeyed.
    pub robots: bool,
    /// The name robots.txt files know us by: the product token of the User-Agent.
    pub product_token: String,
    /// The longest Crawl-delay obeyed; a host that asks for more is skipped, unless `clamp_crawl_delay`.
    pub crawl_delay_limit: Duration,
    /// A Crawl-delay over the limit is cut to the limit instead of skipping the host.
    pub clamp_crawl_delay: bool,
    /// A host is left after so many answers in a row that were errors, 404s and 403s included (H19).
    pub stop_after_errors: Option<u32>,
    /// The run stops after so many refusals in such a time (H10).
    pub stop_when_limited: Option<(u32, Duration)>,
    /// Conditional requests from the last run's validators.
    pub if_newer: bool,
    /// The least age of what is kept before it is asked for again, by pattern (H12).
    pub min_refetch_age: Vec<(Pattern, Duration)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            parallel: 64,
            retries: None,
            max_time: None,
            idle_time: Duration::from_secs(60),
            queue_timeout: None,
            stall_time: Duration::from_secs(30 * 60),
            dead_time: Duration::from_secs(120),
            max_redirects: 10,
            robots: true,
            product_token: "comity".to_owned(),
            crawl_delay_limit: Duration::from_secs(120),
            clamp_crawl_delay: false,
            stop_after_errors: None,
            stop_when_limited: None,
            if_newer: false,
            min_refetch_age: Vec::new(),
        }
    }
}
