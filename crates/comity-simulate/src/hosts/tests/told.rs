//! What hosts say, read back by the real reader of signals.

use comity_core::signal::{self, Quota, Reading, RetryAfter, Signal};

use super::*;

fn read(now: Instant, reply: &Reply) -> Signal {
    signal::read(reply.status.unwrap_or(0), fields(reply), wall(now), &Reading::default())
}

fn fields(reply: &Reply) -> impl Iterator<Item = (&str, &[u8])> + Clone {
    reply.fields.iter().map(|(name, value)| (*name, value.as_bytes()))
}

/// The wait that the next refusal from an instant on asks for.
fn wait(host: &mut dyn Host, at: u64) -> Option<Duration> {
    let mut rng = dice(1);
    let refusal =
        (0..1_000).map(|_| host.arrives(ms(at), US, &mut rng)).find(|reply| reply.status != Some(200)).unwrap();
    assert_eq!(refusal.status, Some(429));
    let read = read(ms(at), &refusal);
    assert!(!matches!(signal::retry_after(fields(&refusal), wall(ms(at))), RetryAfter::NoAdvice(_)));
    read.authoritative.refusal.unwrap().wait
}

const WINDOW: &str = "kind = 'window'\ncount = 5\nspan = '60s'";

#[test]
fn exact_advice_is_the_time_until_a_request_is_let_in_and_less_than_a_second_more() {
    let laws = [
        "kind = 'bucket'\nrate = '12/min'\nburst = 3",
        WINDOW,
        "kind = 'sliding'\ncount = 5\nspan = '60s'",
        "kind = 'leaky'\nrate = '12/min'\ndepth = 3",
        "kind = 'cap'\nin_flight = 2\nlatency = '7s'\nsigma = 0",
        "kind = 'workers'\nworkers = 2\nservice = '7s'\ndepth = 3\nrefusal = 429",
        "kind = 'workers'\nworkers = 2\nservice = '7s'\ndepth = 0\nrefusal = 429",
    ];
    for law in laws {
        for at in [0, 1_300, 2_000] {
            let advice = |host: &mut dyn Host| wait(host, at).unwrap().as_millis() as u64;
            let mut asks_again = host(&format!("{law}\nadvice = 'exact'"));
            let told = advice(&mut *asks_again);
            assert_eq!(asks_again.arrives(ms(at + told), US, &mut dice(1)).status, Some(200), "{law}");
            let mut impatient = host(&format!("{law}\nadvice = 'exact'"));
            let told = advice(&mut *impatient);
            assert_ne!(
                impatient.arrives(ms(at + told - 1_000), US, &mut dice(1)).status,
                Some(200),
                "{law}, {told} ms"
            );
        }
    }
}

#[test]
fn advice_that_is_wrong_is_wrong_by_what_is_said() {
    let said = |advice: &str| wait(&mut *host(&format!("{WINDOW}\nadvice = {advice}")), 500).map(|wait| wait.as_secs());
    assert_eq!(said("'none'"), None);
    assert_eq!(said("'exact'"), Some(60));
    assert_eq!(said("{ too_short = 0.25 }"), Some(15));
    assert_eq!(said("{ too_short = 0.0 }"), Some(1));
    assert_eq!(said("{ too_long = 3 }"), Some(180));
    assert_eq!(said("{ fixed = '30s' }"), Some(30));
}

#[test]
fn a_date_counts_from_the_servers_own_clock_which_is_skewed() {
    let said = |clock: &str| wait(&mut *host(&format!("{WINDOW}\nadvice = {{ date = {{ {clock} }} }}")), 500).unwrap();
    // The date is in whole seconds: up to a second later than it need be, plus what its Date leaves out.
    for clock in ["", "clock_ahead = '90s'", "clock_behind = '1h'", "own_date = false"] {
        let told = said(clock).as_secs_f64();
        assert!((60.0..62.0).contains(&told), "{clock}: {told} s");
    }
    assert!((150.0..152.0).contains(&said("clock_ahead = '90s', own_date = false").as_secs_f64()));
}

#[test]
fn quota_fields_say_on_every_answer_what_is_left_and_until_when() {
    for family in ["ratelimit", "x-ratelimit", "x-ratelimit-epoch"] {
        let mut host = host(&format!("{WINDOW}\nquota_fields = ['{family}']"));
        let window = (family == "ratelimit").then_some(Duration::from_secs(60));
        for (at, remaining) in [(0, 4), (10_000, 3), (20_000, 2), (30_000, 1), (40_000, 0), (50_000, 0)] {
            let reply = host.arrives(ms(at), US, &mut dice(1));
            let resets_in = Some(Duration::from_millis(60_000 - at));
            let quota = Quota { limit: Some(5), window, remaining: Some(remaining), resets_in };
            assert_eq!(read(ms(at), &reply).authoritative.quotas, [quota], "{family} at {at}");
        }
    }
}

#[test]
fn quota_fields_of_a_bucket_tell_its_rate() {
    for (law, limit, window) in [("rate = '10/s'\nburst = 20", 20, 2), ("rate = '10/s'\nburst = 5", 10, 1)] {
        let mut host = host(&format!("kind = 'bucket'\n{law}\nquota_fields = ['ratelimit']"));
        let reply = host.arrives(ms(0), US, &mut dice(1));
        let quotas = read(ms(0), &reply).authoritative.quotas;
        assert_eq!(quotas.len(), 1);
        assert_eq!((quotas[0].limit, quotas[0].window), (Some(limit), Some(Duration::from_secs(window))));
    }
}

#[test]
fn several_families_and_advice_stand_beside_each_other() {
    let mut host = host(&format!("{WINDOW}\nadvice = 'exact'\nquota_fields = ['ratelimit', 'x-ratelimit']"));
    assert_eq!(wait(&mut *host, 0), Some(Duration::from_secs(60)));
}

#[test]
fn a_served_answer_of_a_host_that_says_nothing_allocates_nothing() {
    let reply = host(WINDOW).arrives(ms(0), US, &mut dice(1));
    assert_eq!(reply.fields.capacity(), 0);
}

#[test]
fn an_outage_says_when_it_ends() {
    let mut host = host(&format!("{WINDOW}\n[[outage]]\nfrom = '10s'\nto = '25s'\nadvice = 'exact'"));
    let reply = host.arrives(ms(12_500), US, &mut dice(1));
    assert_eq!(reply.status, Some(503));
    assert_eq!(read(ms(12_500), &reply).authoritative.refusal.unwrap().wait, Some(Duration::from_secs(13)));
    assert_eq!(host.arrives(ms(25_000), US, &mut dice(1)).status, Some(200));
}
