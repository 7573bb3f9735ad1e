//! Makes the requests of a run: who we say we are, what a person wants sent, and to whom each of it may go.
//!
//! ```
//! use comity_fetch::request::{RequestOptions, Requests};
//! use url::Url;
//!
//! let options = RequestOptions {
//!     contact: Some("https://example.org/our-crawler".into()),
//!     headers: vec!["Accept-Language: de".parse()?, "Authorization: Bearer abc".parse()?],
//!     ..RequestOptions::default()
//! };
//! let requests = Requests::new(options)?;
//! assert!(requests.user_agent().starts_with("comity/") && !requests.names_no_contact());
//!
//! let list = Url::parse("https://example.org/a")?;
//! let request = requests.build(&list, None, None, &list, None)?;
//! assert_eq!(request.headers()["authorization"], "Bearer abc");
//!
//! // A redirect led elsewhere: what was meant for the first site stays with it.
//! let elsewhere = Url::parse("https://example.net/b")?;
//! let request = requests.build(&elsewhere, None, None, &list, None)?;
//! assert!(!request.headers().contains_key("authorization"));
//! assert_eq!(request.headers()["accept-language"], "de");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod cookies;
mod credentials;
mod error;
mod fields;
mod header_line;
mod netrc;
mod options;
mod redirect;

#[cfg(test)]
mod tests;

