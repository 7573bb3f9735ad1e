//! What a claim costs: claims a second and microseconds a slot on one connection, beside two scripts of the usual kinds that
//! were written for this comparison from their public definitions.
//!
//! `cargo run --release -p comity-redis --example claims -- redis://127.0.0.1:6379`

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use comity_core::guard::{NamedLimit, TokenBucket, Verdict};
use comity_core::limits::all::Claim;
use comity_core::limits::{Limits, Partial, Route};
use comity_core::policy::Policy;
use comity_core::scope::{Pattern, Rules, Target};
use comity_redis::{BucketSettings, Redis, RedisBuckets, Settings};
use comity_store::guard::{Buckets as _, Charge, ChargeError, Charges, Key, Taken};
use comity_store::{Asked, Claimed, Memory, MemorySettings, Shared, Store};

/// A cell rate limit as a hash of one instant, one round trip.
const GCRA: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local allowed = tat - interval * (burst - 1)
if now < allowed then return string.format('%.0f', allowed - now) end
redis.call('SET', KEYS[1], string.format('%.0f', tat + interval), 'PX', math.ceil((tat + interval - now) / 1000) + 1)
return '0'
";

/// Reservoir, running count and next start in a hash of settings, as job queues keep them.
const QUEUE: &str = "
local s = redis.call('HMGET', KEYS[1], 'nextRequest', 'minTime', 'maxConcurrent', 'running', 'reservoir')
local now = tonumber(ARGV[1])
local running = tonumber(s[4] or 0)
local most = tonumber(s[3] or -1)
local expired = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now)
if #expired > 0 then redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now) end
if most >= 0 and running + 1 > most then return {0, -1} end
local start = math.max(now, tonumber(s[1] or 0))
redis.call('HSET', KEYS[1], 'nextRequest', string.format('%.0f', start + tonumber(ARGV[2])), 'running', running)
redis.call('ZADD', KEYS[2], now + 300000, ARGV[3])
redis.call('PEXPIRE', KEYS[1], 600000)
redis.call('PEXPIRE', KEYS[2], 600000)
return {1, string.format('%.0f', start - now)}
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".to_owned());
    let mut lines = vec![format!("{:<44} {:>11} {:>9} {:>12}", "", "claims/s", "µs each", "round trips")];
    let mut tell = |name: &str, claims: u32, took: Duration| {
        let each = took.as_secs_f64() * 1e6 / f64::from(claims);
        lines.push(format!("{name:<44} {:>11.0} {each:>9.1} {:>12}", 1e6 / each, 1));
    };
    for scopes in [1, 3] {
        for under_way in [1, 100] {
            let mut bench = Bench::new(&url, scopes)?;
            let took = bench.run(CLAIMS, under_way);
            tell(&format!("comity, {scopes} scope(s), {under_way} under way"), CLAIMS, took);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for limits in [1, 3] {
        for under_way in [1, 100] {
            let took = runtime.block_on(takes(&url, limits, under_way))?;
            tell(&format!("guard, {limits} limit(s), {under_way} under way"), CLAIMS, took);
        }
    }
    for (name, script, keys) in [("cell rate", GCRA, 1), ("job queue", QUEUE, 2)] {
        for under_way in [1, 100] {
            let took = runtime.block_on(other(&url, script, keys, under_way))?;
            tell(&format!("{name} script, 1 limit, {under_way} under way"), CLAIMS, took);
        }
    }
    #[expect(clippy::print_stdout, reason = "the table is what it is run for")]
    for line in lines {
        println!("{line}");
    }
    Ok(())
}

struct Bench {
    memory: Memory,
    redis: Redis,
    routes: Vec<Route>,
    came: Arc<(Mutex<bool>, Condvar)>,
}

impl Bench {
    fn new(url: &str, scopes: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let settings = Settings {
            prefix: format!("bench{}-{scopes}:1", std::process::id()),
            deadline: Duration::from_secs(2),
            ..Settings::default()
        };
        let mut redis = Redis::open(url, settings)?;
        let came = Arc::new((Mutex::new(false), Condvar::new()));
        let told = Arc::clone(&came);
        redis.on_news(Arc::new(move || {
            if let Ok(mut came) = told.0.lock() {
                *came = true;
                told.1.notify_all();
            }
        }));
        let spaced = Partial { interval: Some(Duration::from_micros(1)), ..Partial::default() };
        let mut rules = Rules::builder(Limits { policy: Policy::refusal(), ..Limits::none() });
        rules.template(spaced.clone());
        if scopes == 3 {
            for pattern in ["*.example.org", "*.a.example.org"] {
                rules.rule(Pattern::parse(pattern)?, spaced.clone());
            }
        }
        let mut memory = Memory::new(Arc::new(rules.build()), MemorySettings::default());
        let now = redis.clock()();
        let mut routes = Vec::new();
        for n in 0..100 {
            routes.push(memory.route(now, &Target::host(&format!("h{n}.a.example.org")), None)?);
        }
        Ok(Self { memory, redis, routes, came })
    }

    /// So many claims, so many of them without an answer at a time.
    fn run(&mut self, claims: u32, under_way: u32) -> Duration {
        let clock = self.redis.clock();
        let began = real_now();
        let (mut asked, mut answered) = (0, 0);
        while answered < claims {
            while asked < claims && asked - answered < under_way {
                let now = clock();
                let route = &self.routes[asked as usize % self.routes.len()];
                let claim = Claim::at_once(route.members(), 1, now);
                let asking = Asked { id: u64::from(asked), waiting: 1 };
                asked += 1;
                if let Claimed::Now(_) = self.redis.claim(&mut self.memory, now, &claim, asking) {
                    answered += 1;
                }
            }
            let news = self.redis.news(&mut self.memory, clock());
            for (id, answer) in &news.answers {
                answered += 1;
                if let Ok(grant) = answer {
                    let route = &self.routes[*id as usize % self.routes.len()];
                    self.redis.release(&mut self.memory, clock(), route.members(), grant);
                }
            }
            if news.answers.is_empty()
                && let Ok(came) = self.came.0.lock()
                && let Ok((mut came, _)) = self.came.1.wait_timeout_while(came, Duration::from_millis(5), |came| !*came)
            {
                *came = false;
            }
        }
        began.elapsed()
    }
}

/// Takes of a guard.
async fn takes(url: &str, limits: usize, under_way: u32) -> Result<Duration, Box<dyn std::error::Error>> {
    let prefix = format!("bench{}-guard:1", std::process::id());
    let settings = BucketSettings { prefix, deadline: Duration::from_secs(2), ..BucketSettings::default() };
    let buckets = RedisBuckets::open(url, settings)?;
    let clock = buckets.clock();
    let mut named = Vec::new();
    for nth in 0..limits {
        let limit = TokenBucket::new(1_000_000, 1000, Duration::from_millis(1))?;
        named.push(NamedLimit::new(&format!("l{nth}"), limit.into())?);
    }
    let one = async |n: u32| -> Result<Verdict, ChargeError> {
        let key = (n % 100).to_le_bytes();
        let charges: Vec<Charge<'_>> =
            named.iter().map(|limit| Ok(Charge { limit, key: Key::new(&key)?, cost: 1 })).collect::<Result<_, _>>()?;
        Ok(match buckets.take(clock(), Charges::new(&charges)?) {
            Taken::Now(verdict) => verdict,
            Taken::Later(verdict) => verdict.await,
        })
    };
    one(0).await?;
    let began = real_now();
    for batch in 0..CLAIMS / under_way {
        futures_util::future::try_join_all((0..under_way).map(|n| one(batch * under_way + n))).await?;
    }
    Ok(began.elapsed())
}

async fn other(url: &str, script: &str, keys: usize, under_way: u32) -> redis::RedisResult<Duration> {
    let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let script = redis::Script::new(script);
    let one = async |n: u32| -> redis::RedisResult<()> {
        let mut call = script.prepare_invoke();
        for key in 0..keys {
            call.key(format!("bench-other{keys}:{{{}}}:{key}", n % 100));
        }
        let _: redis::Value = call.arg(n).arg(1).arg(n).invoke_async(&mut connection.clone()).await?;
        Ok(())
    };
    one(0).await?;
    let began = real_now();
    for batch in 0..CLAIMS / under_way {
        futures_util::future::try_join_all((0..under_way).map(|n| one(batch * under_way + n))).await?;
    }
    Ok(began.elapsed())
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn real_now() -> Instant {
    Instant::now()
}

const CLAIMS: u32 = 20_000;
