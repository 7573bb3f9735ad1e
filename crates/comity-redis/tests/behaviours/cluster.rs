//! A cluster of three nodes.

use std::time::Duration;

use comity_core::limits::Partial;
use comity_core::limits::all::Origin;
use comity_store::{Readable, Shared};

use crate::member::{Member, least_gap, merged, real_now};
use crate::server::{Server, pause, rules, say, settings};

const MS: Duration = Duration::from_millis(1);

fn every(ms: u32) -> Partial {
    Partial { interval: Some(MS * ms), ..Partial::default() }
}

pub(crate) fn cluster() -> Vec<Server> {
    let nodes: Vec<Server> =
        (0..3).map(|_| Server::with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"])).collect();
    for (node, range) in nodes.iter().zip([(0, 5460), (5461, 10922), (10923, 16383)]) {
        let slots: Vec<String> = (range.0..=range.1).map(|slot: u32| slot.to_string()).collect();
        let mut words = vec!["CLUSTER", "ADDSLOTS"];
        words.extend(slots.iter().map(String::as_str));
        assert!(node.say(&words).starts_with("+OK"));
    }
    for node in &nodes[1..] {
        nodes[0].say(&["CLUSTER", "MEET", "127.0.0.1", &node.port.to_string()]);
    }
    for node in &nodes {
        let mut looks = 0;
        while !node.say(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
            || node.say(&["CLUSTER", "NODES"]).lines().count() != 3
        {
            looks += 1;
            assert!(looks < 500, "the cluster does not come up");
            pause(MS * 20);
        }
    }
    nodes
}

#[test]
fn decision_9_a_cluster_holds_one_pace_and_a_moved_slot_is_followed() {
    let _quiet = crate::server::on_time();
    let nodes = cluster();
    let settings = comity_redis::Settings { deadline: MS * 200, ..settings() };
    let written = [("*.example.org", every(100)), ("*", every(60))];
    let join = |n: usize| {
        let url = format!("{}?global=fleet", nodes[n].url());
        Member::join(&url, &settings, rules(&written, every(60)))
    };
    let members = [join(0), join(1), join(2)];
    let end = real_now() + MS * 1600;
    let running: Vec<_> = members
        .into_iter()
        .zip(["a.example.org", "b.example.org", "example.org"])
        .map(|(member, host)| member.run(host, end, Duration::ZERO, 1000))
        .collect();
    let starts: Vec<_> = running.into_iter().map(|thread| thread.join().expect("it ends")).collect();
    assert!(starts.iter().flatten().all(|start| start.from == Origin::Shared));
    let all = merged(starts);
    assert!((10..=17).contains(&all.len()), "{}", all.len());
    assert!(least_gap(&all) >= MS * 76, "{:?}", least_gap(&all));

    // The slot of example.org moves while it is asked for.
    let mut member = join(0);
    let hosts = ["h1.example", "h2.example.com", "h3.example.net", "a.example.org", "shop.example.co.uk"];
    for host in hosts {
        assert!(member.start_soon(host), "{host}");
    }
    assert!(member.redis.list().expect("it answers").scopes.len() >= hosts.len(), "of every node");
    let slot = nodes[0].say(&["CLUSTER", "KEYSLOT", "{example.org}"]).trim().trim_start_matches(':').to_owned();
    let number: u32 = slot.parse().expect("a slot");
    let from = (number / 5461).min(2) as usize;
    let to = (from + 1) % 3;
    let id = |n: usize| nodes[n].say(&["CLUSTER", "MYID"]).trim().to_owned();
    let (source, target) = (id(from), id(to));
    nodes[to].say(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
    nodes[from].say(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    for name in ["a.example.org", "b.example.org", "example.org", "*.example.org"] {
        let key = format!("{}:{{example.org}}:{name}", settings.prefix);
        say(nodes[from].port, &["MIGRATE", "127.0.0.1", &nodes[to].port.to_string(), &key, "0", "5000"]);
    }
    for node in [to, from] {
        nodes[node].say(&["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
    }
    assert!(member.start_soon("a.example.org"), "the slot is found where it is now");
    assert_eq!(member.redis.standing().losses, 0);
    let forgotten = member.redis.forget_by_name(None).expect("it answers");
    assert!(forgotten >= hosts.len(), "{forgotten}");
}
