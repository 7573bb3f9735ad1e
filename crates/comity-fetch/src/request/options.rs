//! What a person may set about requests.

use std::path::{Path, PathBuf};

use super::cookies::CookieSource;
use super::credentials::Credentials;
use super::error::OptionError;
use super::header_line::HeaderLine;
use super::netrc::Netrc;

/// What is sent with every request. The default sends a `User-Agent` that names us, `Accept: */*` and
/// `Accept-Encoding: identity` (what is kept is what was received), and keeps no cookies.
#[derive(Clone, Debug, Default)]
pub struct RequestOptions {
    /// A caller's own `User-Agent`, sent as it is (H18, T13).
    pub user_agent: Option<String>,
    /// A URL or a mail address, for people who wonder about our requests. Named in our own `User-Agent`.
    pub contact: Option<String>,
    /// Header fields, curl's `-H`. They take the place of defaults of the same name.
    pub headers: Vec<HeaderLine>,
    /// Entries without a method of their own are asked for with `HEAD`.
    pub head: bool,
    /// A user and a password, curl's `-u`, for every host of the list.
    pub credentials: Option<Credentials>,
    /// Where passwords are looked up by host.
    pub netrc: NetrcSource,
    /// Cookies to begin with, curl's `-b`. A file also makes the run keep the cookies it is given.
    pub cookies: Vec<CookieSource>,
    /// Where the cookies are written at the end, curl's `-c`. It is read only if `cookies` name it as well; it need not
    /// exist then. A name that ends in `.txt` gets the format of curl, wget and the browsers' exporters (Netscape's
    /// cookies.txt), any other JSON. Readable by its owner alone.
    pub cookie_jar: Option<PathBuf>,
}

/// Where passwords are looked up by host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NetrcSource {
    /// Nowhere.
    #[default]
    None,
    /// `~/.netrc`, if there is one.
    Home,
    /// A file of that format.
    File(PathBuf),
}

impl NetrcSource {
    pub(super) fn read(&self) -> Result<Option<Netrc>, OptionError> {
        let (path, required) = match self {
            Self::None => return Ok(None),
            Self::Home => match std::env::home_dir() {
                Some(home) => (home.join(".netrc"), false),
                None => return Ok(None),
            },
            Self::File(path) => (path.clone(), true),
        };
        let Some(text) = read_file(&path, required)? else { return Ok(None) };
        Netrc::parse(&text).map(Some).map_err(|reason| OptionError::content(&path, reason))
    }
}

/// A file's text. `None` when it does not exist and need not.
pub(super) fn read_file(path: &Path, required: bool) -> Result<Option<String>, OptionError> {
    match std::fs::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(OptionError::content(path, "it is not UTF-8")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !required => Ok(None),
        Err(source) => Err(OptionError::File { path: path.to_owned(), source }),
    }
}
