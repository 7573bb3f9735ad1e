//! A reqwest client that paces every request and every redirect.
//!
//! ```no_run
//! # async fn page() -> Result<(), Box<dyn std::error::Error>> {
//! use comity::{Pacer, Profile, reqwest::PacedClient};
//!
//! let client = PacedClient::new(reqwest::Client::builder(), Pacer::local(Profile::Api))?;
//! let page = client.get("https://example.org/").await?.text().await?;
//! # drop(page); Ok(()) }
//! ```
//!
//! reqwest follows redirects and retries inside `Client`, where no layer sees them. [`PacedClient`] has it do neither and
//! does both itself, so that every hop is a start on the host it leads to (P11) and every retry goes through its host's
//! queue (T10).

use comity_core::signal::NoAnswer;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, LOCATION,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT, WWW_AUTHENTICATE,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::{Client, ClientBuilder, IntoUrl, Request, Response};
use url::Url;

use crate::answer::Answer;
pub use crate::door::{Attempts, Options};
use crate::error::AcquireError;
use crate::pacer::Pacer;
use crate::permit::{Begin, Settled};

/// A reqwest client whose requests wait for their host's turn. Clones share connections and pace.
///
/// Redirects are followed as reqwest does, up to 10, but without a Referer. A response's extensions tell how its last hop
/// went as [`Attempts`].
#[derive(Clone, Debug)]
pub struct PacedClient {
    client: Client,
    pacer: Pacer,
    headers: HeaderMap,
    /// Header fields with secrets that the client itself adds to every request.
    secrets: Vec<HeaderName>,
}

/// Why a paced request has no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It never started: its queue time-out ran out, say.
    #[error(transparent)]
    NotStarted(#[from] AcquireError),
    /// The client failed.
    #[error(transparent)]
    Client(#[from] reqwest::Error),
    /// A redirect is not followed.
    #[error("the redirect from `{from}` is not followed: {why}")]
    Redirect {
        /// The URL that redirects.
        from: Box<Url>,
        /// Why.
        why: NotFollowed,
    },
}

/// Why a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotFollowed {
    /// It is one of too many in a row.
    #[error("10 came before it")]
    TooMany,
    /// It leads away from HTTP.
    #[error("it leads to a URL of the scheme `{0}`")]
    Scheme(String),
    /// Another host would get a secret that is among the default headers of the reqwest client. Set it with
    /// [`PacedClient::default_headers`] instead: those stay with the host.
    #[error("another host would get the client's default header `{0}`; set it with PacedClient::default_headers")]
    Secret(HeaderName),
}

/// The User-Agent of requests that bring none: the product. Who runs it is for [`PacedClient::contact`] to add (T13).
pub const OUR_USER_AGENT: &str = concat!("comity/", env!("CARGO_PKG_VERSION"));

impl PacedClient {
    /// Builds the client, with redirects and retries of its own off. Its User-Agent is kept; without one, requests name
    /// [`OUR_USER_AGENT`].
    ///
    /// # Errors
    /// As [`ClientBuilder::build`].
    pub fn new(client: ClientBuilder, pacer: Pacer) -> Result<Self, reqwest::Error> {
        let never = reqwest::redirect::Policy::none();
        let client = client.redirect(never).retry(reqwest::retry::never()).build()?;
        let mut headers = HeaderMap::new();
        if !adds(&client, &USER_AGENT) {
            headers.insert(USER_AGENT, HeaderValue::from_static(OUR_USER_AGENT));
        }
        let secrets = SECRETS.into_iter().filter(|name| adds(&client, name)).collect();
        Ok(Self { client, pacer, headers, secrets })
    }

    /// Header fields for requests that do not bring their own. Unlike the reqwest client's default headers, those with
    /// secrets in them stay with the host a request was made for when it is redirected.
    #[must_use]
    pub fn default_headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Adds to our User-Agent where an operator finds whoever runs this: a page's address or a mail address. A User-Agent of
    /// the caller's own is sent as it is. What cannot stand in a header field is left out.
    #[must_use]
    pub fn contact(mut self, contact: &str) -> Self {
        let ours = self.headers.get(&USER_AGENT).is_some_and(|agent| agent == OUR_USER_AGENT);
        if ours && let Ok(agent) = HeaderValue::try_from(format!("{OUR_USER_AGENT} (+{contact})")) {
            self.headers.insert(USER_AGENT, agent);
        }
        self
    }

    /// Gets a page.
    ///
    /// # Errors
    /// As [`PacedClient::execute`], and where `url` is no URL.
    pub async fn get(&self, url: impl IntoUrl) -> Result<Response, Error> {
        self.execute(Request::new(Method::GET, url.into_url()?)).await
    }

    /// Sends a request when its host's turn comes, and once more for each refusal as the host's limits allow. A refusal
    /// that is all a request gets is a response, not an error.
    ///
    /// # Errors
    /// Where the client fails, the request may not start, or a redirect is not followed.
    pub async fn execute(&self, request: Request) -> Result<Response, Error> {
        self.execute_with(request, &Options::default()).await
    }