use http::header::{AUTHORIZATION, COOKIE, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use http_body_util::Full;
use url::{Position, Url};

use crate::client;
use crate::keep::Validators;
use crate::list::Extra;

pub use cookies::CookieSource;
pub use credentials::Credentials;
pub use error::{BuildError, OptionError, RedirectError, SaveError};
pub use header_line::HeaderLine;
pub use options::{NetrcSource, RequestOptions};

pub(crate) use header_line::field;

use agent::Agent;
use cookies::Cookies;
use fields::Fields;
use netrc::Netrc;

/// Makes the requests of a run. Shared by all its tasks; only a cookie jar has a lock.
pub struct Requests {
    agent: Agent,
    fields: Fields,
    head: bool,
    authorization: Option<HeaderValue>,
    netrc: Option<Netrc>,
    cookies: Cookies,
}

impl Requests {
    /// Reads what `options` name: the netrc file and the files of cookies.
    ///
    /// # Errors
    /// Names the option, its value and what is allowed, or the file that cannot be read.
    pub fn new(options: RequestOptions) -> Result<Self, OptionError> {
        let agent = Agent::new(&options)?;
        Ok(Self {
            fields: Fields::new(&options.headers, agent.field())?,
            agent,
            head: options.head,
            authorization: options.credentials.as_ref().map(Credentials::authorization),
            netrc: options.netrc.read()?,
            cookies: Cookies::new(&options.cookies, options.cookie_jar)?,
        })
    }

    /// What every request says of who sends it: a caller's own `User-Agent`, else `comity/VERSION (+contact)` (H18, T13).
    pub fn user_agent(&self) -> &str {
        self.agent.text()
    }

    /// Whether the `User-Agent` names nobody to turn to, neither a URL nor a mail address: worth a warning (H18).
    pub fn names_no_contact(&self) -> bool {
        self.agent.names_no_contact()
    }

    /// The name robots.txt files know us by (RFC 9309 section 2.2.1): the first product of the `User-Agent`, or what
    /// `Mozilla/5.0 (compatible; NAME/…)` says it is.
    pub fn product_token(&self) -> &str {
        self.agent.product_token()
    }

    /// The method of an entry: its own, else `HEAD` or `GET` as the run has it.
    pub fn method(&self, extra: Option<&Extra>) -> Method {
        match extra.and_then(|extra| extra.method.as_ref()) {
            Some(method) => method.clone(),
            None if self.head => Method::HEAD,
            None => Method::GET,
        }
    }

    /// A request for `url`, on the way from the list's URL `first`: the same one, or where redirects led.
    ///
    /// `method` is what [`redirect`](Self::redirect) made of it; `None` is the entry's own. A request that became a `GET`
    /// has no body. `Host` is left to the client.
    ///
    /// `Authorization`, `Cookie` and fields that by their name are secrets go to the origin of `first` only, in whatever
    /// way they were given (RFC 9110 section 15.4; RFC 6454 for what an origin is). Cookies of the jar go where they
    /// belong, and so does what a netrc file has for a host by name, over https. The nearest wins: an entry's own header,
    /// then the user in its URL, the run's header, the run's user, the netrc file.
    ///
    /// # Errors
    /// When `url` cannot be written into a request.
    pub fn build(
        &self,
        url: &Url,
        extra: Option<&Extra>,
        validators: Option<&Validators>,
        first: &Url,
        method: Option<&Method>,
    ) -> Result<client::Request, BuildError> {
        let own_method = self.method(extra);
        let rewritten = method.is_some_and(|method| *method != own_method);
        let method = method.cloned().unwrap_or(own_method);
        let at_home = same_origin(url, first);

        let mut headers = self.fields.to(at_home);
        if let Some(extra) = extra {
            fields::replace(&mut headers, &extra.headers, at_home);
        }
        let entry_has = |name: HeaderName| extra.is_some_and(|extra| extra.headers.iter().any(|(n, _)| *n == name));
        if !(at_home && entry_has(AUTHORIZATION))
            && let Some(authorization) = self.authorization(url, extra, at_home, headers.contains_key(AUTHORIZATION))
        {
            headers.insert(AUTHORIZATION, authorization);
        }
        if !headers.contains_key(COOKIE)
            && let Some(cookies) = self.cookies.field(url, at_home)
        {
            headers.insert(COOKIE, cookies);
        }
        if matches!(method, Method::GET | Method::HEAD)
            && let Some(validators) = validators
        {
            condition(&mut headers, validators);
        }
        let body = extra.and_then(|extra| extra.body.clone());
        let body = if rewritten {
            fields::remove_content(&mut headers);
            None
        } else {
            body
        };
        request(url, method, headers, Full::new(body.unwrap_or_default()))
    }

    /// A request for a robots.txt: it says who we are and what the person wants said to everybody, but carries no secret,
    /// no cookie and no condition.
    ///
    /// # Errors
    /// When `url` cannot be written into a request.
    pub fn robots(&self, url: &Url) -> Result<client::Request, BuildError> {
        request(url, Method::GET, self.fields.to_robots(), Full::default())
    }

    /// Where an answer with this status and `Location` leads a request of `method` for `base`, and with which method.
    /// `None` for a status that is no redirect.
    ///
    /// 301 and 302 make a `GET` of a `POST`, 303 of all but `HEAD`, 307 and 308 change nothing (RFC 9110 section 15.4).
    /// A fragment is inherited (section 10.2.2); it is not sent. A user and password in the `Location` are dropped: it is
    /// not for a server to say who we are (section 4.2.4). From https to http is allowed; see [`build`](Self::build) for
    /// what does not go with it.
    ///
    /// # Errors
    /// When it leads to no http or https URL.
    pub fn redirect(
        &self,
        method: &Method,
        status: StatusCode,
        location: &HeaderValue,
        base: &Url,
    ) -> Result<Option<(Method, Url)>, RedirectError> {
        redirect::follow(method, status, location, base)
    }

    /// Keeps the cookies of an answer from `url`, if the run keeps any.
    pub fn learn_cookies(&self, url: &Url, headers: &HeaderMap) {
        self.cookies.learn(url, headers);
    }

    /// Cookies that were not kept, because a site set too many or too large ones.
    pub fn cookies_dropped(&self) -> u64 {
        self.cookies.dropped()
    }

    /// Writes the cookie jar, if there is one to write.
    ///
    /// # Errors
    /// When the file cannot be written; it then holds what it held before.
    pub fn save_cookies(&self) -> Result<(), SaveError> {
        self.cookies.save()
    }

    /// What `Authorization` becomes; `None` leaves it as it is.
    fn authorization(&self, url: &Url, extra: Option<&Extra>, at_home: bool, given: bool) -> Option<HeaderValue> {
        let netrc = |user| self.netrc.as_ref()?.find(url.host_str()?, user, at_home);
        if !at_home {
            return if url.scheme() == "https" { Some(netrc(None)?.authorization()) } else { None };
        }
        let in_url = extra.and_then(|extra| extra.credentials.clone()).or_else(|| Credentials::of(url));
        match in_url {
            Some(user) if user.has_password() => Some(user.authorization()),
            Some(user) => Some(netrc(Some(&user)).unwrap_or(&user).authorization()),
            None if given => None,
            None => self.authorization.clone().or_else(|| Some(netrc(None)?.authorization())),
        }
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("user_agent", &self.user_agent()).finish_non_exhaustive()
    }
}

fn request(
    url: &Url,
    method: Method,
    headers: HeaderMap,
    body: Full<bytes::Bytes>,
) -> Result<client::Request, BuildError> {
    let origin = format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterQuery]);
    let uri = Uri::try_from(origin).map_err(|error| BuildError::new(url, &error))?;
    let mut request = client::Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Asks for what has changed (RFC 9110 section 13.1), unless the person asks in words of their own. Both conditions are
/// sent: who knows the first ignores the second.
fn condition(headers: &mut HeaderMap, validators: &Validators) {
    if headers.contains_key(IF_NONE_MATCH) || headers.contains_key(IF_MODIFIED_SINCE) {
        return;
    }
    for (name, text) in [(IF_NONE_MATCH, &validators.etag), (IF_MODIFIED_SINCE, &validators.last_modified)] {
        if let Some(Ok(value)) = text.as_ref().map(|text| HeaderValue::from_bytes(text.as_bytes())) {
            headers.insert(name, value);
        }
    }
}

/// Scheme, host and port (RFC 6454 section 5).
fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host_str() == b.host_str() && a.port() == b.port()
}

/// The longest URL: what a request target can be in the crate `http`, scheme and host included.
pub(crate) const MAX_URL: usize = 65_534;
/// Header fields that a run or an entry may add. Servers take about a hundred in all (Apache's default).
pub(crate) const MAX_HEADERS: usize = 100;
