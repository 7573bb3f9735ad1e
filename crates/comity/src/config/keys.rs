//! The keys of a table of limits.

/// Every key of `[default]` and of a `[limits."…"]` table, with what it means.
pub const KEYS: &[(&str, &str)] = &[
    (
        "interval",
        "least time between two starts: `\"500ms\"`, `\"1.5s\"`, `\"2m\"`, or a number of seconds; 0 is no spacing",
    ),
    ("per_second", "the same as a rate: `2`, `0.2`"),
    (
        "rate",
        "the same as a rate over any time: `\"15/min\"`, `\"1/5s\"`, `\"1/day\"`; only one of the three may be given",
    ),
    ("burst", "starts that may come at once after a rest; 1 unless given"),
    ("in_flight", "requests in flight at most, from start to response headers"),
    ("windows", "true sliding windows, all of which hold: `[\"20:1\", \"100:120\"]` (COUNT:SECONDS) or `[\"60/1h\"]`"),
    ("policy", "how the pace is learned: `off`, `fixed`, `pressure`, `aimd`, `adaptive`, `refusal`"),
    ("floor", "the policy never goes faster (`adaptive`, `aimd`, `refusal`)"),
    (
        "ceiling",
        "the policy never goes slower (`adaptive`, `aimd`); while a host refuses, trials of `adaptive` may be farther apart",
    ),
    ("refuse_also", "statuses that refuse, beside 429, 503 and 405 with Retry-After: `[403]`"),
    ("never_refuse", "statuses that never refuse: `[503]`"),
    (
        "refuse_when",
        "answers that refuse by a header field: `[{ status = 200, header = \"MediaWiki-API-Error\", contains = \"maxlag\" }]`",
    ),
    ("min_refusal_wait", "how long a refusal without advice pauses the host; it doubles on repetition"),
    ("reset_headers", "header fields that say how long to wait, asked after Retry-After: `[\"X-Retry-In\"]`"),
    ("riot", "whether `X-App-Rate-Limit: 20:1,100:120` declares windows"),
    ("retry_after_limit", "a request asked to wait longer gives up at once"),
    ("quota_hold_limit", "the longest an advertised quota on a served answer may hold the host"),
    ("crawl_delay_limit", "a host whose robots.txt asks for more is skipped"),
    ("retries", "how often a refused request is tried again"),
    ("retry_unsafe_503", "whether a 503 may be retried for methods that are not idempotent"),
    ("retry_statuses", "statuses retried after a second where a retry count was asked for, beside 504"),
    ("min_refetch_age", "the least age of what is kept before `comity fetch` asks for it again"),
    ("override_preset", "these limits win over a preset's stricter ones"),
];
