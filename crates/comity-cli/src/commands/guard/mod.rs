//! `comity guard`: limits in front of any HTTP server.
//!
//! ```text
//! client ─► server ─► logged (where asked) ─► guard: gate, limits ─► judging ─► forward ─► upstream
//!                                                admin: /metrics, /healthz, on a port of its own
//! ```

mod access_log;
mod admin;
mod clock;
mod judging;
mod logged;
mod metrics;
mod serve;
mod signals;
mod told;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Args;
use comity_guard::proxy::Forward;

use crate::exit::{Exit, Usage};
use crate::flags::guard::{self, GuardSharedFlags, LimitFlags, ListenFlags, ToldFlags, UpstreamFlags};
use access_log::AccessLog;
use serve::Assembled;
use told::Teller;

/// Guard a server: limits that its clients can understand and keep
///
/// Stands in front of any HTTP server and passes requests on to it. Who asks more often than the limits allow is answered
/// with 429 and the time to come back after, exact to the second; who comes while everything is busy with 503. SIGHUP reads
/// --config and the certificates again; Ctrl-C and SIGTERM let what is in flight end.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct GuardCommand {
    #[command(flatten)]
    listen: ListenFlags,
    #[command(flatten)]
    upstream: UpstreamFlags,
    #[command(flatten)]
    limits: LimitFlags,
    #[command(flatten)]
    shared: GuardSharedFlags,
    #[command(flatten)]
    told: ToldFlags,
}

impl GuardCommand {
    pub(crate) fn run(self) -> Result<Exit> {
        self.told.go_together()?;
        let settings = self.limits.settings()?;
        let place = self.shared.place()?;
        let teller = Teller::new(&self.told, &self.upstream.upstream, guard::in_words(&place));
        let certificates = self.listen.certificates()?;
        let listen = self.listen.listen(certificates.as_ref())?;
        let forward = Forward::new(self.upstream.upstream.clone(), self.upstream.settings())
            .map_err(|error| Usage(format!("--upstream, --upstream-cacert: {error}")))?;
        let believed = judging::Believed::new(&settings.key.trust);
        let key = told::key_in_words(&settings.key);
        if self.told.check {
            if let Some(to) = &self.told.access_log {
                access_log::check(to).map_err(|error| Usage(format!("--access-log: {error}")))?;
            }
            teller.checked(&settings, key)?;
            return Ok(Exit::Done);
        }
        let guard = guard::guard(settings, &place)?;
        let log = self.told.access_log.as_ref().map(|to| AccessLog::open(to, self.told.access_log_query));
        let log = log.transpose().map_err(|error| Usage(format!("--access-log: {error}")))?.map(Arc::new);
        serve::raise_open_files();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start")?;
        let bounds = self.listen.bounds();
        let admin = self.told.admin;
        let assembled = Assembled {
            limits: self.limits,
            listen,
            bounds,
            certificates,
            guard,
            believed,
            forward,
            log,
            admin,
            teller,
            key,
        };
        let exit = runtime.block_on(assembled.serve());
        // What is left belongs to connections that were given up.
        runtime.shutdown_background();
        exit
    }
}

const AFTER_HELP: &str = "\
Example:
  comity guard --listen :8080 --upstream http://127.0.0.1:3000 --rate 10/s --burst 20 --max-in-flight 64

Exit codes:
    0  ended by Ctrl-C or SIGTERM, with all that was in flight served, or cut off after --drain-time
    1  another error: an address that cannot be listened on
    2  the command line, a file or a certificate is wrong; nothing was listened on
  130  a second signal ended it at once
";
