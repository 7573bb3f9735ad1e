//! What the profiles and modes mean (P2, P3, P10, C11).

use comity::{Ask, Pacer, Partial, Policy, Profile, RequestKind};

use crate::support::{about, fixed, gaps, ms, refused, served, starts, url};

/// How many of ten requests start at once.
fn at_once(pacer: &Pacer, page: &str) -> usize {
    // Each is settled at once, so that no place in flight is what holds the others back.
    let start = |_| pacer.try_acquire(&url(page)).unwrap().map(served);
    (0..10).map(start).filter(Result::is_ok).count()
}

#[tokio::test(start_paused = true)]
async fn p2_only_navigations_are_paced_by_the_browse_profile() {
    let pacer = Pacer::builder(Profile::Browse).template(fixed(1000)).local();
    let page = url("http://a.example/");
    served(pacer.acquire(&page).await.unwrap());
    let image = Ask::new(&page).kind(RequestKind::Subresource);
    assert!(pacer.try_acquire(image).unwrap().is_ok());
    assert!(pacer.try_acquire(&page).unwrap().is_err());
    let api = Pacer::builder(Profile::Api).template(fixed(1000)).local();
    served(api.acquire(&page).await.unwrap());
    assert!(api.try_acquire(image).unwrap().is_err(), "in other profiles all are");
}

#[tokio::test(start_paused = true)]
async fn p3_loopback_is_exempt_by_the_name_asked_for_unless_a_person_wrote_limits() {
    let local = [
        "http://localhost:8080/",
        "http://app.localhost/",
        "http://127.0.0.1/",
        "http://127.9.9.9/",
        "http://[::1]:81/",
    ];
    let builder = Pacer::builder(Profile::Crawl).presets().unwrap();
    let (default, paced) = (builder.local(), builder.clone().pace_loopback(true).local());
    for page in local {
        assert_eq!(at_once(&default, page), 10, "{page}");
        assert_eq!(at_once(&paced, page), 1, "{page}");
        drop(refused(default.acquire(&url(page)).await.unwrap(), 503, None));
        assert_eq!(at_once(&default, page), 10, "nothing is learned of {page}");
    }
    assert_eq!(at_once(&default, "http://a.example:8080/"), 1, "wherever its name resolves to");
    assert_eq!(at_once(&default, "http://localhost.example/"), 1);
    let rule = builder.clone().rule(comity::Pattern::parse("localhost").unwrap(), fixed(500)).local();
    assert_eq!(at_once(&rule, "http://localhost/"), 1, "limits a person wrote hold there too");
    assert_eq!(at_once(&rule, "http://127.0.0.1/"), 10);
}

#[tokio::test(start_paused = true)]
async fn p10_unset_is_pressure_zero_is_off_and_a_number_is_fixed() {
    let mode = |limits: Partial| Pacer::builder(Profile::Browse).template(limits).local();
    let page = "http://a.example/";

    let ramp = starts(&mode(Partial::default()), page, 60).await;
    let spacing = gaps(&ramp);
    assert!(spacing[..8].iter().all(|gap| gap.is_zero()), "a head start: {spacing:?}");
    assert!(spacing[50] > spacing[15], "then a ramp: {spacing:?}");

    let off = mode(Partial { policy: Some(Policy::Off), ..Partial::default() });
    assert_eq!(starts(&off, page, 60).await.iter().collect::<std::collections::BTreeSet<_>>().len(), 1);

    let fixed = mode(fixed(200));
    let permit = fixed.acquire(&url(page)).await.unwrap();
    drop(refused(permit, 503, None));
    let spacing = gaps(&starts(&fixed, page, 30).await);
    assert!(spacing.iter().all(|gap| about(*gap, ms(200))), "no ramp, and responses never change it: {spacing:?}");

    for pacer in [off, fixed] {
        tokio::time::advance(ms(1000)).await;
        drop(refused(pacer.acquire(&url(page)).await.unwrap(), 503, Some("30")));
        let wait = pacer.outlook(&url(page)).unwrap().next_start;
        assert_eq!(wait, Some(ms(30_000)), "Retry-After holds in every mode");
        pacer.forget(&url(page));
        pacer.set_crawl_delay(&url(page), ms(40_000)).unwrap();
        let wait = pacer.outlook(&url(page)).unwrap().next_start;
        assert_eq!(wait, Some(ms(40_000)), "and so does a Crawl-delay");
    }
}

#[tokio::test(start_paused = true)]
async fn p10_no_policy_goes_faster_than_what_a_person_set() {
    let learning =
        [Policy::Aimd(comity::AimdSettings::default()), Policy::Adaptive(comity::AdaptiveSettings::default())];
    for policy in [Policy::pressure(), Policy::refusal()].into_iter().chain(learning) {
        let name = policy.name();
        let limits = Partial { interval: Some(ms(2000)), policy: Some(policy), ..Partial::default() };
        let pacer = Pacer::builder(Profile::Api).template(limits).local();
        let spacing = gaps(&starts(&pacer, "http://a.example/", 40).await);
        assert!(spacing.iter().all(|gap| *gap >= ms(1997)), "{name}: {spacing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn c11_a_template_is_per_host_a_group_and_the_star_are_shared() {
    let hosts = ["http://a.example.org/", "http://b.example.org/", "http://example.org/"];
    for (table, expected) in [("[default]", 6), ("[limits.\"*\"]", 2), ("[limits.\"*.example.org\"]", 2)] {
        let paced_by = "policy = \"refusal\"";
        let text = match table {
            "[default]" => format!("{table}\nin_flight = 2\n{paced_by}"),
            _ => format!("[default]\n{paced_by}\n{table}\nin_flight = 2"),
        };
        let config = comity::config::Config::parse(&text).unwrap();
        let pacer = config.apply(Pacer::builder(Profile::Api)).local();
        let permits: Vec<_> = hosts
            .iter()
            .flat_map(|host| (0..5).map(|_| pacer.try_acquire(&url(host)).unwrap()))
            .filter_map(Result::ok)
            .collect();
        assert_eq!(permits.len(), expected, "{table}");
        let told = pacer.explain(&url(hosts[0])).unwrap().to_string();
        assert!(told.contains(&format!("in_flight = 2  ({table})")), "{told}");
    }
}
