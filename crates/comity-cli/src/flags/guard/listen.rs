//! Flags about where the guard listens, and the bounds of what clients may do to it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use comity_guard::proxy::{Bounds, Certificates, Listen};

use crate::exit::Usage;
use crate::flags::values;

/// Where clients come in.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ListenFlags {
    /// Where to listen: :8080 (every address), 127.0.0.1:8080, [::1]:8080 (repeatable); port 0 is any free one
    ///
    /// With --tls-cert each is HTTPS, but those written as http://:8080.
    #[arg(long, value_name = "ADDRESS", value_parser = place, required = true)]
    listen: Vec<Place>,

    /// The certificate chain to serve HTTPS with, PEM; read again at SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Connections at once; further ones wait to be accepted [default: 10000]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true)]
    connections: Option<NonZeroU32>,

    /// How long a request's head, or the TLS handshake, may take to arrive [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    head_timeout: Option<Duration>,

    /// How long a connection without a request is kept [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    idle_timeout: Option<Duration>,

    /// How long a request's body may stand still, and how long a client may take nothing of its answer [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::some_span, allow_hyphen_values = true)]
    stall_timeout: Option<Duration>,

    /// How long what is in flight may go on after Ctrl-C or SIGTERM; a second one ends at once [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = values::span, allow_hyphen_values = true)]
    drain_time: Option<Duration>,
}

/// An address to listen on, as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    /// Whether in TLS; not said is wherever there is a certificate.
    tls: Option<bool>,
    /// None is every address.
    ip: Option<IpAddr>,
    port: u16,
}

impl ListenFlags {
    /// The certificates, where there are to be any.
    pub(crate) fn certificates(&self) -> Result<Option<Certificates>, Usage> {
        let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        Certificates::read(chain, key).map(Some).map_err(|error| Usage(format!("--tls-cert, --tls-key: {error}")))
    }

    /// Where to listen, and whether that is within TLS.
    pub(crate) fn listen(&self, certificates: Option<&Certificates>) -> Result<Vec<(Listen, bool)>, Usage> {
        let listen = |place: &Place| match (place.tls, certificates) {
            (Some(true), None) => Err(Usage(format!(
                "--listen https://{}: TLS needs a certificate; allowed is that with --tls-cert and --tls-key",
                place.address()
            ))),
            (Some(false), _) | (None, None) => Ok((Listen::plain(place.address()), false)),
            (_, Some(certificates)) => Ok((Listen::tls(place.address(), certificates.clone()), true)),
        };
        self.listen.iter().map(listen).collect()
    }

    /// What clients may do to it.
    pub(crate) fn bounds(&self) -> Bounds {
        let mut bounds = Bounds::default();
        if let Some(most) = self.connections {
            bounds.connections = usize::try_from(most.get()).unwrap_or(usize::MAX);
        }
        bounds.head_within = self.head_timeout.unwrap_or(bounds.head_within);
        bounds.idle = self.idle_timeout.unwrap_or(bounds.idle);
        bounds.body_idle = self.stall_timeout.unwrap_or(bounds.body_idle);
        bounds.write_idle = self.stall_timeout.unwrap_or(bounds.write_idle);
        bounds.ending = self.drain_time.unwrap_or(bounds.ending);
        bounds
    }
}

impl Place {
    fn address(self) -> SocketAddr {
        SocketAddr::new(self.ip.unwrap_or_else(every_address), self.port)
    }
}

/// All addresses of both families where the system has IPv6, else those of IPv4.
fn every_address() -> IpAddr {
    let six = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if TcpListener::bind((six, 0)).is_ok() { six } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) }
}

/// `:8080`, `8080`, `127.0.0.1:8080`, `localhost:8080`, perhaps after `http://` or `https://`.
fn place(text: &str) -> Result<Place, String> {
    let (tls, rest) = match text.split_once("://") {
        Some(("http", rest)) => (Some(false), rest),
        Some(("https", rest)) => (Some(true), rest),
        Some(_) => return Err(ALLOWED.to_owned()),
        None => (None, text),
    };
    let (ip, port) = address(rest.strip_suffix('/').unwrap_or(rest), None).ok_or(ALLOWED)?;
    Ok(Place { tls, ip, port })
}

