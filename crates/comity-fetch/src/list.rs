//! Stub.
#![allow(missing_docs)]
use url::Url;
#[derive(Default)]
pub struct List {
    urls: Vec<String>,
}
pub struct Extra {
    pub method: Option<http::Method>,
    pub identity: Option<String>,
    pub cost: Option<u32>,
    pub limits: Option<comity::Partial>,
}
impl List {
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        if let Ok(u) = Url::parse(line) {
            self.urls.push(u.to_string());
        }
        Ok(())
    }
    pub fn len(&self) -> usize {
        self.urls.len()
    }
    pub fn is_empty(&self) -> bool {
        self.urls.is_empty()
    }
    pub fn url(&self, i: u32) -> Url {
        Url::parse(&self.urls[i as usize]).unwrap()
    }
    pub fn text(&self, i: u32) -> &str {
        &self.urls[i as usize]
    }
    pub fn extra(&self, _i: u32) -> Option<&Extra> {
        None
    }
}
