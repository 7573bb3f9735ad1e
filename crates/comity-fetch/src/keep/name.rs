//! The file an answer is kept in: `HOST/DIRECTORIES/FILE`, from the URL and its variant alone, so that the same request
//! always has the same name.
//!
//! A URL whose path is *plain* (lower-case letters, digits, `.`, `_`, `-`, a file with an extension, no query) is named
//! exactly as it reads. Any other keeps a readable part and gets `+` and 64 bits of its SHA-256 before the extension.
//! No plain name and no directory contains a `+`, and no directory ends as a file does, so two URLs never meet. A variant
//! (another method, a body, …) is added before the extension after a `~`, which no other name contains:
//!
//! | URL | file |
//! |---|---|
//! | `https://example.com/a/b.html` | `example.com/a/b.html` |
//! | `https://example.com/a/` | `example.com/a/+index` |
//! | `https://example.com/a` | `example.com/a+1f3870be274f6c49` (else `a` would be a file and a directory) |
//! | `https://example.com/README.md` | `example.com/README+….md` (else `readme.md` would be the same file on some systems) |
//! | `http://example.com:8080/list.php?page=2` | `example.com+http+8080/list_page=2+….php` |
//! | `https://example.com/a/b.html` as `POST-3f2a9c0d11e54b87` | `example.com/a/b~POST-3f2a9c0d11e54b87.html` |

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use url::{Host, Url};

/// The relative path, parts joined by `/`, in which the answer to this request for `url` is kept. Its fragment does not
/// matter; `variant` is `None` for a plain request (see [`Record::variant`](super::Record::variant)).
pub fn name_of(url: &Url, variant: Option<&str>) -> String {
    let variant = variant.map(variant_part).unwrap_or_default();
    let mut name = host_directory(url);
    let mut plain = url.query().is_none() && url.username().is_empty() && url.password().is_none();

    let path = url.path().strip_prefix('/').unwrap_or(url.path());
    let (directories, file) = path.rsplit_once('/').map_or((None, path), |(front, last)| (Some(front), last));
    for directory in directories.into_iter().flat_map(|front| front.split('/')) {
        if name.len() + PART_MAX > DIRECTORIES_MAX {
            plain = false;
            break;
        }
        name.push('/');
        if is_plain(directory) && !has_extension(directory) {
            name.push_str(directory);
        } else {
            plain = false;
            name.push_str(&readable_directory(directory));
        }
    }

    name.push('/');
    if plain && file.is_empty() {
        name.push_str("+index");
        name.push_str(&variant);
    } else if plain && is_plain(file) && has_extension(file) && !file.ends_with(META) {
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
        name.extend([stem, &variant, ".", extension]);
    } else {
        name.push_str(&hashed_file(file, url, &variant));
    }
    name
}

/// What is added to a file's name for the file that describes it.
pub(super) const META: &str = ".meta.json";

/// Our variants as they are, any other text by its hash.
fn variant_part(variant: &str) -> String {
    let ours = variant.rsplit_once('-').is_some_and(|(label, hash)| {
        (1..=LABEL_MAX).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
            && hash.len() == 2 * HASH_BYTES
            && hash.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    });
    if ours { format!("~{variant}") } else { format!("~{}", hash(variant)) }
}

/// Injective: bytes a host name should not have are written `%xx`, and what is added begins with `+`.
fn host_directory(url: &Url) -> String {
    let mut name = match url.host() {
        Some(Host::Domain(domain)) => escaped_host(domain),
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => format!("ip6+{}", address.to_string().replace(':', "-")),
        None => "+nowhere".to_owned(),
    };
    if url.scheme() != "https" {
        name.push('+');
        name.push_str(url.scheme());
    }
    if let Some(port) = url.port() {
        let _ = write!(name, "+{port}");
    }
    name
}

fn escaped_host(host: &str) -> String {
    let mut name = String::with_capacity(host.len());
    if is_device(host) {
        name.push('+');
    }
    for (at, byte) in host.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            b'.' if at > 0 && at + 1 < host.len() => name.push('.'),
            other => {
                let _ = write!(name, "%{other:02x}");
            }
        }
    }
    if name.len() > HOST_MAX {
        name.truncate(PART_MAX);
        name.push('+');
        name.push_str(&hash(host));
    }
    name
}

/// Lower case only, because some file systems do not tell cases apart; no leading dot (hidden, `.`, `..`), no trailing
/// one (dropped on some systems), no device name.
fn is_plain(part: &str) -> bool {
    !part.is_empty()
        && part.len() <= PART_MAX
        && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
        && !part.starts_with('.')
        && !part.ends_with('.')
        && !is_device(part)
}

/// `x.html`, `x.tar.gz`, not `v1.2`: what is after the last dot is short and has a letter.
fn has_extension(part: &str) -> bool {
    part.rsplit_once('.').is_some_and(|(stem, extension)| !stem.is_empty() && is_extension(extension))
}

