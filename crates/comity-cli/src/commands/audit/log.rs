//! A server's own access log, judged.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use comity_audit::access_log::{LogTable, Verdict, judge as judge_log, read};
use comity_audit::audit::Promise;

use crate::exit::Exit;
use crate::screen::words::count;
use crate::screen::{print, say};

/// Reads the files as one log, in the order given, and prints what each client in it did.
pub(super) fn judge(files: &[PathBuf], promise: &Promise, json: bool) -> Result<Exit> {
    let mut whole: Box<dyn Read> = Box::new(io::empty());
    for file in files {
        whole = Box::new(whole.chain(open(file)?));
    }
    let log = read(BufReader::new(whole)).context("cannot read the log")?;
    if log.skipped > 0 {
        say(&format!("comity: {} could not be read, and nothing is judged by them", count(log.skipped, "line")));
    }
    let clients = judge_log(&log, promise.interval, promise.tolerance, promise.burst);
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&clients)?))?;
    } else {
        print(&LogTable(&clients).to_string())?;
    }
    Ok(verdict(clients.iter().map(|client| client.verdict)))
}

fn open(file: &Path) -> Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    let mut opened =
        BufReader::new(File::open(file).with_context(|| format!("cannot open the log {}", file.display()))?);
    if opened.fill_buf().is_ok_and(|begin| begin.starts_with(&GZIP)) {
        bail!("{} is compressed: judge it by `zcat {0} | comity audit --log - …`", file.display());
    }
    Ok(Box::new(opened))
}

/// One client that breaks the promise is one too many; where every client came too seldom, nothing was shown.
fn verdict(clients: impl Iterator<Item = Verdict>) -> Exit {
    match clients.min() {
        Some(Verdict::Fails) => Exit::Fails,
        Some(Verdict::Passes) => Exit::Done,
        Some(Verdict::TooFew) | None => Exit::Void,
    }
}

/// How a gzip file begins (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_that_breaks_the_promise_decides() {
        let of = |clients: &[Verdict]| verdict(clients.iter().copied());
        assert_eq!(of(&[Verdict::Passes, Verdict::Fails, Verdict::TooFew]), Exit::Fails);
        assert_eq!(of(&[Verdict::TooFew, Verdict::Passes]), Exit::Done);
        assert_eq!((of(&[Verdict::TooFew]), of(&[])), (Exit::Void, Exit::Void));
    }
}
