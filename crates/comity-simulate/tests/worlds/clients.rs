//! Clients: together at one pace or apart at one each; never more workers than there are.

use crate::support::{arrived, bucket, host, outcome};

#[test]
fn six_that_share_a_store_keep_one_pace_and_six_strangers_six() {
    let clients = |coordinated| {
        let text = bucket(&format!("[clients]\ncount = 6\ncoordinated = {coordinated}\n"));
        host(&text, "interval 1s")
    };
    let together = clients(true);
    assert_eq!(arrived(&together), 120);
    assert!(together.served_by_client.iter().all(|served| *served == 20), "{:?}", together.served_by_client);
    let apart = clients(false);
    assert_eq!(arrived(&apart), 720);
    assert_eq!(apart.served_by_client, vec![120; 6]);
}

#[test]
fn places_in_flight_are_counted_together_where_a_store_is_shared() {
    // Each answer takes a second, exactly: what is served is what is in flight.
    let text = |coordinated| {
        format!(
            "name = 'slow'\ntime = '60s'\n[[host]]\nname = 'api.example'\nkind = 'workers'\nworkers = 100\nservice = '1s'\n\
             service_sigma = 0\n[clients]\ncount = 3\ncoordinated = {coordinated}\nin_flight = 4\n"
        )
    };
    let starts = |coordinated| arrived(&host(&text(coordinated), "interval 1ms"));
    assert_eq!(starts(true), 4 * 60);
    assert_eq!(starts(false), 3 * 4 * 60);
}

#[test]
fn a_crawler_has_no_more_in_flight_than_workers() {
    let text = "name = 'crawl'\ntime = '60s'\nreport = 'together'\n[[host]]\nname = 'host-{}.example'\nhosts = 50\n\
                kind = 'workers'\nworkers = 10\nservice = '1s'\nservice_sigma = 0\n[clients]\nin_flight_total = 7\n";
    for policy in ["interval 100ms", "fixed 100ms", "adaptive"] {
        let outcome = outcome(text, policy, 1);
        assert_eq!(outcome.hosts.len(), 1, "all of them are told together");
        assert_eq!(arrived(&outcome.hosts[0]), 7 * 60, "{policy}");
    }
}

#[test]
fn workers_go_to_all_hosts_alike() {
    let text = "name = 'crawl'\ntime = '60s'\n[[host]]\nname = 'host-{}.example'\nhosts = 6\n\
                kind = 'workers'\nworkers = 10\nservice = '1s'\nservice_sigma = 0\n[clients]\nin_flight_total = 3\n";
    for policy in ["interval 100ms", "fixed 100ms"] {
        let outcome = outcome(text, policy, 1);
        let each: Vec<u64> = outcome.hosts.iter().map(arrived).collect();
        assert_eq!(each, vec![30; 6], "{policy}");
    }
}

#[test]
fn names_behind_one_limit_share_it() {
    let text = "name = 'shops'\ntime = '60s'\n[[host]]\nname = 'shop-{}.example'\nhosts = 5\nbehind = 'shops'\n\
                kind = 'bucket'\nrate = '10/s'\nburst = 1\n";
    let outcome = outcome(text, "interval 100ms", 1);
    assert_eq!(outcome.hosts.len(), 5);
    let sum = |of: fn(&comity_simulate::outcome::Minute) -> u64| -> u64 {
        outcome.hosts.iter().flat_map(|host| &host.minutes).map(of).sum()
    };
    assert_eq!(sum(|minute| minute.arrived), 5 * 600);
    assert!(sum(|minute| minute.served) <= 601, "{}", sum(|minute| minute.served));
    let capacity: f64 = outcome.hosts.iter().map(|host| host.minutes[0].capacity).sum();
    assert!((capacity - 600.0).abs() < 1e-6);
}

#[test]
fn a_program_of_one_list_asks_all_hosts_at_one_pace() {
    let text = "name = 'list'\ntime = '60s'\n[[host]]\nname = 'host-{}.example'\nhosts = 5\nkind = 'bucket'\nrate = '100/s'\n\
                burst = 100\n";
    let each = |policy| -> Vec<u64> { outcome(text, policy, 1).hosts.iter().map(arrived).collect() };
    assert_eq!(each("curl 100ms"), vec![120; 5]);
    assert_eq!(each("fixed 100ms"), vec![600; 5], "one that paces each host by itself");
}

#[test]
fn a_place_that_comes_free_is_used_at_once() {
    // One in flight: each start waits for the answer before it, and for nothing else.
    let text = "name = 'one'\ntime = '60s'\n[[host]]\nname = 'api.example'\nkind = 'workers'\nworkers = 1\nservice = '250ms'\n\
                service_sigma = 0\n[clients]\nin_flight = 1\n";
    assert_eq!(arrived(&host(text, "interval 1ms")), 240);
}
