//! Flags about connections, with curl's names and meaning.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comity_fetch::client::{ConnectTo, HttpVersions, NoProxy, Options, Proxies, Proxy, Resolve};

use super::values;
use crate::exit::Usage;

/// How connections are made.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionFlags {
    /// Connect to HOST2:PORT2 for what is asked of HOST1:PORT1 (repeatable)
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    connect_to: Vec<ConnectTo>,

    /// Take this address for HOST:PORT instead of asking a resolver (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,…]")]
    resolve: Vec<Resolve>,

    /// Go through an HTTP proxy; without it, what http_proxy, https_proxy and all_proxy say
    #[arg(short = 'x', long, value_name = "[http://]HOST[:PORT]")]
    proxy: Option<Proxy>,

    /// Hosts reached without a proxy: names, addresses and networks by commas, * for all; without it, what no_proxy says
    #[arg(long, value_name = "LIST")]
    noproxy: Option<NoProxy>,

    /// Certificates (PEM) trusted beside those of the system
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,

    /// Accept any certificate from anybody: whoever sits on the line reads and changes everything
    #[arg(long)]
    danger_insecure: bool,

    /// The longest a connection may take, from look-up to TLS [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span)]
    connect_timeout: Option<Duration>,

    /// Speak HTTP/1.1 only
    #[arg(long, visible_alias = "http1.1")]
    http1: bool,
}

impl ConnectionFlags {
    /// Options of the client; `environment` is where proxies stand that no flag names.
    pub(crate) fn options(&self, environment: impl IntoIterator<Item = (String, String)>) -> Result<Options> {
        let mut proxies = match &self.proxy {
            Some(proxy) => {
                let no_proxy = environment.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("no_proxy"));
                Proxies { no_proxy: Proxies::from_env(no_proxy)?.no_proxy, ..Proxies::all(proxy.clone()) }
            }
            None => Proxies::from_env(environment).map_err(|error| Usage(format!("in the environment: {error}")))?,
        };
        if let Some(no_proxy) = &self.noproxy {
            proxies.no_proxy = no_proxy.clone();
        }
        let defaults = Options::default();
        Ok(Options {
            connect_to: self.connect_to.clone(),
            resolve: self.resolve.clone(),
            proxies,
            connect_timeout: self.connect_timeout.unwrap_or(defaults.connect_timeout),
            ca_file: self.cacert.clone(),
            danger_accept_invalid_certs: self.danger_insecure,
            http_versions: if self.http1 { HttpVersions::Http1 } else { HttpVersions::Auto },
            pool: defaults.pool,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    fn options(words: &[&str]) -> Options {
        parse::<ConnectionFlags>(words).unwrap().options([]).unwrap()
    }

    #[test]
    fn each_flag_reaches_its_option() {
        let to = options(&["--connect-to", "a.example:80:127.0.0.1:8080", "--connect-to", "::[::1]:"]).connect_to;
        assert_eq!(to, ["a.example:80:127.0.0.1:8080".parse().unwrap(), "::[::1]:".parse().unwrap()]);
        assert_eq!(options(&["--resolve", "a.example:443:127.0.0.1"]).resolve.len(), 1);
        assert_eq!(options(&["--cacert", "ca.pem"]).ca_file, Some("ca.pem".into()));
        assert_eq!(options(&["--connect-timeout", "5s"]).connect_timeout, Duration::from_secs(5));
        assert_eq!(options(&["--http1"]).http_versions, HttpVersions::Http1);
        assert!(options(&["--danger-insecure"]).danger_accept_invalid_certs);
    }

    #[test]
    fn nothing_dangerous_by_default() {
        let options = options(&[]);
        assert!(!options.danger_accept_invalid_certs);
        assert_eq!((options.http_versions, options.proxies), (HttpVersions::Auto, Proxies::default()));
    }

    #[test]
    fn a_proxy_flag_comes_before_the_environment() {
        let environment = || {
            [("http_proxy", "env.example:1"), ("no_proxy", "direct.example")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let proxies = |words: &[&str]| parse::<ConnectionFlags>(words).unwrap().options(environment()).unwrap().proxies;
        assert_eq!(proxies(&[]).http.unwrap().to_string(), "env.example:1");
        let flagged = proxies(&["--proxy", "flag.example:2"]);
        assert_eq!(flagged.http.unwrap().to_string(), "flag.example:2");
        assert_eq!(flagged.no_proxy, "direct.example".parse().unwrap());
        assert_eq!(proxies(&["--noproxy", "*"]).no_proxy, "*".parse().unwrap());
    }

    #[test]
    fn wrong_values_name_flag_value_and_what_is_allowed() {
        refused::<ConnectionFlags>(&["--connect-to", "a.example"], &["--connect-to", "a.example", "HOST1:PORT1"]);
        refused::<ConnectionFlags>(&["--resolve", "a.example"], &["--resolve", "a.example", "allowed"]);
        refused::<ConnectionFlags>(&["--proxy", "socks5://p.example"], &["--proxy", "socks5://p.example", "allowed"]);
        refused::<ConnectionFlags>(&["--connect-timeout", "0"], &["--connect-timeout", "'0'", "allowed"]);
    }
}