/// An address and a port; where only the port is written, the address is `else_at`.
pub(super) fn address(text: &str, else_at: Option<IpAddr>) -> Option<(Option<IpAddr>, u16)> {
    let digits = text.strip_prefix(':').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some((else_at, digits.parse().ok()?));
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        return Some((Some(Ipv4Addr::LOCALHOST.into()), port.parse().ok()?));
    }
    let address: SocketAddr = text.parse().ok()?;
    Some((Some(address.ip()), address.port()))
}

const ALLOWED: &str = "allowed are :8080, 127.0.0.1:8080 and [::1]:8080, perhaps after http:// or https://";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};

    fn flags(words: &[&str]) -> ListenFlags {
        parse(words).unwrap()
    }

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        for (text, tls, at, port) in [
            (":8080", None, None, 8080),
            ("8080", None, None, 8080),
            ("127.0.0.1:0", None, ip("127.0.0.1"), 0),
            ("localhost:80", None, ip("127.0.0.1"), 80),
            ("[::1]:80", None, ip("::1"), 80),
            ("http://:80", Some(false), None, 80),
            ("https://0.0.0.0:443/", Some(true), ip("0.0.0.0"), 443),
        ] {
            assert_eq!(place(text), Ok(Place { tls, ip: at, port }), "{text}");
        }
        for text in ["", ":", "example.org:80", "127.0.0.1", "ftp://:21", ":65536", "::1:80x", ":-1", "https://"] {
            refused::<ListenFlags>(&["--listen", text], &["--listen", text, "allowed are :8080"]);
        }
    }

    #[test]
    fn somewhere_has_to_be_listened() {
        refused::<ListenFlags>(&[], &["--listen"]);
        refused::<ListenFlags>(&["--listen", ":1", "--tls-cert", "a"], &["--tls-key"]);
        refused::<ListenFlags>(&["--listen", ":1", "--tls-key", "a"], &["--tls-cert"]);
    }

    #[test]
    fn tls_is_wherever_there_is_a_certificate_and_it_is_not_said_otherwise() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (chain, key) = (dir.path().join("chain.pem"), dir.path().join("key.pem"));
        std::fs::write(&chain, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let files = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        let listen = ["--listen", ":1", "--listen", "http://:2", "--listen", "https://:3"];
        let flags = flags(&[&files[..], &listen].concat());
        let certificates = flags.certificates().unwrap();
        let listen = flags.listen(certificates.as_ref()).unwrap();
        assert_eq!(listen.iter().map(|(_, tls)| *tls).collect::<Vec<_>>(), [true, false, true]);
        std::fs::write(&key, "no key").unwrap();
        let error = flags.certificates().unwrap_err().0;
        assert!(error.contains("--tls-key") && error.contains("key.pem") && error.contains("private key"), "{error}");
    }

    #[test]
    fn tls_without_a_certificate_is_refused() {
        let flags = flags(&["--listen", "https://:443"]);
        let error = flags.listen(None).unwrap_err().0;
        assert!(error.contains("--listen https://") && error.contains("allowed is that with --tls-cert"), "{error}");
    }

    #[test]
    fn each_bound_reaches_the_server() {
        let given = ["--listen", ":1", "--connections", "7", "--head-timeout", "1s", "--idle-timeout", "2s"];
        let rest = ["--stall-timeout", "3s", "--drain-time", "4s"];
        let bounds = flags(&[&given[..], &rest].concat()).bounds();
        let seconds = |time: Duration| time.as_secs();
        assert_eq!((bounds.connections, seconds(bounds.head_within), seconds(bounds.idle)), (7, 1, 2));
        assert_eq!((seconds(bounds.body_idle), seconds(bounds.write_idle), seconds(bounds.ending)), (3, 3, 4));
        assert_eq!(flags(&["--listen", ":1"]).bounds(), Bounds::default());
        refused::<ListenFlags>(&["--listen", ":1", "--connections", "0"], &["--connections", "0", "from 1"]);
        refused::<ListenFlags>(&["--listen", ":1", "--idle-timeout", "0"], &["--idle-timeout", "above 0"]);
    }
}
