//! Which requests a rule or an exemption is about.

use std::fmt;

use http::header::HOST;
use http::{HeaderMap, Method, Uri};

use super::path::{Path, Prefix};
use crate::key::Head;

/// Requests by their path, method and host; unless told otherwise, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    path: Option<(String, Prefix)>,
    methods: Vec<Method>,
    host: Option<String>,
}

/// Why a route cannot be: what was wrong and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` is `{value}`: allowed is {allowed}")]
pub struct RouteError {
    /// `path`, `method` or `host`.
    pub part: &'static str,
    /// What it was.
    pub value: String,
    /// What it may be.
    pub allowed: &'static str,
}

impl Route {
    /// Every request.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only those whose path is this one or lies below it, segment by segment. `/login` holds for `/login` and `/login/a`,
    /// not for `/login2`; and for `//login`, `/a/../login` and `/%6cogin`, which some server takes for it.
    ///
    /// # Errors
    /// The path does not begin with a slash.
    pub fn path(mut self, path: &str) -> Result<Self, RouteError> {
        let wrong = || RouteError { part: "path", value: shown(path), allowed: "a path that begins with `/`" };
        let prefix = Prefix::new(path).filter(|_| !path.contains(['?', '#'])).ok_or_else(wrong)?;
        self.path = Some((path.to_owned(), prefix));
        Ok(self)
    }

    /// Only requests with one of these methods. Whoever means GET means HEAD, which costs a server the same.
    #[must_use]
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods.extend(methods);
        self
    }

    /// Only requests to this host, without its port.
    ///
    /// # Errors
    /// It is no host name: it has a port, a scheme, spaces, or letters beyond ASCII (write its A-label).
    pub fn host(mut self, host: &str) -> Result<Self, RouteError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let name = host.bytes().all(plain) || host.starts_with('[') && host.ends_with(']');
        if host.trim_end_matches('.').is_empty() || !name {
            return Err(RouteError {
                part: "host",
                value: shown(host),
                allowed: "a host name without scheme and port",
            });
        }
        self.host = Some(host.trim_end_matches('.').to_ascii_lowercase());
        Ok(self)
    }

    /// A method by its name, in capital letters as methods are written.
    ///
    /// # Errors
    /// It is none.
    pub fn method_named(name: &str) -> Result<Method, RouteError> {
        let wrong =
            || RouteError { part: "methods", value: shown(name), allowed: "methods in capital letters: `GET`, `POST`" };
        let capital = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if capital { Method::from_bytes(name.as_bytes()).map_err(|_| wrong()) } else { Err(wrong()) }
    }

    /// Whether a rule with this route holds for a request.
    pub(crate) fn holds(&self, head: &Asked<'_>) -> bool {
        self.is_asked(head) && self.path.as_ref().is_none_or(|(_, prefix)| prefix.holds(&head.path))
    }

    /// Whether an exemption with this route frees a request.
    pub(crate) fn exempts(&self, head: &Asked<'_>) -> bool {
        self.is_asked(head) && self.path.as_ref().is_none_or(|(_, prefix)| prefix.exempts(&head.path))
    }

    /// Whether some request at another route's own path could fall under both.
    pub(crate) fn may_meet_above(&self, other: &Self) -> bool {
        let path = match (&self.path, &other.path) {
            (None, _) => true,
            (Some((_, prefix)), Some((path, _))) => prefix.holds(&Path::new(path)),
            (Some((_, prefix)), None) => prefix.holds(&Path::new("/")),
        };
        let methods = self.methods.is_empty()
            || other.methods.is_empty()
            || self.methods.iter().any(|method| other.methods.contains(method));
        let host = self.host.is_none() || other.host.is_none() || self.host == other.host;
        path && methods && host
    }

    fn is_asked(&self, head: &Asked<'_>) -> bool {
        let head_for_get = *head.method == Method::HEAD && self.methods.contains(&Method::GET);
        (self.methods.is_empty() || head_for_get || self.methods.contains(head.method))
            && self.host.as_ref().is_none_or(|host| head.host().is_some_and(|asked| same_host(host, asked)))
    }
}

/// A request as routes look at it; its path is read once.
pub(crate) struct Asked<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    path: Path<'a>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(head: &Head<'a>) -> Self {
        Self { method: head.method, uri: head.uri, headers: head.headers, path: Path::new(head.uri.path()) }
    }

    /// The host it asks for, without its port: of the target where that is absolute, else of the Host field.
    fn host(&self) -> Option<&'a str> {
        let host = match self.uri.host() {
            Some(host) => host,
            None => self.headers.get(HOST)?.to_str().ok()?,
        };
        let port = host.rfind(':').filter(|colon| !host.ends_with(']') && !host[..*colon].ends_with(':'));
        Some(port.map_or(host, |colon| &host[..colon]))
    }
}

fn same_host(host: &str, asked: &str) -> bool {
    asked.trim_end_matches('.').eq_ignore_ascii_case(host)
}

fn shown(text: &str) -> String {
    text.chars().take(LONGEST_SHOWN).flat_map(char::escape_debug).collect()
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods: Vec<&str> = self.methods.iter().map(Method::as_str).collect();
        let methods = if methods.is_empty() { "any method".to_owned() } else { methods.join(", ") };
        let path = self.path.as_ref().map_or("every path", |(path, _)| path.as_str());
        write!(f, "{methods} {path}")?;
        self.host.as_ref().map_or(Ok(()), |host| write!(f, " on {host}"))
    }
}

const LONGEST_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn holds(route: &Route, request: &Request<()>) -> bool {
        route.holds(&Asked::of(&Head::of(request, None)))
    }

    fn request(method: &str, uri: &str, host: &str) -> Request<()> {
        Request::builder().method(method).uri(uri).header(HOST, host).body(()).unwrap()
    }

    #[test]
    fn methods_are_compared_and_head_counts_as_get() {
        let route = Route::all().methods([Method::GET, Method::POST]);
        for (method, held) in [("GET", true), ("HEAD", true), ("POST", true), ("PUT", false)] {
            assert_eq!(holds(&route, &request(method, "/", "a")), held, "{method}");
        }
        assert!(!holds(&Route::all().methods([Method::POST]), &request("HEAD", "/", "a")));
        assert!(Route::method_named("get").is_err() && Route::method_named("").is_err());
    }

    #[test]
    fn the_host_is_compared_without_port_case_and_last_dot() {
        let route = Route::all().host("API.example.org").unwrap();
        for host in ["api.example.org", "Api.Example.ORG:8080", "api.example.org."] {
            assert!(holds(&route, &request("GET", "/", host)), "{host}");
        }
        assert!(!holds(&route, &request("GET", "/", "www.example.org")));
        assert!(holds(&route, &request("GET", "http://api.example.org:81/", "other")), "the target comes first");
        let six = Route::all().host("[::1]").unwrap();
        assert!(holds(&six, &request("GET", "/", "[::1]:80")) && holds(&six, &request("GET", "/", "[::1]")));
        for wrong in ["", ".", "http://a", "a:80", "a b", "é"] {
            assert!(Route::all().host(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_route_says_what_it_is_about() {
        assert_eq!(Route::all().to_string(), "any method every path");
        let route = Route::all().path("/login").unwrap().methods([Method::POST]).host("a.example").unwrap();
        assert_eq!(route.to_string(), "POST /login on a.example");
        assert!(Route::all().path("/a?b").is_err() && Route::all().path("a").is_err());
    }
}
