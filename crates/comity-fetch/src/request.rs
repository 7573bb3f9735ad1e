//! Stub.
#![allow(missing_docs)]
use crate::client::Request;
use crate::keep::Validators;
use crate::list::Extra;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use url::Url;
#[derive(Default)]
pub struct RequestOptions {
    pub head: bool,
}
#[derive(Default)]
pub struct Requests {
    pub head: bool,
}
impl Requests {
    pub fn new(o: RequestOptions) -> Result<Self, String> {
        Ok(Self { head: o.head })
    }
    pub fn head(&self) -> bool {
        self.head
    }
    pub fn build(
        &self,
        url: &Url,
        method: &Method,
        _e: Option<&Extra>,
        _v: Option<&Validators>,
        _f: &Url,
        _r: bool,
    ) -> Result<Request, String> {
        http::Request::builder()
            .method(method)
            .uri(url.as_str())
            .header("user-agent", "comity/0")
            .body(Default::default())
            .map_err(|e| e.to_string())
    }
    pub fn learn_cookies(&self, _u: &Url, _h: &HeaderMap) {}
    pub fn redirect(
        &self,
        m: &Method,
        s: StatusCode,
        l: &HeaderValue,
        base: &Url,
    ) -> Result<Option<(Method, Url)>, String> {
        if ![301, 302, 303, 307, 308].contains(&s.as_u16()) {
            return Ok(None);
        }
        let u = base.join(l.to_str().map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
        Ok(Some((m.clone(), u)))
    }
}
