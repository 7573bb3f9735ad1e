//! Where the flags meet the rooms of `comity_fetch`.

use std::fs::File;
use std::io::{BufReader, stdin};

use anyhow::{Context as _, Result};
use comity_fetch::client::Client;
use comity_fetch::keep::{self, Kept};
use comity_fetch::list::List;
use comity_fetch::request::{OptionError, RequestOptions, Requests};

use crate::exit::Usage;
use crate::flags::connection::ConnectionFlags;
use crate::flags::input::Source;

/// The client, with proxies from the environment where no flag names one.
pub(crate) fn client(flags: &ConnectionFlags) -> Result<Client> {
    // `vars` would panic at a variable that is not UTF-8; no proxy is named by one.
    let environment =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Client::new(flags.options(environment)?).map_err(|error| Usage(format!("--cacert: {error}")).into())
}

/// What makes the requests.
pub(crate) fn requests(options: RequestOptions) -> Result<Requests> {
    match Requests::new(options) {
        Ok(requests) => Ok(requests),
        Err(error @ OptionError::Value { .. }) => Err(Usage(error.to_string()).into()),
        Err(error) => Err(error.into()),
    }
}

/// The outputs. What holds an earlier run says with which flag it may be used.
pub(crate) fn kept(options: &keep::Options) -> Result<Kept> {
    match Kept::open(options) {
        Err(error) if error.is_occupied() => Err(Usage(format!(
            "{} holds an earlier run: --resume goes on with it, --if-newer asks for what has changed since, --replace \
             starts it again",
            error.path().display()
        ))
        .into()),
        opened => Ok(opened?),
    }
}

/// The list: URLs of the command line first, then each source. What is no URL is told to `wrong` and counted.
pub(crate) fn list(urls: &[String], sources: &[Source], wrong: &mut dyn FnMut(String)) -> Result<(List, u64)> {
    let mut list = List::default();
    let mut malformed = 0;
    for (n, url) in urls.iter().enumerate() {
        if let Err(error) = list.add(url) {
            malformed += 1;
            wrong(format!("argument {}: {error}", n + 1));
        }
    }
    let mut told = |error: comity_fetch::list::LineError| {
        malformed += 1;
        wrong(error.to_string());
    };
    for source in sources {
        match source {
            Source::Stdin => {
                list.read(stdin().lock(), "standard input", &mut told).context("cannot read standard input")?;
            }
            Source::File(path) => {
                let name = path.display().to_string();
                let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
                list.read(BufReader::new(file), &name, &mut told).with_context(|| format!("cannot read {name}"))?;
            }
        }
    }
    list.shrink();
    Ok((list, malformed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_line_is_told_with_its_number_and_the_rest_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("urls.txt");
        std::fs::write(&path, "# pages\nhttps://a.example/\n\nnonsense\nhttps://b.example/\nhttps://a.example/\n")
            .unwrap();
        let urls = ["https://c.example/".to_owned(), "nonsense".to_owned()];
        let mut told = Vec::new();
        let (list, malformed) = list(&urls, &[Source::File(path)], &mut |text| told.push(text)).unwrap();
        assert_eq!((list.len(), malformed), (3, 2));
        assert!(told[0].starts_with("argument 2: "), "{told:?}");
        assert!(told[1].contains("urls.txt:4:"), "{told:?}");
    }

    #[test]
    fn an_earlier_run_is_named_with_the_flags_that_use_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.jsonl");
        std::fs::write(&path, "{}\n").unwrap();
        let options = keep::Options { jsonl: Some(keep::Lines::File(path)), ..keep::Options::default() };
        let error = kept(&options).err().unwrap();
        assert!(error.is::<Usage>());
        let error = error.to_string();
        assert!(
            ["lines.jsonl", "--resume", "--if-newer", "--replace"].iter().all(|part| error.contains(part)),
            "{error}"
        );
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = list(&[], &[Source::File("no/such.txt".into())], &mut |_| {}).unwrap_err();
        assert!(format!("{error:#}").contains("no/such.txt"));
    }
}
