//! How a store is reached: passwords, databases, TLS, sockets; and what is said where it is not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use comity_core::limits::Partial;
use comity_redis::{Redis, Settings};
use comity_store::{Readable, Shared, StoreError};

use crate::member::Member;
use crate::server::{Server, free_port, rules, settings};

fn refusal(url: &str) -> StoreError {
    match Redis::open(url, settings()) {
        Ok(_) => panic!("{url} should not open"),
        Err(error) => error,
    }
}

#[test]
fn users_passwords_and_databases_are_in_the_address() {
    let server = Server::with(&["--requirepass", "secret", "--user", "ann on >her-secret ~* &* +@all"]);
    for address in ["redis://:secret@127.0.0.1", "redis://ann:her-secret@127.0.0.1"] {
        let mut member =
            Member::join(&format!("{address}:{}/3", server.port), &settings(), rules(&[], Partial::default()));
        assert!(member.ask("example.org").is_ok());
        assert_eq!(member.redis.standing().place, format!("redis://127.0.0.1:{}/3", server.port));
        assert_eq!(member.redis.list().expect("it answers").scopes.len(), 1);
    }
    let at = format!("127.0.0.1:{}", server.port);
    for (url, word) in [
        (format!("redis://{at}"), "asks for a password"),
        (format!("redis://:wrong-secret@{at}"), "does not accept"),
        (format!("redis://bob:wrong-secret@{at}"), "does not accept"),
        (format!("redis://:secret@{at}/99"), "database"),
    ] {
        let error = refusal(&url);
        assert!(matches!(error, StoreError::Unusable(_)), "{error:?}");
        let error = error.to_string();
        assert!(error.contains(word) && error.contains(&at) && !error.contains("secret"), "{url}: {error}");
    }
}

#[test]
fn a_user_who_may_not_do_enough_is_told_what() {
    let server = Server::with(&["--user", "ann on >pass ~* &* +@all -@scripting"]);
    let error = refusal(&format!("redis://ann:pass@127.0.0.1:{}", server.port)).to_string();
    assert!(error.contains("does not permit") && error.contains("evalsha"), "{error}");
    // One who may run scripts on these keys, and nothing else: no channels, no INFO, no CONFIG.
    let server = Server::with(&[
        "--user",
        "ann on >pass resetchannels ~* -@all +evalsha +eval +get +set +del +llen +lindex +rpush +ltrim +pexpire +time +hello +select +client +publish",
    ]);
    let url = format!("redis://ann:pass@127.0.0.1:{}", server.port);
    let mut member = Member::join(&url, &settings(), rules(&[], Partial::default()));
    assert!(member.ask("example.org").is_ok());
}

#[test]
fn tls_is_spoken_with_an_authority_of_ones_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut authority = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let authority_cert = authority.self_signed(&authority_key).expect("a certificate");
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert =
        rcgen::CertificateParams::new(names).and_then(|own| own.signed_by(&key, &issuer)).expect("a certificate");
    let file = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path").to_owned()
    };
    let ca = file("ca.pem", authority_cert.pem());
    let (cert, key) = (file("cert.pem", cert.pem()), file("key.pem", key.serialize_pem()));
    let port = free_port();
    let server = Server::within(
        directory,
        port,
        &[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-ca-cert-file",
            &ca,
            "--tls-auth-clients",
            "no",
        ],
    );
    let url = format!("rediss://localhost:{}?ca={ca}", server.port);
    let mut member = Member::join(&url, &settings(), rules(&[], Partial::default()));
    assert!(member.ask("example.org").is_ok());
    // Without that authority it is nobody one knows.
    let error = refusal(&format!("rediss://localhost:{}", server.port)).to_string();
    assert!(error.contains("ertificate"), "{error}");
}

#[test]
fn a_socket_is_a_door_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("redis.sock").to_str().expect("a path").to_owned();
    let _server = Server::within(directory, free_port(), &["--unixsocket", &socket]);
    let mut member = Member::join(&format!("redis+unix://{socket}"), &settings(), rules(&[], Partial::default()));
    assert!(member.ask("example.org").is_ok());
}

#[test]
fn what_answers_but_is_no_redis_is_said_so() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut buffer = [0; 512];
            let _ = stream.read(&mut buffer);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let error = refusal(&format!("redis://127.0.0.1:{port}"));
    assert!(error.to_string().contains("not as Redis does"), "{error}");
}

#[test]
fn a_server_that_may_drop_keys_is_warned_of() {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no thread panicked").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    // The connection has a thread of its own, so the subscriber must be the whole program's.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let said = |needle: &str| {
        let text = String::from_utf8_lossy(&lines.0.lock().expect("no thread panicked")).into_owned();
        text.lines().filter(|line| line.contains(needle)).count()
    };
    let (good, bad) = (Server::start(), Server::with(&["--maxmemory-policy", "allkeys-lru"]));
    for server in [&good, &bad] {
        let settings = Settings { deadline: Duration::from_millis(100), ..settings() };
        drop(Redis::open(&server.url(), settings).expect("it opens"));
    }
    assert_eq!(said(&format!("127.0.0.1:{} drops keys", good.port)), 0);
    assert_eq!(said(&format!("127.0.0.1:{} drops keys", bad.port)), 1);
}
