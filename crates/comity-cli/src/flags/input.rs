//! Flags about the list of URLs.

use std::path::PathBuf;

use clap::Args;

use crate::exit::Usage;

/// What to fetch.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "List")]
pub(crate) struct InputFlags {
    /// URLs to fetch
    #[arg(value_name = "URL")]
    pub(crate) urls: Vec<String>,

    /// A list of URLs, one per line, or JSON lines; - is standard input (repeatable)
    ///
    /// Blank lines and lines that begin with # are passed over, duplicates are fetched once. A line that is no URL is
    /// reported with its number and the rest goes on. Without any URL, the list is read from standard input.
    /// A JSON line has a url and any of method, headers, body, limits (which hold for that line's requests only),
    /// identity and cost.
    #[arg(short = 'i', long = "input", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Where a list comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Standard input.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl InputFlags {
    /// The lists to read; `typed` says whether standard input is a terminal.
    pub(crate) fn sources(&self, typed: bool) -> Result<Vec<Source>, Usage> {
        if self.urls.is_empty() && self.files.is_empty() {
            return if typed {
                Err(Usage("no URL: name some, or a list of them with --input FILE".to_owned()))
            } else {
                Ok(vec![Source::Stdin])
            };
        }
        let source = |file: &PathBuf| if file.as_os_str() == "-" { Source::Stdin } else { Source::File(file.clone()) };
        let sources: Vec<Source> = self.files.iter().map(source).collect();
        if sources.iter().filter(|source| **source == Source::Stdin).count() > 1 {
            return Err(Usage("--input - can be given once: standard input is read once".to_owned()));
        }
        Ok(sources)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::parse;

    fn sources(words: &[&str], typed: bool) -> Result<Vec<Source>, String> {
        parse::<InputFlags>(words).unwrap().sources(typed).map_err(|usage| usage.to_string())
    }

    #[test]
    fn lists_come_from_files_and_standard_input() {
        let file = |name: &str| Source::File(name.into());
        assert_eq!(sources(&["-i", "a.txt", "--input", "b.txt"], true), Ok(vec![file("a.txt"), file("b.txt")]));
        assert_eq!(sources(&["-i", "-", "-i", "a"], true), Ok(vec![Source::Stdin, file("a")]));
        assert_eq!(sources(&["https://example.org/"], false), Ok(vec![]), "a URL given: standard input is not read");
        assert!(sources(&["-i", "-", "-i", "-"], true).unwrap_err().contains("once"));
    }

    #[test]
    fn standard_input_is_the_list_where_nothing_else_is_and_nobody_types() {
        assert_eq!(sources(&[], false), Ok(vec![Source::Stdin]));
        assert!(sources(&[], true).unwrap_err().contains("--input FILE"));
    }
}
