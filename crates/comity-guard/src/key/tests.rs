use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// Whom a request with these fields counts as.
fn client(key_by: &KeyBy, peer: &str, fields: &[(&str, &[u8])]) -> String {
    key(key_by, peer, fields).to_string()
}

fn key(key_by: &KeyBy, peer: &str, fields: &[(&str, &[u8])]) -> ClientKey {
    let mut request = Request::new(());
    for (name, value) in fields {
        let Ok(value) = HeaderValue::from_bytes(value) else { continue };
        request.headers_mut().append(HeaderName::try_from(*name).unwrap(), value);
    }
    key_by.key(&Head::of(&request, peer.parse().ok()))
}

fn networks(texts: &[&str]) -> KeyBy {
    let trust = Trust::Networks(texts.iter().map(|text| text.parse().unwrap()).collect());
    KeyBy { trust, ..KeyBy::default() }
}

fn hops(hops: u8) -> KeyBy {
    KeyBy { trust: Trust::Hops(NonZeroU8::new(hops).unwrap()), ..KeyBy::default() }
}

const X: &str = "x-forwarded-for";

#[test]
fn g10_untrusted_peers_headers_are_ignored() {
    for key_by in [KeyBy::default(), networks(&["10.0.0.0/8"])] {
        for n in 0..20 {
            let spoofed = format!("198.51.100.{n}");
            assert_eq!(client(&key_by, "203.0.113.1", &[(X, spoofed.as_bytes())]), "203.0.113.1");
        }
    }
}

#[test]
fn g10_a_trusted_proxys_entry_counts_and_what_is_left_of_it_does_not() {
    let key_by = networks(&["10.0.0.0/8"]);
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"198.51.100.7, 203.0.113.9")]), "203.0.113.9");
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"spoof, 203.0.113.9")]), "203.0.113.9");
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"198.51.100.7, 203.0.113.9, 10.9.9.9")]), "203.0.113.9");
    assert_eq!(client(&key_by, "::ffff:10.0.0.1", &[(X, b"203.0.113.9")]), "203.0.113.9", "a mapped peer");
}

#[test]
fn g10_the_other_field_is_not_read() {
    let key_by = networks(&["10.0.0.0/8"]);
    assert_eq!(client(&key_by, "10.0.0.1", &[("forwarded", b"for=198.51.100.7")]), "10.0.0.1");
    let key_by = KeyBy { forwarded: ForwardedField::Forwarded, ..key_by };
    assert_eq!(client(&key_by, "10.0.0.1", &[("forwarded", b"for=203.0.113.9"), (X, b"198.51.100.7")]), "203.0.113.9");
}

#[test]
fn g11_hops_count_from_the_right() {
    assert_eq!(client(&hops(1), "10.0.0.1", &[(X, b"1.2.3.4, 203.0.113.9")]), "203.0.113.9");
    assert_eq!(client(&hops(2), "10.0.0.1", &[(X, b"9.9.9.9, 1.2.3.4, 203.0.113.9")]), "1.2.3.4");
}

#[test]
fn g11_fewer_entries_than_hops_is_the_leftmost_or_the_peer() {
    assert_eq!(client(&hops(2), "10.0.0.1", &[(X, b"203.0.113.9")]), "203.0.113.9");
    assert_eq!(client(&hops(2), "10.0.0.1", &[]), "10.0.0.1");
    assert_eq!(client(&hops(255), "10.0.0.1", &[(X, b"")]), "10.0.0.1");
}

#[test]
fn g12_networks_are_compared_as_addresses_not_as_text() {
    let key_by = networks(&["10.0.0.0/8", "2001:db8::/32"]);
    let fields: &[(&str, &[u8])] = &[(X, b"203.0.113.7:54321, [2001:DB8::0001]:443, 10.0.0.1")];
    assert_eq!(client(&key_by, "10.0.0.2", fields), "203.0.113.7");
}

#[test]
fn a_chain_of_trusted_proxies_alone_is_its_leftmost() {
    assert_eq!(client(&networks(&["10.0.0.0/8"]), "10.0.0.1", &[(X, b"10.0.0.3, 10.0.0.2")]), "10.0.0.3");
}

#[test]
fn a_malformed_entry_ends_the_walk_at_the_last_address_judged() {
    let key_by = networks(&["10.0.0.0/8"]);
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"203.0.113.9, unknown, 10.0.0.2")]), "10.0.0.2");
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"203.0.113.9, _secret")]), "10.0.0.1");
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, b"\xff\xfe")]), "10.0.0.1");
}

