//! A name for what one request has that the run's plain request for its URL has not.

use http::Method;
use sha2::{Digest as _, Sha256};

use super::extra::Extra;

/// The variant of an entry in a run of this method: see [`List::variant`](super::List::variant).
pub(super) fn of(extra: &Extra, run: &Method) -> Option<Box<str>> {
    let method = extra.method.as_ref().unwrap_or(run);
    let plain = method == run
        && extra.headers.is_empty()
        && extra.body.is_none()
        && extra.identity.is_none()
        && extra.credentials.is_none();
    (!plain).then(|| format!("{}-{:016x}", label(method), hash(extra, method)).into())
}

/// Every text begins with its length, so no two requests are the same bytes. Later runs have to find the same hash:
/// nothing here may depend on the machine or on the version of anything.
fn hash(extra: &Extra, method: &Method) -> u64 {
    let mut hash = Sha256::new();
    let mut add = |text: &[u8]| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    add(method.as_str().as_bytes());
    for (name, value) in &extra.headers {
        add(b"header");
        add(name.as_str().as_bytes());
        add(value.as_bytes());
    }
    if let Some(body) = &extra.body {
        add(b"body");
        add(body);
    }
    if let Some(identity) = &extra.identity {
        add(b"identity");
        add(identity.as_bytes());
    }
    if let Some(credentials) = &extra.credentials {
        add(b"credentials");
        add(credentials.authorization().as_bytes());
    }
    hash.finalize().iter().take(8).fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The method as a file name and a header can hold it; the hash has all of it.
fn label(method: &Method) -> String {
    let safe = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_uppercase() } else { '_' };
    method.as_str().chars().take(LABEL).map(safe).collect()
}

/// As long as the longest registered method in use (`BASELINE-CONTROL`).
const LABEL: usize = 16;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::List;
    use super::*;

    fn variant(line: &str, run: &Method) -> Option<Box<str>> {
        let mut list = List::default();
        list.add(line).unwrap();
        list.variant(0, run)
    }

    #[test]
    fn what_the_run_does_with_a_bare_url_has_no_variant() {
        for line in [
            "http://h/",
            r#"{"url": "http://h/"}"#,
            r#"{"url": "http://h/", "limits": {"interval": 1}, "cost": 2, "identity": ""}"#,
        ] {
            assert_eq!((variant(line, &Method::GET), variant(line, &Method::HEAD)), (None, None), "{line}");
        }
        let get = r#"{"url": "http://h/", "method": "GET"}"#;
        assert_eq!(variant(get, &Method::GET), None);
        assert!(variant(get, &Method::HEAD).unwrap().starts_with("GET-"));
        let head = r#"{"url": "http://h/", "method": "HEAD"}"#;
        assert_eq!(variant(head, &Method::HEAD), None);
        assert!(variant(head, &Method::GET).unwrap().starts_with("HEAD-"));
    }

    #[test]
    fn each_request_for_one_url_has_a_variant_of_its_own() {
        let lines = [
            r#""method": "HEAD""#,
            r#""method": "DELETE""#,
            r#""method": "X.*-Y""#,
            r#""method": "X.*-Z""#,
            r#""body": "q=1""#,
            r#""body": "q=2""#,
            r#""body": """#,
            r#""method": "PUT", "body": "q=1""#,
            r#""headers": {"a": "1"}"#,
            r#""headers": {"a": "2"}"#,
            r#""headers": {"a": ["1", "2"]}"#,
            r#""headers": {"a": ["2", "1"]}"#,
            r#""headers": {"a": "1", "body": "q=1"}"#,
            r#""headers": {"a": "1"}, "method": "GET", "body": "q=1""#,
            r#""identity": "key-1""#,
            r#""identity": "key-2""#,
        ];
        let mut variants: HashSet<_> =
            lines.iter().map(|rest| variant(&format!(r#"{{"url": "http://h/", {rest}}}"#), &Method::GET)).collect();
        variants.extend(["http://ann@h/", "http://bob@h/", "http://bob:1@h/"].map(|line| variant(line, &Method::GET)));
        assert_eq!(variants.len(), lines.len() + 3, "{variants:?}");
        for variant in variants {
            let variant = variant.unwrap();
            let (label, hash) = variant.rsplit_once('-').unwrap();
            assert!(label.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && label.len() <= LABEL);
            assert!(hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{variant}");
        }
    }

    #[test]
    fn a_variant_is_the_same_in_every_version() {
        let line =
            r#"{"url": "http://ann:s3cret@h/", "headers": {"B": "2", "a": "1"}, "body": "q=1", "identity": "k"}"#;
        assert_eq!(variant(line, &Method::GET).as_deref(), Some("POST-62d69ea44f1a4bdb"));
        let in_other_words =
            r#"{"url": "http://ann:s3cret@H:80/#x", "headers": {"A": "1", "b": ["2"]}, "method": "post",
            "body": "q=1", "identity": "k", "cost": 3}"#
                .replace('\n', " ");
        assert_eq!(variant(&in_other_words, &Method::HEAD), variant(line, &Method::GET));
    }
}