fn is_extension(text: &str) -> bool {
    (1..=EXTENSION_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Names that are devices on Windows, with any extension.
fn is_device(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or(part).to_ascii_lowercase();
    match stem.as_str() {
        "con" | "prn" | "aux" | "nul" => true,
        numbered => {
            numbered.len() == 4
                && (numbered.starts_with("com") || numbered.starts_with("lpt"))
                && numbered.ends_with(|last: char| last.is_ascii_digit())
        }
    }
}

fn readable_directory(part: &str) -> String {
    let mut name = readable(part, PART_MAX);
    if has_extension(&name) {
        name.push('_');
    }
    name
}

fn hashed_file(file: &str, url: &Url, variant: &str) -> String {
    let (stem, extension) = match file.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && is_extension(extension) => (stem, Some(extension)),
        _ => (file, None),
    };
    let stem = if stem.is_empty() { "index" } else { stem };
    let room = PART_MAX - variant.len();
    let mut name = match url.query() {
        Some(query) => readable(&format!("{stem}_{query}"), room),
        None => readable(stem, room),
    };
    name.push('+');
    let text = url.as_str();
    name.push_str(&hash(text.split('#').next().unwrap_or(text)));
    name.push_str(variant);
    if let Some(extension) = extension {
        name.push('.');
        name.push_str(extension);
    }
    name
}

/// A part people can recognise, safe anywhere; which URL it was is for the hash to say.
fn readable(part: &str, room: usize) -> String {
    let mut name: String = part
        .chars()
        .take(room)
        .map(|char| match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' | '%' | '=' | ',' => char,
            _ => '_',
        })
        .collect();
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    if name.ends_with('.') {
        name.replace_range(name.len() - 1.., "_");
    }
    if name.is_empty() || is_device(&name) {
        name.insert(0, '_');
    }
    name
}

