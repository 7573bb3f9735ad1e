//! A server's certificates: read from files, and read again while it runs.

use std::error::Error as _;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// A certificate chain and its key. Clones share it, so that one [`reload`](Self::reload) reaches all.
#[derive(Clone)]
pub struct Certificates(Arc<Files>);

struct Files {
    chain: PathBuf,
    key: PathBuf,
    config: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    /// Reads a chain (its own certificate first) and its key, both PEM.
    ///
    /// # Errors
    /// When a file cannot be read, holds no such thing, or the two do not belong together.
    pub fn read(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, CertificateError> {
        let (chain, key) = (chain.into(), key.into());
        let config = RwLock::new(load(&chain, &key)?);
        Ok(Self(Arc::new(Files { chain, key, config })))
    }

    /// Reads the same files again. New connections use what they hold now; after an error, what was read before.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn reload(&self) -> Result<(), CertificateError> {
        let fresh = load(&self.0.chain, &self.0.key)?;
        *self.0.config.write() = fresh;
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.0.config.read()))
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("chain", &self.0.chain).field("key", &self.0.key).finish_non_exhaustive()
    }
}

/// A file that cannot be used for TLS.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct CertificateError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

fn load(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let wrong = |path: &Path, reason: String| CertificateError { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(chain, words(&error, "certificate")))?;
    if certificates.is_empty() {
        return Err(wrong(chain, "there is no PEM certificate in it".to_owned()));
    }
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, words(&error, "private key")))?;
    let provider = Arc::new(ring::default_provider());
    let signer = provider
        .key_provider
        .load_private_key(private.clone_key())
        .map_err(|error| wrong(key, format!("the private key cannot be used: {error}")))?;
    drop(signer);
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(chain, error.to_string()))?;
    let mut config =
        builder.with_no_client_auth().with_single_cert(certificates, private).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong(key, format!("the private key does not belong to the certificate in {}", chain.display()))
            }
            error => wrong(chain, format!("the certificate cannot be used: {error}")),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn words(error: &pem::Error, what: &str) -> String {
    match error {
        pem::Error::NoItemsFound => format!("there is no PEM {what} in it"),
        pem::Error::Io(error) => format!("it cannot be read: {error}"),
        error => match error.source() {
            Some(cause) => format!("it is no PEM {what}: {error}: {cause}"),
            None => format!("it is no PEM {what}: {error}"),
        },
    }
}
