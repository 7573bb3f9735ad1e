//! Which proxy a request goes through.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::address;
use super::no_proxy::NoProxy;
use super::options::OptionError;

/// The proxies of a client: one for each scheme, and the hosts that need none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http` URLs: the request goes to the proxy with the whole URL in it (RFC 9112, 3.2.2).
    pub http: Option<Proxy>,
    /// For `https` URLs: the proxy opens a tunnel (`CONNECT`, RFC 9110, 9.3.6) and sees only host and port.
    pub https: Option<Proxy>,
    /// Hosts reached directly.
    pub no_proxy: NoProxy,
}

impl Proxies {
    /// One proxy for everything.
    pub fn all(proxy: Proxy) -> Self {
        Self { http: Some(proxy.clone()), https: Some(proxy), no_proxy: NoProxy::default() }
    }

    /// What the environment says: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`.
    ///
    /// Lower case goes before upper case, a scheme's own variable before `all_proxy`, and an empty value means no
    /// proxy. `HTTP_PROXY` is not believed where `REQUEST_METHOD` is set too: there a web server made it of a
    /// visitor's `Proxy` header.
    ///
    /// # Errors
    /// A value that is no `http` proxy.
    pub fn from_env<K, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self, OptionError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
    {
        // A handful of names is kept, so a list is as good as a map.
        let kept: Vec<(String, String)> = pairs
            .into_iter()
            .filter(|(name, _)| NAMES.iter().any(|known| name.as_ref().eq_ignore_ascii_case(known)))
            .map(|(name, value)| (name.as_ref().to_owned(), value.as_ref().to_owned()))
            .collect();
        let get = |name: &str| kept.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let either = |name: &str| get(name).or_else(|| get(&name.to_ascii_uppercase()));

        let cgi = get("REQUEST_METHOD").is_some();
        let http = if cgi { get("http_proxy") } else { either("http_proxy") };
        let all = either("all_proxy");
        let proxy = |own: Option<&str>| match own.or(all) {
            None | Some("") => Ok(None),
            Some(value) => value.parse().map(Some),
        };
        let Ok(no_proxy) = either("no_proxy").unwrap_or_default().parse();
        Ok(Self { http: proxy(http)?, https: proxy(either("https_proxy"))?, no_proxy })
    }

    /// The proxy for `url`, if it goes through one.
    pub(super) fn proxy_for(&self, url: &Url) -> Option<&Proxy> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http }.as_ref()?;
        let direct = url.host().is_some_and(|host| self.no_proxy.covers(&host));
        (!direct).then_some(proxy)
    }
}

/// An HTTP proxy: `[http://][USER[:PASSWORD]@]HOST[:PORT]`, port 1080 when none is said, as in curl.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(super) host: Host<String>,
    pub(super) port: u16,
    /// The whole value of `Proxy-Authorization` (Basic, RFC 7617).
    pub(super) authorization: Option<HeaderValue>,
}

impl FromStr for Proxy {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        parse(text).ok_or_else(|| OptionError::new("proxy", &without_secret(text), ALLOWED))
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

fn parse(text: &str) -> Option<Proxy> {
    let rest = match text.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
        Some(_) => return None,
        None => text,
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (user, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
    let (host, port) = address::field(place)?;
    Some(Proxy {
        host: address::host(host)?,
        port: port.map_or(Some(DEFAULT_PORT), address::port)?,
        authorization: match user {
            Some(user) => Some(authorization(user)?),
            None => None,
        },
    })
}

fn authorization(user: &str) -> Option<HeaderValue> {
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let mut pair: Vec<u8> = percent_decode_str(user).collect();
    pair.push(b':');
    pair.extend(percent_decode_str(password));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// An error is shown and logged; a password is not.
fn without_secret(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, place)) => format!("…@{place}"),
        None => text.to_owned(),
    }
}

const NAMES: [&str; 5] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"];
const DEFAULT_PORT: u16 = 1080;
const ALLOWED: &str = "allowed is [http://][USER[:PASSWORD]@]HOST[:PORT]";

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn used(proxies: &Proxies, of: &str) -> Option<String> {
        proxies.proxy_for(&url(of)).map(ToString::to_string)
    }

    #[test]
    fn a_proxy_is_read_with_user_port_and_brackets() {
        let proxy: Proxy = "http://us%40er:p%3Aw@[::1]:3128/".parse().unwrap();
        assert_eq!(proxy.to_string(), "[::1]:3128");
        assert_eq!(proxy.authorization.unwrap().to_str().unwrap(), "Basic dXNAZXI6cDp3");
        assert_eq!("proxy.example".parse::<Proxy>().unwrap().to_string(), "proxy.example:1080");
        assert_eq!("http://proxy.example:80".parse::<Proxy>().unwrap().port, 80);
    }

    #[test]
    fn what_is_no_http_proxy_is_refused_without_showing_the_password() {
        for value in ["socks5://u:secret@p.example", "https://p.example", "http://", "http://p.example:x", "p:1/path"] {
            let error = value.parse::<Proxy>().unwrap_err().to_string();
            assert!(error.contains("HOST[:PORT]") && !error.contains("secret"), "{error}");
        }
        assert!(!format!("{:?}", "u:secret@p.example".parse::<Proxy>().unwrap()).contains("secret"));
    }

    #[test]
    fn the_environment_prefers_the_own_variable_and_lower_case() {
        let proxies = Proxies::from_env([
            ("ALL_PROXY", "all.example:1"),
            ("HTTP_PROXY", "upper.example:2"),
            ("http_proxy", "lower.example:3"),
            ("NO_PROXY", "direct.example"),
            ("OTHER", "x"),
        ])
        .unwrap();
        assert_eq!(used(&proxies, "http://a.example/").as_deref(), Some("lower.example:3"));
        assert_eq!(used(&proxies, "https://a.example/").as_deref(), Some("all.example:1"));
        assert_eq!(used(&proxies, "https://www.direct.example/"), None);
    }

    #[test]
    fn an_empty_value_means_no_proxy_and_a_visitors_header_none_either() {
        let proxies = Proxies::from_env([("all_proxy", "all.example:1"), ("https_proxy", "")]).unwrap();
        assert_eq!(used(&proxies, "https://a.example/"), None);
        let proxies = Proxies::from_env([("REQUEST_METHOD", "GET"), ("HTTP_PROXY", "evil.example:1")]).unwrap();
        assert_eq!(used(&proxies, "http://a.example/"), None);
        assert!(Proxies::from_env([("http_proxy", "socks5://p.example")]).is_err());
    }
}
