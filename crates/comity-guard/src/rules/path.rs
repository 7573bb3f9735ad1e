//! Paths as a rule reads them, so that no way of writing one dodges a rule.
//!
//! Servers differ in what they make of `/a/../b`, `//b`, `/%62` and `/b;x=1`. A rule holds if it holds in any reading;
//! an exemption only for a path that has one reading.

use std::borrow::Cow;

/// The segments of a path that a rule is about, and everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix(Vec<u8>);

/// A request's path in its readings, without an empty segment, each segment after a slash.
#[derive(Debug)]
pub(super) struct Path<'a> {
    /// As it is written, decoded, with its dot segments as they are.
    written: Cow<'a, [u8]>,
    /// With its dot segments resolved (RFC 3986 section 5.2.4); `None` where that changes nothing.
    resolved: Option<Vec<u8>>,
    plain: bool,
}

impl Prefix {
    /// The prefix that a person wrote; `/` is all paths. `None` where it does not begin with a slash.
    pub(super) fn new(text: &str) -> Option<Self> {
        text.starts_with('/').then(|| {
            let path = Path::new(text);
            Self(path.resolved.unwrap_or_else(|| path.written.into_owned()))
        })
    }

    /// Whether a path lies in it in any of its readings.
    pub(super) fn holds(&self, path: &Path<'_>) -> bool {
        self.begins(&path.written) || path.resolved.as_deref().is_some_and(|resolved| self.begins(resolved))
    }

    /// Whether a path lies in it in the only reading it has.
    pub(super) fn exempts(&self, path: &Path<'_>) -> bool {
        path.plain && self.begins(&path.written)
    }

    fn begins(&self, path: &[u8]) -> bool {
        path.strip_prefix(self.0.as_slice()).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }
}

impl<'a> Path<'a> {
    pub(super) fn new(path: &'a str) -> Self {
        let bytes = path.as_bytes();
        if is_plain(bytes) {
            let written = bytes.strip_suffix(b"/").unwrap_or(bytes);
            return Self { written: Cow::Borrowed(written), resolved: None, plain: true };
        }
        let (mut written, mut resolved) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
        for segment in decoded(bytes).split(|byte| matches!(byte, b'/' | b'\\')) {
            // Some servers cut parameters off a segment, before they look for dots.
            let segment = segment.split(|byte| *byte == b';').next().unwrap_or_default();
            if segment.is_empty() {
                continue;
            }
            push(&mut written, segment);
            match segment {
                b"." => {}
                b".." => {
                    let parent = resolved.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    resolved.truncate(parent);
                }
                _ => push(&mut resolved, segment),
            }
        }
        let resolved = (resolved != written).then_some(resolved);
        Self { written: Cow::Owned(written), resolved, plain: false }
    }
}

/// Whether all servers read a path alike.
fn is_plain(path: &[u8]) -> bool {
    let odd = |byte: &u8| matches!(byte, b'%' | b'\\' | b';');
    let doubled = |two: &[u8]| two[0] == b'/' && matches!(two[1], b'/' | b'.');
    path.first() == Some(&b'/') && !path.iter().any(odd) && !path.windows(2).any(doubled)
}

fn push(path: &mut Vec<u8>, segment: &[u8]) {
    path.push(b'/');
    path.extend_from_slice(segment);
}

/// Percent-encoded bytes decoded, once, as a server does; what is not well-formed stays.
fn decoded(path: &[u8]) -> Vec<u8> {
    let hex = |at: usize| path.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let mut out = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(byte));
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holds(prefix: &str, path: &str) -> bool {
        Prefix::new(prefix).unwrap().holds(&Path::new(path))
    }

    fn exempts(prefix: &str, path: &str) -> bool {
        Prefix::new(prefix).unwrap().exempts(&Path::new(path))
    }

    #[test]
    fn a_prefix_ends_at_a_segment() {
        for path in ["/login", "/login/", "/login/a", "/login/a/b"] {
            assert!(holds("/login", path) && holds("/login/", path), "{path}");
        }
        for path in ["/", "/logi", "/login2", "/x/login", "*", ""] {
            assert!(!holds("/login", path), "{path}");
        }
        for path in ["/", "/a", "", "*", "//"] {
            assert!(holds("/", path), "{path}");
        }
        assert!(Prefix::new("login").is_none() && Prefix::new("").is_none());
    }

    #[test]
    fn no_way_of_writing_a_path_dodges_a_rule() {
        for path in [
            "//login",
            "/./login",
            "/a/../login",
            "/a/%2e%2e/login",
            "/a/%2E./login",
            "/%6cogin",
            "/%6C%6f%67in",
            "/../login",
            "/a//../login",
            "/login;x=1",
            "/login%2Fa",
            "/a%2f..%2flogin",
            "\\login",
            "/a/..\\login",
            "/login/%zz",
            "/..;/login",
            "/a/..;x/login",
            "/login/..",
            "/login/../other",
            "/%2flogin",
            "/login%3bx",
        ] {
            assert!(holds("/login", path), "{path}");
        }
        for path in ["/%256cogin", "/log%20in", "/a/login/..", "/%"] {
            assert!(!holds("/login", path), "{path}");
        }
        assert!(holds("/caf%C3%A9", "/café/x") && holds("/a/./b", "/a/b"));
    }

    #[test]
    fn an_exemption_needs_a_path_that_reads_one_way() {
        assert!(exempts("/healthz", "/healthz") && exempts("/healthz", "/healthz/live"));
        for path in
            ["/healthz/../admin", "/healthz/%2e%2e/admin", "/healthz//x", "//healthz", "/%68ealthz", "/healthz;x"]
        {
            assert!(!exempts("/healthz", path), "{path}");
        }
    }

    /// Segments and the ways to write them.
    fn written() -> impl Strategy<Value = String> {
        let noise = prop::sample::select(vec!["", "/", "/.", "/x/..", "/%2e", "/x/%2E%2e", "/y/z/../.."]);
        let letters = prop::collection::vec(any::<(bool, bool)>(), 5);
        (noise.clone(), letters, noise).prop_map(|(before, letters, after)| {
            let login: String = "login"
                .chars()
                .zip(letters)
                .map(|(letter, (encode, upper))| match (encode, upper) {
                    (true, true) => format!("%{:02X}", u32::from(letter)),
                    (true, false) => format!("%{:02x}", u32::from(letter)),
                    _ => letter.to_string(),
                })
                .collect();
            format!("{before}/{login}{after}")
        })
    }

    proptest! {
        #[test]
        fn every_writing_of_a_path_is_held(path in written()) {
            prop_assert!(holds("/login", &path), "{}", path);
        }

        #[test]
        fn no_path_panics(path in any::<String>()) {
            prop_assert!(holds("/", &path));
        }
    }
}
