//! `--resolve`: addresses that no resolver is asked for.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use url::Host;

use super::address;
use super::options::OptionError;

/// One `[+]HOST:PORT:ADDR[,ADDR]...` or `-HOST:PORT`, with curl's meaning.
///
/// HOST and PORT may be `*`; a named host and port goes before a named host with any port, and that before any host.
/// A later entry for the same HOST:PORT replaces an earlier one, `-HOST:PORT` takes it away again. With `+` the entry
/// holds for a minute after the client was made, then the resolver is asked as usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolve {
    host: Option<Host<String>>,
    port: Option<u16>,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Addresses { addresses: Vec<IpAddr>, expires: bool },
    Remove,
}

impl FromStr for Resolve {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        parse(text).ok_or_else(|| OptionError::new("resolve", text, ALLOWED))
    }
}

fn parse(text: &str) -> Option<Resolve> {
    let (remove, expires) = (text.starts_with('-'), text.starts_with('+'));
    let (host, rest) = address::field(if remove || expires { &text[1..] } else { text })?;
    let (port, addresses) = address::field(rest?)?;
    let host = if host == "*" { None } else { Some(address::host(host)?) };
    let port = if port == "*" { None } else { Some(address::port(port)?) };
    let rule = match addresses {
        None if remove => Rule::Remove,
        Some(list) if !remove => {
            Rule::Addresses { addresses: list.split(',').map(address::ip).collect::<Option<Vec<_>>>()?, expires }
        }
        _ => return None,
    };
    Some(Resolve { host, port, rule })
}

/// The addresses `entries` give for `host` and `port`, when the client is `age` old.
pub(super) fn addresses<'a>(
    entries: &'a [Resolve],
    host: &Host<String>,
    port: u16,
    age: Duration,
) -> Option<&'a [IpAddr]> {
    let precedence = [(Some(host), Some(port)), (Some(host), None), (None, Some(port)), (None, None)];
    precedence.into_iter().find_map(|(host, port)| {
        let last = entries.iter().rev().find(|entry| entry.host.as_ref() == host && entry.port == port)?;
        match &last.rule {
            Rule::Addresses { expires: true, .. } if age >= EXPIRY => None,
            Rule::Addresses { addresses, .. } => Some(addresses.as_slice()),
            Rule::Remove => None,
        }
    })
}

/// How long curl keeps what it resolved, and so an entry with `+`.
const EXPIRY: Duration = Duration::from_secs(60);

const ALLOWED: &str = "allowed is [+]HOST:PORT:ADDR[,ADDR]... or -HOST:PORT, HOST and PORT may be *, \
                       ADDR is an IPv4 or IPv6 address";

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(entries: &[&str], host: &str, port: u16) -> String {
        resolved_after(entries, host, port, 0)
    }

    fn resolved_after(entries: &[&str], host: &str, port: u16, seconds: u64) -> String {
        let entries: Vec<Resolve> = entries.iter().map(|entry| entry.parse().unwrap()).collect();
        let found = addresses(&entries, &Host::parse(host).unwrap(), port, Duration::from_secs(seconds));
        found.unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn addresses_are_given_in_their_order_with_and_without_brackets() {
        let entries = ["Example.org:443:127.0.0.1,[::1],::2"];
        assert_eq!(resolved(&entries, "example.org", 443), "127.0.0.1 ::1 ::2");
        assert_eq!(resolved(&entries, "example.org", 80), "");
        assert_eq!(resolved(&["[::5]:80:127.0.0.1"], "[::5]", 80), "127.0.0.1");
        assert_eq!(resolved(&["a.example:80:::1"], "a.example", 80), "::1");
    }

    #[test]
    fn the_more_exact_entry_goes_first_whatever_the_order() {
        let entries = ["*:*:4.4.4.4", "*:80:3.3.3.3", "a.example:*:2.2.2.2", "a.example:80:1.1.1.1"];
        assert_eq!(resolved(&entries, "a.example", 80), "1.1.1.1");
        assert_eq!(resolved(&entries, "a.example", 81), "2.2.2.2");
        assert_eq!(resolved(&entries, "b.example", 80), "3.3.3.3");
        assert_eq!(resolved(&entries, "b.example", 81), "4.4.4.4");
    }

    #[test]
    fn later_entries_replace_and_remove_earlier_ones() {
        assert_eq!(resolved(&["a.example:80:1.1.1.1", "a.example:80:2.2.2.2"], "a.example", 80), "2.2.2.2");
        assert_eq!(resolved(&["a.example:80:1.1.1.1", "-a.example:80"], "a.example", 80), "");
        assert_eq!(resolved(&["-a.example:80", "a.example:80:1.1.1.1"], "a.example", 80), "1.1.1.1");
    }

    #[test]
    fn an_entry_with_a_plus_holds_for_a_minute() {
        assert_eq!(resolved_after(&["+a.example:80:1.1.1.1"], "a.example", 80, 59), "1.1.1.1");
        assert_eq!(resolved_after(&["+a.example:80:1.1.1.1"], "a.example", 80, 60), "");
        assert_eq!(resolved_after(&["a.example:80:1.1.1.1"], "a.example", 80, 6000), "1.1.1.1");
    }

    #[test]
    fn nonsense_is_refused_with_its_value() {
        let nonsense = [
            "",
            "a.example",
            "a.example:80",
            "a.example:80:",
            "a.example:80:b.example",
            "a.example:x:1.1.1.1",
            "-a.example:80:1.1.1.1",
        ];
        for value in nonsense {
            let error = value.parse::<Resolve>().unwrap_err().to_string();
            assert!(error.contains(&format!("{value:?}")) && error.contains("HOST:PORT:ADDR"), "{error}");
        }
    }
}
