//! The keys of `guard.toml`.

/// Every key of `guard.toml`, by its table, with what it means.
pub const KEYS: &[(&str, &[(&str, &str)])] = &[
    (
        "",
        &[
            (
                "max_in_flight",
                "requests served at once: a number, or `\"auto\"` to learn it; without it as many as come",
            ),
            ("queue", "how many may wait for a place in flight; 0, the default, sheds them at once"),
            ("queue_time", "the longest one waits for a place: `\"500ms\"`"),
            ("exempt", "requests that nothing holds back: `[\"/healthz\", \"GET /ready\"]`"),
            ("status", "one status for every refusal: `503`"),
            ("refused_status", "the status of one whom a rate refused; 429 unless given"),
            ("shed_status", "the status of one for whom no place was free; 503 unless given"),
            ("ratelimit_fields", "whether answers that were let in carry RateLimit fields; refusals always do"),
            ("dry_run", "whether nothing is refused, only counted"),
            ("on_store_failure", "what holds while a shared store is out of reach: `\"local\"` or `\"admit\"`"),
            ("key", "the table below: whom a request counts as"),
            ("limit", "the tables below: the limits"),
        ],
    ),
    (
        "key",
        &[
            ("by", "`\"address\"`, or `\"header:X-Api-Key\"`: the value of a field, and the address without it"),
            ("ipv6_prefix", "how many leading bits of an IPv6 address are one client's; 64 unless given"),
            ("trusted_proxies", "networks whose forwarded field is believed: `[\"10.0.0.0/8\"]`; none unless given"),
            ("trusted_hops", "instead of that, how many proxies stand before this server"),
            ("forwarded", "which field the proxies write: `\"x-forwarded-for\"` (the default) or `\"forwarded\"`"),
        ],
    ),
    (
        "limit",
        &[
            ("name", "what answers and metrics call it; its path, or `default`, unless given"),
            ("path", "only this path and those below it: `\"/login\"`"),
            ("methods", "only these methods: `[\"POST\"]`; GET means HEAD as well"),
            ("host", "only this host, without its port"),
            ("rate", "`\"10/s\"`, `\"100/min\"`, `\"1/60s\"`, or a number a second"),
            (
                "burst",
                "how many may come at once after a rest (in mode `delay`: how many more may wait); the rate's count unless given",
            ),
            ("key", "`\"client\"`, the default: each client by itself; `\"all\"`: all clients together"),
            (
                "mode",
                "`\"reject\"`, the default: a burst, then the rate, the rest is refused; `\"delay\"`: the burst waits for its turn; `\"window\"`: so many in each window",
            ),
            ("cost", "how much of the limit one request takes; 1 unless given"),
        ],
    ),
];
