//! Flags about what the guard tells, and to whom.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

use super::listen::address;
use crate::exit::Usage;

/// What is told.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Telling")]
pub(crate) struct ToldFlags {
    /// Serve /metrics (Prometheus) and /healthz here: 9090 is 127.0.0.1:9090; not served unless asked for
    #[arg(long, value_name = "ADDRESS", value_parser = admin)]
    pub(crate) admin: Option<SocketAddr>,

    /// Write a JSON line for each request into a file, or - for standard output (schema/guard-access.schema.json)
    ///
    /// Appended to, and opened anew at SIGHUP. No header fields but User-Agent are in it, and no query strings.
    #[arg(long, value_name = "FILE", value_parser = log_to)]
    pub(crate) access_log: Option<LogTo>,

    /// Write query strings too; they may hold what is secret
    #[arg(long, requires = "access_log")]
    pub(crate) access_log_query: bool,

    /// Check all that is said here and in the files, say what would hold, and end; nothing is listened on
    #[arg(long)]
    pub(crate) check: bool,

    /// Print a JSON line at the start, after each reload and at the end (schema/guard.schema.json)
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but errors
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

impl ToldFlags {
    /// Checks that the flags go together.
    ///
    /// # Errors
    /// Two kinds of lines would be on standard output.
    pub(crate) fn go_together(&self) -> Result<(), Usage> {
        if self.json && self.access_log == Some(LogTo::Stdout) {
            let allowed = "allowed is a file, or - without --json";
            return Err(Usage(format!("--access-log -: standard output has the lines of --json; {allowed}")));
        }
        Ok(())
    }
}

/// Where access is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTo {
    /// Standard output.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

fn admin(text: &str) -> Result<SocketAddr, String> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let (ip, port) = address(text, Some(loopback)).ok_or(ALLOWED)?;
    Ok(SocketAddr::new(ip.unwrap_or(loopback), port))
}

fn log_to(text: &str) -> Result<LogTo, String> {
    match text {
        "" => Err("allowed is the name of a file, or - for standard output".to_owned()),
        "-" => Ok(LogTo::Stdout),
        name => Ok(LogTo::File(name.into())),
    }
}

const ALLOWED: &str = "allowed are 9090 (on 127.0.0.1), 0.0.0.0:9090 and [::1]:9090";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    #[test]
    fn the_port_of_the_operator_is_on_loopback_unless_told_otherwise() {
        for (text, expected) in [
            ("9090", "127.0.0.1:9090"),
            (":9090", "127.0.0.1:9090"),
            ("localhost:1", "127.0.0.1:1"),
            ("0.0.0.0:9090", "0.0.0.0:9090"),
            ("[::]:0", "[::]:0"),
        ] {
            let flags = parse::<ToldFlags>(&["--admin", text]).unwrap();
            assert_eq!(flags.admin, Some(expected.parse().unwrap()), "{text}");
        }
        assert_eq!(parse::<ToldFlags>(&[]).unwrap().admin, None);
        for text in ["", "example.org:1", "99999", "-1"] {
            refused::<ToldFlags>(&[&format!("--admin={text}")], &["--admin", "allowed are 9090"]);
        }
    }

    #[test]
    fn each_flag_reaches_its_field() {
        let flags =
            parse::<ToldFlags>(&["--access-log", "-", "--access-log-query", "--check", "--json", "-q"]).unwrap();
        assert_eq!(flags.access_log, Some(LogTo::Stdout));
        assert!(flags.access_log_query && flags.check && flags.json && flags.quiet);
        assert_eq!(
            parse::<ToldFlags>(&["--access-log", "a.log"]).unwrap().access_log,
            Some(LogTo::File("a.log".into()))
        );
        let both = parse::<ToldFlags>(&["--access-log", "-", "--json"]).unwrap();
        assert!(both.go_together().unwrap_err().0.contains("--access-log -: standard output has the lines of --json"));
        assert!(parse::<ToldFlags>(&["--access-log", "a", "--json"]).unwrap().go_together().is_ok());
        refused::<ToldFlags>(&["--access-log-query"], &["--access-log"]);
        refused::<ToldFlags>(&["--access-log", ""], &["--access-log", "allowed is the name of a file"]);
    }
}
