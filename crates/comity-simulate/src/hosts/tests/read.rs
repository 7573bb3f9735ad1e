//! Tables of hosts: what is said wrong is named.

use serde::Deserialize;

use super::*;

#[test]
fn what_is_wrong_is_named_with_its_key_its_value_and_what_is_allowed() {
    let cases = [
        ("rate = '10/s'", "`kind` is missing"),
        ("kind = 'pail'", "kind = \"pail\": allowed is bucket, window"),
        ("kind = 'bucket'\nrate = '0/s'\nburst = 1", "rate = \"0/s\": allowed is a rate above zero"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 0", "burst = 0: allowed is 1 to 1000000"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 'few'", "`burst`"),
        ("kind = 'bucket'\nrate = '1/s'", "`burst`"),
        ("kind = 'bucket'\nrate = '1/s'\nbrust = 2", "`brust`"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 2\nlatency = 'slow'", "latency = \"slow\": allowed is a span of time"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 2\nsigma = 9.5", "sigma = 9.5: allowed is 0 to 3"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 2\nrefusal = 200", "refusal = \"200\": allowed is a status from 400"),
        ("kind = 'bucket'\nrate = '1/s'\nburst = 2\nadvice = 'wise'", "`advice`"),
        (
            "kind = 'bucket'\nrate = '1/s'\nburst = 2\nadvice = { too_short = 2.0 }",
            "advice.too_short = 2: allowed is 0 to 1",
        ),
        ("kind = 'window'\ncount = 5\nspan = '0s'", "span = \"0s\": allowed is a span of time above zero"),
        ("kind = 'window'\ncount = 5\nspan = '1s'\nphase = '1s'", "phase = \"1s\": allowed is none"),
        ("kind = 'window'\ncount = 5\nspan = '1s'\nbegins = 'never'", "`begins`"),
        ("kind = 'mix'\ncached = 1\ncache = '5ms'\nworkers = 2\nservice = '1s'", "cached = 1: allowed is 0 to 0.9999"),
        ("kind = 'cap'\nin_flight = 2\nquota_fields = ['ratelimit']", "quota_fields"),
        ("kind = 'cap'\nin_flight = 2\nlatency = '0s'", "latency = \"0s\""),
        ("kind = 'cap'\nin_flight = 2\n[[then]]\nin_flight = 3", "then: `at` is missing"),
        ("kind = 'cap'\nin_flight = 2\n[[then]]\nat = '2s'\nin_flight = 0", "then.in_flight = 0"),
        (
            "kind = 'cap'\nin_flight = 2\n[[then]]\nat = '2s'\n[[then]]\nat = '1s'",
            "then.at = 1s: allowed is a time after 2s",
        ),
        ("kind = 'cap'\nin_flight = 2\n[crowd]\nrate = 'x'", "crowd.rate = \"x\""),
        ("kind = 'cap'\nin_flight = 2\n[[crowd.then]]\nat = '1s'\nrate = '1/s'", "`rate`"),
        (
            "kind = 'cap'\nin_flight = 2\n[[outage]]\nfrom = '5s'\nto = '5s'",
            "outage.to = 5s: allowed is a time after 5s",
        ),
        ("kind = 'cap'\nin_flight = 2\n[[outage]]\nfrom = '5s'\nto = '6s'\nwith = 'noise'", "outage.with = \"noise\""),
    ];
    for (toml, expected) in cases {
        let why = try_host(toml).expect_err(toml);
        assert!(why.contains(expected), "{toml}\nsays: {why}\nnot: {expected}");
    }
}

#[test]
fn numbers_are_seconds_and_requests_a_second() {
    let mut host = host("kind = 'bucket'\nrate = 2\nburst = 1\nlatency = 0.25\nsigma = 0");
    assert_eq!(host.arrives(ms(0), US, &mut dice(1)).after, Duration::from_millis(250));
    assert_eq!(host.capacity(ms(0), ms(1_000)), 2.0);
}

#[test]
fn a_scenario_keeps_keys_of_its_own_beside_the_models() {
    #[derive(Deserialize)]
    struct Entry {
        name: String,
        #[serde(flatten)]
        model: Model,
    }
    #[derive(Deserialize)]
    struct File {
        host: Vec<Entry>,
    }
    let file: File = toml::from_str(
        "[[host]]\nname = 'a.example'\nkind = 'cap'\nin_flight = 2\n[host.crowd]\nrate = '1/s'\n[[host.then]]\nat = '300s'\nin_flight = 1\n\
         [[host]]\nname = 'b.example'\nkind = 'leaky'\nrate = '5/s'\ndepth = 2\n",
    )
    .unwrap();
    let names: Vec<_> = file.host.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a.example", "b.example"]);
    let mut groups = Groups::default();
    assert!(file.host.iter().all(|entry| entry.model.build(1, &mut groups).is_ok()));
    assert!(toml::from_str::<Entry>("name = 'a'\nkind = 'cap'\nin_flight = 2\ncolour = 'red'").is_err());
}