fn hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(HASH_BYTES).fold(String::with_capacity(2 * HASH_BYTES), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// With `_`, `+`, hash, extension and `.meta.json` a name stays under 143 bytes, the most some encrypting file systems
/// take (others take 255).
const PART_MAX: usize = 96;

/// The method in a variant; `~`, `-` and the hash make at most 34 bytes of it.
const LABEL_MAX: usize = 16;

/// DNS allows 253; a longer name is no host, but may be asked for.
const HOST_MAX: usize = 200;

/// Leaves most of the usual 4,096 bytes of a path to the directory it is in.
const DIRECTORIES_MAX: usize = 1_000;

/// `markdown`, `torrent`, `geojson`.
const EXTENSION_MAX: usize = 8;

/// 64 bits: names only have to differ within one host's directory.
const HASH_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn name(url: &str) -> String {
        name_of(&Url::parse(url).unwrap(), None)
    }

    #[test]
    fn plain_urls_read_as_they_are() {
        assert_eq!(name("https://example.com/a/b.html"), "example.com/a/b.html");
        assert_eq!(name("https://EXAMPLE.com/"), "example.com/+index");
        assert_eq!(name("https://example.com/v1.2/"), "example.com/v1.2/+index");
        assert_eq!(name("http://example.com/x.css#top"), "example.com+http/x.css");
        assert_eq!(name("https://example.com:8443/x.css"), "example.com+8443/x.css");
        assert_eq!(name("https://[2001:db8::1]/x.css"), "ip6+2001-db8--1/x.css");
    }

    #[test]
    fn other_urls_keep_a_readable_part_and_the_extension() {
        let cases = [
            ("https://example.com/a", "example.com/a+", ""),
            ("https://example.com/README.md", "example.com/README+", ".md"),
            ("https://example.com/l.php?page=2&x=../..", "example.com/l_page=2_x=.._._+", ".php"),
            ("https://example.com/?q", "example.com/index_q+", ""),
            ("https://example.com/a%2Fb/c.js/d.js", "example.com/a%2Fb/c.js_/d+", ".js"),
            ("https://example.com/aux/lpt1.txt", "example.com/_aux/_lpt1+", ".txt"),
            ("https://example.com/x.html.meta.json", "example.com/x.html.meta+", ".json"),
            ("https://example.com/.htaccess", "example.com/_htaccess+", ""),
            ("https://user:secret@example.com/a.html", "example.com/a+", ".html"),
        ];
        for (url, front, extension) in cases {
            let name = name(url);
            assert!(name.starts_with(front) && name.ends_with(extension), "{url} → {name}");
            assert_eq!(name.len(), front.len() + 2 * HASH_BYTES + extension.len(), "{url} → {name}");
        }
    }

    #[test]
    fn a_variant_stands_before_the_extension() {
        let variant = "POST-3f2a9c0d11e54b87";
        let as_variant = |url| name_of(&Url::parse(url).unwrap(), Some(variant));
        assert_eq!(as_variant("https://a.test/x.tar.gz"), format!("a.test/x.tar~{variant}.gz"));
        assert_eq!(as_variant("https://a.test/"), format!("a.test/+index~{variant}"));
        let plain = name("https://a.test/l.php?page=2");
        assert_eq!(as_variant("https://a.test/l.php?page=2"), plain.replace(".php", &format!("~{variant}.php")));
        assert_eq!(as_variant("https://a.test/search"), format!("{}~{variant}", name("https://a.test/search")));

        let long = Url::parse(&format!("https://a.test/{}.html?{}", "x".repeat(500), "y".repeat(500))).unwrap();
        let plain = Url::parse(&format!("https://a.test/{}.markdown", "x".repeat(PART_MAX - 9))).unwrap();
        let full = format!("{}-3f2a9c0d11e54b87", "M".repeat(LABEL_MAX));
        for odd in ["", "..", "../../x", "post-3f2a9c0d11e54b87", "POST-3F2A9C0D11E54B87", "a/b", "x\0", &full, variant]
        {
            for url in [&long, &plain] {
                let name = name_of(url, Some(odd));
                assert_safe(&name);
                assert!(name.len() - "a.test/".len() + META.len() <= 143, "{name}");
            }
        }
    }

    #[test]
    fn long_deep_and_odd_urls_are_named_within_bounds() {
        let host = format!("https://{}/", "a".repeat(5_000));
        let file = format!("https://example.com/{}.html?{}", "x".repeat(5_000), "y".repeat(5_000));
        let deep = format!("https://example.com/{}end.html", "directory/".repeat(5_000));
        for url in [host.as_str(), &file, &deep, "https://com1.example./a//b", "data:text/plain,x"] {
            assert_safe(&name(url));
        }
        assert_eq!(name("https://com1.example/a.b"), "+com1.example/a.b");
        assert_eq!(name("https://example.com./a.b"), "example.com%2e/a.b");
    }

    /// What every name must be, on any file system.
    fn assert_safe(name: &str) {
        assert!(name.len() <= 1_400, "{} bytes", name.len());
        let parts: Vec<&str> = name.split('/').collect();
        assert!(parts.len() >= 2, "{name}");
        for part in parts {
            assert!(!part.is_empty() && part.len() <= 240 && !part.starts_with('.') && !part.ends_with('.'), "{name}");
            assert!(part.bytes().all(|byte| byte.is_ascii_graphic() && !br#"\:*?"<>|"#.contains(&byte)), "{name}");
            assert!(!is_device(part), "{name}");
        }
    }

    /// Every path a name makes: its directories, its file, its meta file; as a system that ignores case sees them.
    fn paths(name: &str) -> (Vec<String>, [String; 2]) {
        let name = name.to_lowercase();
        let directories = name.match_indices('/').map(|(at, _)| name[..at].to_owned()).collect();
        (directories, [format!("{name}{META}"), name])
    }

    /// Few letters, so that neighbours, prefixes and differences of case are common.
    fn url() -> impl Strategy<Value = String> {
        let host = prop_oneof![Just("a.test"), Just("b.test:81"), Just("con"), Just("[::1]"), Just("a.test.")];
        let path = r"(/|a|A|b|\.|\.\.|%2e|%2F|\.js|\.meta\.json|~|\+|\\|nul|:|\*|é| ){0,9}";
        let query = r"(\?(a|A|/|\.\.|=|&|%00){0,4})?";
        (prop_oneof![Just("http"), Just("https")], host, path, query)
            .prop_map(|(scheme, host, path, query)| format!("{scheme}://{host}/{path}{query}"))
    }

    fn variant() -> impl Strategy<Value = Option<&'static str>> {
        let texts = ["POST-00000000000000a1", "GET-00000000000000a1", "POST-00000000000000b2", "post", "POST", ""];
        prop_oneof![Just(None), prop::sample::select(texts.to_vec()).prop_map(Some)]
    }

    proptest! {
        #[test]
        fn never_escapes_and_is_stable(url in url()) {
            let url = Url::parse(&url).unwrap();
            let name = name_of(&url, None);
            assert_safe(&name);
            prop_assert_eq!(&name, &name_of(&Url::parse(url.as_str()).unwrap(), None));
        }

        #[test]
        fn is_safe_for_any_text_that_parses(text in r"https?://[^ /]{1,20}/\PC{0,400}") {
            if let Ok(url) = Url::parse(&text) {
                assert_safe(&name_of(&url, None));
            }
        }

        #[test]
        fn distinct_requests_never_meet(requests in prop::collection::hash_set((url(), variant()), 1..60)) {
            let mut files: HashMap<String, (String, Option<&str>)> = HashMap::new();
            let mut directories = Vec::new();
            for (url, variant) in requests {
                let url = Url::parse(&url).unwrap();
                let (above, made) = paths(&name_of(&url, variant));
                directories.extend(above);
                for path in made {
                    let request = (url.to_string(), variant);
                    let before = files.insert(path, request.clone());
                    prop_assert!(before.is_none_or(|before| before == request));
                }
            }
            for directory in directories {
                prop_assert!(!files.contains_key(&directory), "{directory} is a file and a directory");
            }
        }
    }
}
