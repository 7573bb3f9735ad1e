//! `--connect-to`: another place to connect to, the request unchanged.

use std::str::FromStr;

use url::Host;

use super::address;
use super::options::OptionError;

/// One `HOST1:PORT1:HOST2:PORT2`, with curl's meaning.
///
/// A request for `HOST1:PORT1` is connected to `HOST2:PORT2`. An empty HOST1 or PORT1 matches any; an empty HOST2 or
/// PORT2 keeps the request's own. The first entry that matches and names a place wins; one that matches but leaves
/// both HOST2 and PORT2 empty changes nothing and is passed over, as curl passes it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectTo {
    for_host: Option<Host<String>>,
    for_port: Option<u16>,
    host: Option<Host<String>>,
    port: Option<u16>,
}

impl FromStr for ConnectTo {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        parse(text).ok_or_else(|| OptionError::new("connect-to", text, ALLOWED))
    }
}

fn parse(text: &str) -> Option<ConnectTo> {
    let (for_host, rest) = address::field(text)?;
    let (for_port, rest) = address::field(rest?)?;
    let (host, rest) = address::field(rest?)?;
    let port = rest.unwrap_or_default();
    Some(ConnectTo {
        for_host: unless_empty(for_host, address::host)?,
        for_port: unless_empty(for_port, address::port)?,
        host: unless_empty(host, address::host)?,
        port: unless_empty(port, address::port)?,
    })
}

fn unless_empty<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

/// Where a request for `host` and `port` is connected to, if any entry says so.
pub(super) fn instead(entries: &[ConnectTo], host: &Host<String>, port: u16) -> Option<(Host<String>, u16)> {
    entries
        .iter()
        .filter(|entry| entry.for_host.as_ref().is_none_or(|wanted| wanted == host))
        .filter(|entry| entry.for_port.is_none_or(|wanted| wanted == port))
        .find(|entry| entry.host.is_some() || entry.port.is_some())
        .map(|entry| (entry.host.as_ref().unwrap_or(host).clone(), entry.port.unwrap_or(port)))
}

const ALLOWED: &str = "allowed is HOST1:PORT1:HOST2:PORT2, each part may be empty, ports are 1 to 65535, \
                       IPv6 addresses stand in brackets";

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(entries: &[&str], host: &str, port: u16) -> Option<String> {
        let entries: Vec<ConnectTo> = entries.iter().map(|entry| entry.parse().unwrap()).collect();
        let host = Host::parse(host).unwrap();
        instead(&entries, &host, port).map(|(host, port)| format!("{host}:{port}"))
    }

    #[test]
    fn host_and_port_are_matched_and_replaced() {
        let entries = ["Example.org:80:127.0.0.1:8080"];
        assert_eq!(connected(&entries, "example.org", 80).as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(connected(&entries, "example.org", 81), None);
        assert_eq!(connected(&entries, "www.example.org", 80), None);
    }

    #[test]
    fn empty_parts_match_any_and_keep_the_requests_own() {
        assert_eq!(connected(&["::[::1]:"], "a.example", 443).as_deref(), Some("[::1]:443"));
        assert_eq!(connected(&["a.example::b.example:"], "a.example", 8080).as_deref(), Some("b.example:8080"));
        assert_eq!(connected(&[":443::8443"], "a.example", 443).as_deref(), Some("a.example:8443"));
        assert_eq!(connected(&["[::1]:80:b.example:81"], "[0:0::1]", 80).as_deref(), Some("b.example:81"));
        assert_eq!(connected(&["a.example:80:b.example"], "a.example", 80).as_deref(), Some("b.example:80"));
    }

    #[test]
    fn the_first_entry_that_names_a_place_wins() {
        let entries = ["a.example:80::", "a.example::one.example:", "::two.example:"];
        assert_eq!(connected(&entries, "a.example", 80).as_deref(), Some("one.example:80"));
        assert_eq!(connected(&entries, "b.example", 80).as_deref(), Some("two.example:80"));
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        for nonsense in
            ["", "a.example", "a.example:80", "a:b:c:d", "a:80:::1:80", "a:80:b:80:c", "a:80:b:0", "[::1:80:b:80"]
        {
            let error = nonsense.parse::<ConnectTo>().unwrap_err().to_string();
            assert!(error.contains(&format!("{nonsense:?}")) && error.contains("HOST1:PORT1:HOST2:PORT2"), "{error}");
        }
    }
}
