//! Where the store is, as a person writes it.
//!
//! `redis://user:password@host:6379/0?global=fleet`, `rediss://` over TLS (with `?ca=PATH` for an authority of one's own),
//! `redis+unix:///path/to/socket?db=1`; `valkey://` and `valkeys://` mean the same. What is wrong is named, and a password
//! is never told.

use core::fmt;
use std::path::PathBuf;

use ::redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsCertificates, TlsMode,
};
use comity_store::StoreError;
use percent_encoding::percent_decode_str;
use url::Url;

/// A store's address.
#[derive(Clone)]
pub(crate) struct Place {
    at: At,
    user: Option<String>,
    password: Option<String>,
    database: i64,
    ca: Option<Vec<u8>>,
    /// What `*` is shared as; `None` where it is each machine's own.
    pub(crate) global: Option<String>,
}

#[derive(Clone)]
enum At {
    Host { host: String, port: u16, tls: bool },
    Socket(PathBuf),
}

impl Place {
    /// From its URL.
    pub(crate) fn read(text: &str) -> Result<Self, StoreError> {
        let url = Url::parse(text).map_err(|error| {
            wrong(match error {
                url::ParseError::InvalidPort => "its port is no number up to 65535".to_owned(),
                url::ParseError::EmptyHost => "it names no host".to_owned(),
                error => format!("it is no URL ({error})"),
            })
        })?;
        let (tls, socket) = match url.scheme() {
            "redis" | "valkey" => (false, false),
            "rediss" | "valkeys" => (true, false),
            "redis+unix" | "unix" => (false, true),
            other => {
                return Err(wrong(format!("its scheme is `{other}`; allowed are redis, rediss and redis+unix")));
            }
        };
        let (mut ca, mut global, mut database) = (None, None, 0);
        for (name, value) in url.query_pairs() {
            match &*name {
                "ca" => ca = Some(authority(&value)?),
                "global" if !value.is_empty() && !value.contains(['{', '}']) => global = Some(value.into_owned()),
                "global" => return Err(wrong("its `global` is no name")),
                "db" => database = number(&value)?,
                other => return Err(wrong(format!("it asks for `{other}`; known are ca, db and global"))),
            }
        }
        if ca.is_some() && !tls {
            return Err(wrong("its `ca` holds for rediss:// only"));
        }
        let at = if socket {
            if url.path().len() < 2 || url.host_str().is_some_and(|host| !host.is_empty()) {
                return Err(wrong("it names no socket: redis+unix:///path/to/socket"));
            }
            At::Socket(PathBuf::from(decoded("path", url.path())?))
        } else {
            let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            match url.path().trim_matches('/') {
                "" => {}
                path => database = number(path)?,
            }
            At::Host { host, port: url.port().unwrap_or(PORT), tls }
        };
        let user = Some(decoded("user", url.username())?).filter(|user| !user.is_empty());
        let password = url.password().map(|password| decoded("password", password)).transpose()?;
        if user.is_some() && password.is_none() {
            return Err(wrong("it names a user but no password: redis://user:password@host"));
        }
        Ok(Self { at, user, password, database, ca, global })
    }

    /// The same store at another of its nodes.
    pub(crate) fn node(&self, host: &str, port: u16) -> Self {
        let tls = matches!(self.at, At::Host { tls: true, .. });
        Self { at: At::Host { host: host.to_owned(), port, tls }, ..self.clone() }
    }

    /// Host and port, or the socket.
    pub(crate) fn address(&self) -> String {
        match &self.at {
            At::Host { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            At::Host { host, port, .. } => format!("{host}:{port}"),
            At::Socket(path) => path.display().to_string(),
        }
    }

    pub(crate) fn tls(&self) -> Option<TlsMode> {
        matches!(self.at, At::Host { tls: true, .. }).then_some(TlsMode::Secure)
    }

    pub(crate) fn certificates(&self) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: self.ca.clone() }
    }

    pub(crate) fn info(&self) -> Result<ConnectionInfo, ::redis::RedisError> {
        let address = match &self.at {
            At::Host { host, port, tls: false } => ConnectionAddr::Tcp(host.clone(), *port),
            At::Host { host, port, tls: true } => {
                ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
            }
            At::Socket(path) => ConnectionAddr::Unix(path.clone()),
        };
        let mut settings = RedisConnectionInfo::default().set_db(self.database);
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        Ok(address.into_connection_info()?.set_redis_settings(settings))
    }

    pub(crate) fn client(&self) -> Result<Client, ::redis::RedisError> {
        if self.tls().is_some() {
            // One for the whole process; where the program has chosen already, its choice holds.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        match self.ca {
            Some(_) => Client::build_with_tls(self.info()?, self.certificates()),
            None => Client::open(self.info()?),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match &self.at {
            At::Host { tls: false, .. } => "redis://",
            At::Host { tls: true, .. } => "rediss://",
            At::Socket(_) => "redis+unix://",
        };
        write!(f, "{scheme}{}", self.address())?;
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn wrong(what: impl fmt::Display) -> StoreError {
    StoreError::Unusable(format!("the store's address cannot be used: {what}"))
}

fn number(text: &str) -> Result<i64, StoreError> {
    text.parse().ok().filter(|n| *n >= 0).ok_or_else(|| wrong(format!("its database is `{text}`, which is no number")))
}

fn decoded(what: &str, text: &str) -> Result<String, StoreError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(wrong(format!("its {what} is no UTF-8 when decoded"))),
    }
}

fn authority(path: &str) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| wrong(format!("its `ca` {path} cannot be read: {error}")))
}

const PORT: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_told_without_its_password() {
        for (text, told) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("redis://:s%20cret@localhost:1/2", "redis://localhost:1/2"),
            ("rediss://ann:secret@store.example.org?global=fleet", "rediss://store.example.org:6379"),
            ("valkey://[::1]:6380", "redis://[::1]:6380"),
            ("redis+unix:///run/redis.sock?db=3", "redis+unix:///run/redis.sock/3"),
        ] {
            let place = Place::read(text).unwrap();
            assert_eq!(place.to_string(), told);
            assert_eq!(format!("{place:?}"), told);
        }
        assert_eq!(Place::read("redis://:s%20cret@h").unwrap().password.as_deref(), Some("s cret"));
        assert_eq!(Place::read("redis://h?global=fleet").unwrap().global.as_deref(), Some("fleet"));
    }

    #[test]
    fn what_is_wrong_with_an_address_is_named() {
        for (text, part) in [
            ("localhost:6379", "scheme"),
            ("http://localhost", "scheme"),
            ("redis://", "host"),
            ("redis://:secret@localhost:99999", "port"),
            ("redis://:secret@localhost/x", "database"),
            ("redis://ann@localhost", "password"),
            ("redis://:secret@localhost?ca=/nowhere", "ca"),
            ("rediss://:secret@localhost?ca=/nowhere", "/nowhere"),
            ("redis://localhost?globl=x", "globl"),
            ("redis+unix://", "socket"),
        ] {
            let error = Place::read(text).unwrap_err();
            assert!(matches!(error, StoreError::Unusable(_)));
            let error = error.to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
