//! What each law lets in.

use super::*;

#[test]
fn bucket_gives_burst_and_then_the_rate_to_the_instant() {
    let mut host = host("kind = 'bucket'\nrate = '10/s'\nburst = 20");
    assert_eq!(greedy(&mut *host, 0, 1), 20);
    assert_eq!(greedy(&mut *host, 1, 100), 0, "not before a tenth of a second");
    assert_eq!(greedy(&mut *host, 100, 101), 1, "and then at once");
    assert_eq!(greedy(&mut *host, 101, 60_001), 599);
    // Idle for long: a burst again and no more.
    assert_eq!(greedy(&mut *host, 100_000, 100_001), 20);
}

#[test]
fn bucket_of_which_one_asks_at_its_rate_never_refuses() {
    let mut host = host("kind = 'bucket'\nrate = '10/s'\nburst = 1");
    let mut rng = dice(1);
    assert!((0..10_000).all(|n| host.arrives(ms(n * 100), US, &mut rng).status == Some(200)));
}

#[test]
fn window_counts_from_the_first_request_after_the_last_one_ended() {
    let mut host = host("kind = 'window'\ncount = 60\nspan = '1min'");
    assert_eq!(greedy(&mut *host, 10_000, 70_000), 60);
    assert_eq!(greedy(&mut *host, 70_000, 70_001), 60, "it ended at 70 s, and this one begins there");
    assert_eq!(greedy(&mut *host, 100_000, 130_000), 0);
    assert_eq!(greedy(&mut *host, 150_000, 209_999), 60);
    assert_eq!(greedy(&mut *host, 209_999, 210_000), 0, "begun at 150 s, not at 130 s");
    assert_eq!(greedy(&mut *host, 210_000, 210_001), 60);
}

#[test]
fn window_of_the_clock_begins_whether_anybody_asks_or_not() {
    let mut host = host("kind = 'window'\ncount = 5\nspan = '10s'\nbegins = 'clock'\nphase = '3s'");
    assert_eq!(greedy(&mut *host, 2_000, 2_001), 5);
    assert_eq!(greedy(&mut *host, 3_000, 3_001), 5);
    assert_eq!(greedy(&mut *host, 52_999, 53_000), 5, "a window ends there");
    assert_eq!(greedy(&mut *host, 53_000, 63_000), 5);
    assert_eq!(greedy(&mut *host, 63_000, 93_000), 15);
}

#[test]
fn workers_of_one_kind_are_as_fast_as_arithmetic_says() {
    // Four workers, 200 ms each, always the same: 20 a second whatever the number of clients, and a client's latency is
    // clients / 20 s (Little); the first ones, who find nobody, take a hundredth off.
    for clients in [1, 2, 4, 8, 40] {
        let mut host = host("kind = 'workers'\nworkers = 4\nservice = '200ms'\nservice_sigma = 0");
        let served = closed_loop(&mut *host, clients, 10_000, 110_000);
        assert_eq!(served, 500 * clients.min(4) as u64, "{clients} clients");
        let queue = host.queue();
        let wait = queue.waited.as_secs_f64() / queue.requests as f64;
        let least = (clients as f64 / 20.0 - 0.2).max(0.0);
        assert!((wait - least).abs() < 0.02, "{clients} clients wait {wait} s, not {least} s");
        assert_eq!(queue.service, Duration::from_millis(200));
    }
}

#[test]
fn workers_in_a_closed_loop_serve_what_their_number_and_service_time_say() {
    let mut host = host("kind = 'workers'\nworkers = 4\nservice = '200ms'");
    let served = closed_loop(&mut *host, 12, 0, 1_000_000) as f64;
    assert!((served / host.capacity(ms(0), ms(1_000_000)) - 1.0).abs() < 0.02, "{served}");
}

#[test]
fn workers_refuse_what_is_beyond_their_depth() {
    let mut host =
        host("kind = 'workers'\nworkers = 2\nservice = '1s'\nservice_sigma = 0\ndepth = 3\nadvice = 'exact'");
    let mut rng = dice(1);
    let waits: Vec<_> = (0..5).map(|_| host.arrives(ms(0), US, &mut rng).after.as_millis()).collect();
    assert_eq!(waits, [1_000, 1_000, 2_000, 2_000, 3_000]);
    let refused = host.arrives(ms(0), US, &mut rng);
    assert_eq!((refused.status, refused.after), (Some(503), Duration::from_millis(5)));
    assert_eq!(refused.fields, [("retry-after", "1".to_owned())]);
    assert_eq!(host.arrives(ms(1_000), US, &mut rng).after, Duration::from_secs(2));
}