    /// The same, with what the caller says of the request.
    ///
    /// # Errors
    /// As [`PacedClient::execute`].
    pub async fn execute_with(&self, mut request: Request, options: &Options) -> Result<Response, Error> {
        for (name, value) in &self.headers {
            if !request.headers().contains_key(name) {
                request.headers_mut().append(name, value.clone());
            }
        }
        let origin = request.url().clone();
        let mut hops = 0;
        loop {
            let bare = without_body(&request);
            let spare = request.try_clone();
            let response = self.visit(request, options).await?;
            let Some(next) = redirected(&response, bare, spare) else { return Ok(response) };
            let stop = |why| Error::Redirect { from: Box::new(response.url().clone()), why };
            if !matches!(next.url().scheme(), "http" | "https") {
                return Err(stop(NotFollowed::Scheme(next.url().scheme().to_owned())));
            }
            if let Some(secret) = self.secrets.first()
                && !same_origin(&origin, next.url())
            {
                return Err(stop(NotFollowed::Secret(secret.clone())));
            }
            if hops == MOST_HOPS {
                return Err(stop(NotFollowed::TooMany));
            }
            hops += 1;
            request = next;
        }
    }

    /// One hop, from its turn to its response.
    async fn visit(&self, mut request: Request, options: &Options) -> Result<Response, Error> {
        let url = request.url().clone();
        let mut spare = request.try_clone();
        let ask = options.ask(&url, request.method(), spare.is_some());
        let mut permit = self.pacer.acquire(ask).await?;
        loop {
            while permit.begin() == Begin::TooLate {
                permit = permit.again().await?;
            }
            let attempts = Attempts::of(&permit);
            let answer = self.client.execute(request).await;
            let settled = match &answer {
                Ok(response) => permit.settle(&Answer::response(response.status().as_u16(), response.headers())),
                // Nothing was sent: the permit is cancelled and teaches nothing.
                Err(error) if error.is_builder() => return Ok(answer?),
                Err(error) => permit.settle(&Answer::none(kind_of_failure(error))),
            };
            match (settled, spare.take()) {
                (Settled::Retry(waiting), Some(copy)) => {
                    drop(answer);
                    spare = copy.try_clone();
                    request = copy;
                    permit = waiting.await?;
                }
                (settled, _) => {
                    let mut response = answer?;
                    response.extensions_mut().insert(attempts.ended(&settled));
                    return Ok(response);
                }
            }
        }
    }
}

/// The request that a response redirects to, as browsers and reqwest make it (RFC 9110 section 15.4): `bare` is the one
/// that was redirected without its body, `spare` with it. `None` where it is no redirect, or one whose body is gone.
fn redirected(response: &Response, bare: Request, spare: Option<Request>) -> Option<Request> {
    let method = match (response.status(), bare.method()) {
        (StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND, &Method::POST) => Some(Method::GET),
        (StatusCode::SEE_OTHER, &Method::HEAD) => None,
        (StatusCode::SEE_OTHER, _) => Some(Method::GET),
        (
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT,
            _,
        ) => None,
        _ => return None,
    };
    let from = bare.url().clone();
    let location = String::from_utf8_lossy(response.headers().get(LOCATION)?.as_bytes()).into_owned();
    let to = from.join(&location).ok()?;
    let mut next = match method {
        Some(method) => {
            let mut next = bare;
            *next.method_mut() = method;
            for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
                next.headers_mut().remove(name);
            }
            next
        }
        None => spare?,
    };
    if !same_origin(&from, &to) {
        for name in SECRETS.iter().chain([&HOST]) {
            next.headers_mut().remove(name);
        }
    }
    *next.url_mut() = to;
    Some(next)
}

fn without_body(request: &Request) -> Request {
    let mut bare = Request::new(request.method().clone(), request.url().clone());
    bare.headers_mut().clone_from(request.headers());
    *bare.timeout_mut() = request.timeout().copied();
    *bare.version_mut() = request.version();
    bare
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin()
}

/// Whether the client itself adds a header field to every request. reqwest tells it nowhere but in its debug output; where
/// that should change, a test fails, and unknown counts as yes: a caller's User-Agent is kept, and secrets stay.
fn adds(client: &Client, name: &HeaderName) -> bool {
    let told = format!("{client:?}");
    match told.split_once("default_headers: ") {
        Some((_, headers)) => headers.contains(&format!("\"{name}\": ")),
        None => true,
    }
}

fn kind_of_failure(error: &reqwest::Error) -> NoAnswer {
    if error.is_dns() {
        NoAnswer::Resolve
    } else if error.is_timeout() {
        NoAnswer::TimedOut
    } else if error.is_connect() {
        NoAnswer::Connect
    } else {
        NoAnswer::Reset
    }
}

/// As many as reqwest follows.
const MOST_HOPS: u32 = 10;

/// What only the host it was meant for may see.
const SECRETS: [HeaderName; 5] =
    [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE, HeaderName::from_static("cookie2")];