#[test]
fn a_header_names_the_client_and_without_it_the_address_does() {
    let key_by = KeyBy { by: By::Header(HeaderName::from_static("x-api-key")), ..KeyBy::default() };
    assert_eq!(key(&key_by, "192.0.2.1", &[("x-api-key", b"abc")]), ClientKey::named("abc"));
    let long = [b'a'; LONGEST_NAME + 1];
    let without: [&[(&str, &[u8])]; 4] =
        [&[], &[("x-api-key", b"")], &[("x-api-key", &long)], &[("x-api-key", b"a"), ("x-api-key", b"b")]];
    for fields in without {
        assert_eq!(client(&key_by, "192.0.2.1", fields), "192.0.2.1");
    }
}

#[test]
fn a_closure_names_the_client_and_where_it_does_not_the_address_does() {
    let by = By::Closure(Arc::new(|head| head.uri.path().strip_prefix("/tenant/").map(ClientKey::named)));
    let key_by = KeyBy { by, ..KeyBy::default() };
    let of = |path: &str| {
        let request = Request::get(path).body(()).unwrap();
        key_by.key(&Head::of(&request, "192.0.2.1".parse().ok()))
    };
    assert_eq!(of("/tenant/a"), ClientKey::named("a"));
    assert_eq!(of("/").to_string(), "192.0.2.1");
}

#[test]
fn without_a_peer_all_share_one_key_and_no_field_is_believed() {
    for key_by in [KeyBy::default(), hops(1), networks(&["0.0.0.0/0", "::/0"])] {
        assert!(key(&key_by, "", &[(X, b"203.0.113.9")]).is_unknown());
    }
}

#[test]
fn thousands_of_entries_cost_no_more_than_a_few() {
    let long = vec!["10.0.0.2"; 8_000].join(",");
    let key_by = networks(&["10.0.0.0/8"]);
    let read = forwarded::addresses(ForwardedField::XForwardedFor, &{
        let mut headers = HeaderMap::new();
        headers.append(X, long.parse().unwrap());
        headers
    })
    .count();
    assert_eq!(read, 8_000, "the walk is bounded by its reader");
    assert_eq!(client(&key_by, "10.0.0.1", &[(X, format!("203.0.113.9,{long}").as_bytes())]), "10.0.0.2");
}

fn any_field() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "203.0.113.9",
        "10.0.0.1",
        "[2001:db8::1]:443",
        "for=",
        "\"",
        "\\",
        ",",
        ";",
        " ",
        "unknown",
        "_x",
        ":80",
        "=",
        "::ffff:10.0.0.1",
        "[",
        "]",
        "for=10.0.0.2",
        "For=\"[::1]\"",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(words, 0..40).prop_map(|words| words.concat().into_bytes()),
    ]
}

fn any_key_by() -> impl Strategy<Value = KeyBy> {
    let trust = prop_oneof![
        Just(Trust::Nobody),
        Just(Trust::Networks(vec!["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()])),
    ];
    let field = prop_oneof![Just(ForwardedField::XForwardedFor), Just(ForwardedField::Forwarded)];
    (trust, field).prop_map(|(trust, forwarded)| KeyBy { trust, forwarded, ..KeyBy::default() })
}

proptest! {
    #[test]
    fn g10_no_bytes_make_an_untrusted_peer_anybody_else(
        key_by in any_key_by(),
        lines in prop::collection::vec(any_field(), 0..4),
    ) {
        let fields: Vec<(&str, &[u8])> =
            lines.iter().flat_map(|line| [(X, line.as_slice()), ("forwarded", line.as_slice())]).collect();
        prop_assert_eq!(client(&key_by, "198.51.100.1", &fields), "198.51.100.1");
    }

    #[test]
    fn g10_whatever_a_client_sends_the_entry_of_its_trusted_proxy_counts(
        key_by in any_key_by(),
        mut line in any_field(),
        own_line in any::<bool>(),
        hop in any::<bool>(),
    ) {
        let mut key_by = key_by;
        key_by.trust = if hop { Trust::Hops(NonZeroU8::MIN) } else { Trust::Networks(vec!["10.0.0.0/8".parse().unwrap()]) };
        let (name, appended) = match key_by.forwarded {
            ForwardedField::XForwardedFor => (X, "203.0.113.9"),
            ForwardedField::Forwarded => ("forwarded", "for=203.0.113.9"),
        };
        line.retain(|byte| HeaderValue::from_bytes(&[*byte]).is_ok());
        let fields: Vec<(&str, Vec<u8>)> = if own_line {
            vec![(name, line), (name, appended.into())]
        } else {
            line.extend_from_slice(b", ");
            line.extend_from_slice(appended.as_bytes());
            vec![(name, line)]
        };
        let fields: Vec<(&str, &[u8])> = fields.iter().map(|(name, line)| (*name, line.as_slice())).collect();
        prop_assert_eq!(client(&key_by, "10.0.0.1", &fields), "203.0.113.9");
    }
}
