//! Flags about the server that the guard stands before.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use comity_guard::proxy::{Protocol, Settings, Upstream};

use crate::flags::values;

/// The server behind it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Upstream")]
pub(crate) struct UpstreamFlags {
    /// The server to guard: http://127.0.0.1:3000, https://app.internal, unix:/run/app.sock
    #[arg(long, value_name = "URL", value_parser = upstream)]
    pub(crate) upstream: Upstream,

    /// Which HTTP is spoken with it; auto is HTTP/1.1, and HTTP/2 within TLS where it agrees
    #[arg(long, value_name = "HTTP", value_enum, default_value_t)]
    upstream_http: Http,

    /// A PEM file of certificates to trust beside the system's
    #[arg(long, value_name = "FILE")]
    upstream_cacert: Option<PathBuf>,

    /// Tell it its own name as Host, instead of the one that the client asked for
    #[arg(long)]
    upstream_host: bool,

    /// How long a connection to it may take, then 504 [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    connect_timeout: Option<Duration>,

    /// How long it may take from the end of a request to the head of its answer, then 504 [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    answer_timeout: Option<Duration>,

    /// How long it may say nothing within an answer's body [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    answer_idle_timeout: Option<Duration>,

    /// How long a tunnel (a websocket) may be silent [default: 5m]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    tunnel_idle_timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Http {
    #[default]
    Auto,
    #[value(name = "1")]
    One,
    #[value(name = "2")]
    Two,
}

impl UpstreamFlags {
    /// How requests are passed on.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = Settings::default();
        settings.protocol = match self.upstream_http {
            Http::Auto => Protocol::Auto,
            Http::One => Protocol::Http1,
            Http::Two => Protocol::Http2,
        };
        settings.ca_file.clone_from(&self.upstream_cacert);
        settings.keep_host = !self.upstream_host;
        settings.connect_within = self.connect_timeout.unwrap_or(settings.connect_within);
        settings.first_byte_within = self.answer_timeout.unwrap_or(settings.first_byte_within);
        settings.answer_idle = self.answer_idle_timeout.unwrap_or(settings.answer_idle);
        settings.tunnel_idle = self.tunnel_idle_timeout.unwrap_or(settings.tunnel_idle);
        settings
    }
}

fn upstream(text: &str) -> Result<Upstream, String> {
    text.parse().map_err(|error| format!("{error}; allowed are http://HOST:PORT, https://HOST and unix:/PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    #[test]
    fn each_flag_reaches_its_setting() {
        let words = ["--upstream", "http://a:1", "--upstream-http", "2", "--upstream-cacert", "ca.pem"];
        let times = ["--connect-timeout", "1s", "--answer-timeout", "2s", "--answer-idle-timeout", "3s"];
        let rest = ["--tunnel-idle-timeout", "4s", "--upstream-host"];
        let flags = parse::<UpstreamFlags>(&[&words[..], &times, &rest].concat()).unwrap();
        assert_eq!(flags.upstream.to_string(), "http://a:1");
        let settings = flags.settings();
        assert_eq!(
            (settings.protocol, settings.keep_host, settings.ca_file),
            (Protocol::Http2, false, Some("ca.pem".into()))
        );
        let times = [settings.connect_within, settings.first_byte_within, settings.answer_idle, settings.tunnel_idle];
        assert_eq!(times.map(|time| time.as_secs()), [1, 2, 3, 4]);
        let usual = parse::<UpstreamFlags>(&["--upstream", "http://a"]).unwrap().settings();
        assert_eq!((usual.protocol, usual.keep_host), (Protocol::Auto, true));
    }

    #[test]
    fn what_is_no_upstream_is_told_why() {
        refused::<UpstreamFlags>(&[], &["--upstream"]);
        for text in ["127.0.0.1:3000", "ftp://a", "http://a/path", "http://u:p@a"] {
            refused::<UpstreamFlags>(&["--upstream", text], &["--upstream", text, "allowed are http://HOST:PORT"]);
        }
        refused::<UpstreamFlags>(
            &["--upstream", "http://a", "--upstream-http", "3"],
            &["--upstream-http", "3", "auto"],
        );
    }
}
