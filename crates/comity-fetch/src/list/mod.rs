//! What to fetch: URLs in order, each once, at little more than the length of their text.
//!
//! ```
//! use comity_fetch::list::{Added, List};
//!
//! let mut list = List::default();
//! let text = "# two pages\nhttp://EXAMPLE.com/a\nhttp://example.com/a#top\n\nexample.com/b\n";
//! let mut wrong = Vec::new();
//! list.read(text.as_bytes(), "urls.txt", &mut |error| wrong.push(error.to_string()))?;
//! assert_eq!((list.len(), list.text(0)), (1, "http://example.com/a"));
//! assert!(wrong[0].starts_with("urls.txt:5: "));
//!
//! let line = r#"{"url": "https://api.example.com/", "method": "POST", "body": "a=1", "limits": {"per_second": 2}}"#;
//! assert!(matches!(list.add(line), Ok(Added::New(1))));
//! assert_eq!(list.extra(1).and_then(|extra| extra.method.clone()), Some(http::Method::POST));
//! # Ok::<(), std::io::Error>(())
//! ```

mod error;
mod extra;
mod limits;
mod line;
mod lines;
mod object;
mod texts;
mod variant;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::io::{self, BufRead};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};
use http::Method;
use url::Url;

pub use error::LineError;
pub use extra::Extra;

use limits::LimitsRead;
use lines::{Lines, Next};
use texts::Texts;

/// What to fetch. An entry is known by its number, from 0 in the order of the lines.
///
/// An entry costs its text, four bytes for where that ends and five to twelve for finding duplicates. What a plain URL
/// does not have is kept aside.
#[derive(Default)]
pub struct List {
    texts: Texts,
    /// The entries, by what they ask for.
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
    extras: HashMap<u32, Box<Extra>>,
    limits: LimitsRead,
}

/// What a line added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// An entry, with its number.
    New(u32),
    /// What is in the list already: the same URL with the same method, headers, body, credentials and identity. The limits
    /// and the cost given first hold.
    Duplicate,
    /// Nothing: a comment or a blank line.
    Nothing,
}

impl List {
    /// Adds a line:
    ///
    /// - a URL, `http` or `https`, normalised by the WHATWG URL rules. Its fragment is for nobody but the reader and is
    ///   dropped; a user and a password in it become the entry's [credentials](Extra::credentials);
    /// - a JSON object with `url` and any of `method`, `headers`, `body`, `limits`, `identity` and `cost` (see [`Extra`]);
    /// - a comment, which begins with `#`; or a blank line.
    ///
    /// White space around it, a line end and a byte order mark are passed over.
    ///
    /// # Errors
    /// Says what is wrong with the line. [`LineError::source`] and [`LineError::line`] are empty: only
    /// [`read`](Self::read) knows them.
    pub fn add(&mut self, line: &str) -> Result<Added, LineError> {
        match line::read(line, &mut self.limits) {
            Ok(None) => Ok(Added::Nothing),
            Ok(Some(entry)) => self.put(&entry.text, entry.extra).map_err(|reason| LineError::new(line, reason)),
            Err(reason) => Err(LineError::new(line, reason)),
        }
    }

    /// Adds all lines of `reader`, of any size. A malformed line is told to `on_error`, with `name` and its number, and
    /// the next one is read.
    ///
    /// # Errors
    /// When `reader` cannot be read on. What was read until then is in the list.
    pub fn read(&mut self, reader: impl BufRead, name: &str, on_error: &mut impl FnMut(LineError)) -> io::Result<()> {
        let source: Arc<str> = name.into();
        let mut lines = Lines::new(reader);
        loop {
            let added = match lines.next()? {
                Next::End => return Ok(()),
                Next::Line(line) => match str::from_utf8(line) {
                    Ok(line) => self.add(line).map(drop),
                    Err(_) => Err(LineError::new(&String::from_utf8_lossy(line), "is not UTF-8")),
                },
                Next::TooLong(start) => Err(LineError::new(&String::from_utf8_lossy(start), lines::TOO_LONG)),
            };
            if let Err(error) = added {
                on_error(LineError { source: Arc::clone(&source), line: lines.number(), ..error });
            }
        }
    }

    /// How many entries there are.
    pub fn len(&self) -> u32 {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The URL of an entry, without fragment and userinfo.
    ///
    /// # Panics
    /// When there is no such entry, as an index does.
    pub fn url(&self, entry: u32) -> Url {
        // `line::read` has parsed this very text.
        Url::parse(self.text(entry)).expect("a list holds URLs")
    }

    /// The text of an entry's URL.
    ///
    /// # Panics
    /// When there is no such entry, as an index does.
    pub fn text(&self, entry: u32) -> &str {
        self.texts.get(entry)
    }

    /// What an entry has beside its URL.
    pub fn extra(&self, entry: u32) -> Option<&Extra> {
        self.extras.get(&entry).map(|extra| &**extra)
    }

    /// What tells an entry from the others for its URL, for whoever keeps the answers: `None` where it is what a run of
    /// this method makes of a bare URL, else the method and 64 bits of SHA-256 over method, headers, body, identity and
    /// credentials: `POST-3f2a9c0d11e54b87`. The same request has the same variant in every run.
    pub fn variant(&self, entry: u32, run: &Method) -> Option<Box<str>> {
        variant::of(self.extra(entry)?, run)
    }

    /// Gives back the memory that only adding needs; adding again takes it again.
    pub fn shrink(&mut self) {
        self.known = HashTable::new();
        self.limits = LimitsRead::default();
        self.texts.shrink();
    }

    /// Memory held, in bytes.
    pub fn bytes(&self) -> usize {
        let aside = size_of::<(u32, Box<Extra>)>() + 1;
        self.texts.bytes()
            + self.known.allocation_size()
            + self.extras.capacity() * aside
            + self.extras.values().map(|extra| extra.bytes()).sum::<usize>()
    }

    fn put(&mut self, text: &str, extra: Option<Box<Extra>>) -> Result<Added, &'static str> {
        let Self { texts, known, hasher, extras, .. } = self;
        let asks = |extra: Option<&Extra>, text: &str| {
            let mut state = hasher.build_hasher();
            text.hash(&mut state);
            extra.map(Extra::asked).unwrap_or_default().hash(&mut state);
            state.finish()
        };
        let of = |entry: &u32| asks(extras.get(entry).map(|extra| &**extra), texts.get(*entry));
        if known.len() != texts.len() as usize {
            known.reserve(texts.len() as usize, of);
            for entry in 0..texts.len() {
                known.insert_unique(of(&entry), entry, of);
            }
        }

        let asked = extra.as_deref().map(Extra::asked).unwrap_or_default();
        let hash = asks(extra.as_deref(), text);
        let same = |&entry: &u32| {
            texts.get(entry) == text && extras.get(&entry).map(|extra| extra.asked()).unwrap_or_default() == asked
        };
        if known.find(hash, same).is_some() {
            return Ok(Added::Duplicate);
        }
        let entry = texts.len();
        if entry == u32::MAX {
            return Err("is one too many: a list holds 4,294,967,295 URLs");
        }
        known.insert_unique(hash, entry, of);
        texts.push(text);
        if let Some(extra) = extra {
            extras.insert(entry, extra);
        }
        Ok(Added::New(entry))
    }
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("List").field("len", &self.len()).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}
