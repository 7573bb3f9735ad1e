//! Flags about what holds. They are keys of `guard.toml`, put over those of the file; its own reader reads them.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use comity_guard::{Network, Settings, SettingsError};
use toml::{Table, Value};

use crate::exit::Usage;
use crate::flags::values;

/// What holds.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitFlags {
    /// The rate of each client, such as 10/s, 100/min or 1/60s; a limit with the name `each`
    #[arg(long, value_name = "RATE", value_parser = rate, allow_hyphen_values = true)]
    rate: Option<String>,

    /// How many requests of a client may come at once after a rest [default: the rate's number]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, requires = "rate")]
    burst: Option<NonZeroU32>,

    /// The rate of all clients together; a limit with the name `all`
    #[arg(long, value_name = "RATE", value_parser = rate, allow_hyphen_values = true)]
    global_rate: Option<String>,

    /// How many requests of all clients together may come at once after a rest [default: the rate's number]
    #[arg(long, value_name = "N", value_parser = values::count, allow_hyphen_values = true, requires = "global_rate")]
    global_burst: Option<NonZeroU32>,

    /// Requests served at once, or auto: as many as the upstream answers quickly [default: as many as come]
    #[arg(long, value_name = "N|auto", value_parser = in_flight, allow_hyphen_values = true)]
    max_in_flight: Option<Value>,

    /// How many may wait for a place in flight; the rest is shed at once [default: 0; with auto, or --queue-wait: 1024]
    #[arg(long, value_name = "N", value_parser = values::number, allow_hyphen_values = true)]
    queue: Option<u32>,

    /// The longest a request waits for a place in flight [default: 500ms; with auto: 100ms]
    #[arg(long, value_name = "TIME", value_parser = queue_wait, allow_hyphen_values = true)]
    queue_wait: Option<Duration>,

    /// A path that nothing holds back, such as /healthz or 'GET /ready' (repeatable)
    #[arg(long, value_name = "PATH", value_parser = exempt)]
    exempt: Vec<String>,

    /// One status for every refusal, such as 503 [default: 429 of a rate, 503 where no place is free]
    #[arg(long, value_name = "STATUS", value_parser = status, allow_hyphen_values = true)]
    status: Option<u16>,

    /// Refuse nothing; count and log what would have been refused
    #[arg(long)]
    dry_run: bool,

    /// A file with limits by route (guard.toml), read again at SIGHUP; flags come before its keys
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Whom a request counts as: address, or header:NAME, the value of a field, such as header:X-Api-Key [default: address]
    ///
    /// A request without that field counts by its address.
    #[arg(long, value_name = "WHAT", value_parser = key)]
    key: Option<String>,

    /// How many leading bits of an IPv6 address are one client's [default: 64]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: Option<u8>,

    /// A network of proxies whose word on whom they forward for is believed, such as 10.0.0.0/8 (repeatable) [default: none]
    #[arg(long, value_name = "CIDR", value_parser = network, conflicts_with = "trusted_hops")]
    trusted_proxy: Vec<Network>,

    /// Instead: how many proxies stand before this guard, where nobody reaches it past them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    trusted_hops: Option<u8>,

    /// The field they write: x-forwarded-for or forwarded [default: x-forwarded-for]
    #[arg(long, value_name = "FIELD", value_parser = ["x-forwarded-for", "forwarded"], ignore_case = true)]
    forwarded: Option<String>,

    /// While the shared limits are out of reach: local or admit [default: local]
    ///
    /// local lets in this guard's part of every limit; admit whatever comes.
    #[arg(long, value_name = "WHAT", value_parser = ["local", "admit"], help_heading = "Sharing")]
    shared_failure: Option<String>,
}

impl LimitFlags {
    /// What holds, from the flags and the file. The file is read each time.
    ///
    /// # Errors
    /// The file cannot be read or obeyed, it and the flags do not go together, or nothing is limited.
    pub(crate) fn settings(&self) -> Result<Settings, Usage> {
        let mut table = match &self.config {
            Some(path) => read(path)?,
            None => Table::new(),
        };
        self.put_over(&mut table);
        let together = |error: SettingsError| {
            let hint =
                if matches!(error, SettingsError::Twice(_)) { " (--rate is `each`, --global-rate `all`)" } else { "" };
            Usage(format!("the flags and --config together: {error}{hint}"))
        };
        let text = toml::to_string(&table).map_err(|error| Usage(format!("--config: {error}")))?;
        let settings = Settings::parse(&text).map_err(together)?;
        if self.config.is_none() && settings.rules.is_empty() && self.max_in_flight.is_none() {
            let allowed = "allowed are --rate, --global-rate, --max-in-flight, --config, or several of them";
            return Err(Usage(format!("nothing is limited: {allowed}")));
        }
        Ok(settings)
    }

    fn put_over(&self, table: &mut Table) {
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), value);
            }
        };
        put("max_in_flight", self.max_in_flight.clone());
        put("queue", self.queue.map(|most| Value::Integer(most.into())));
        put("queue_time", self.queue_wait.map(|wait| Value::String(format!("{}ms", wait.as_millis()))));
        put("status", self.status.map(|status| Value::Integer(status.into())));
        put("dry_run", self.dry_run.then_some(Value::Boolean(true)));
        put("on_store_failure", self.shared_failure.clone().map(Value::String));
        if self.queue_wait.is_some() {
            table.entry("queue").or_insert(Value::Integer(MOST_WAITING));
        }
        if self.status.is_some() {
            table.remove("refused_status");
            table.remove("shed_status");
        }
        append(table, "exempt", self.exempt.iter().cloned().map(Value::String));
        let each = self.rate.as_ref().map(|rate| limit("each", "client", rate, self.burst));
        let all = self.global_rate.as_ref().map(|rate| limit("all", "all", rate, self.global_burst));
        append(table, "limit", each.into_iter().chain(all));
        self.put_over_key(table);
    }

    fn put_over_key(&self, table: &mut Table) {
        let networks = self.trusted_proxy.iter().map(|network| Value::String(network.to_string())).collect::<Vec<_>>();
        let said = [
            ("by", self.key.clone().map(Value::String)),
            ("ipv6_prefix", self.ipv6_prefix.map(|bits| Value::Integer(bits.into()))),
            ("trusted_proxies", (!networks.is_empty()).then_some(Value::Array(networks))),
            ("trusted_hops", self.trusted_hops.map(|hops| Value::Integer(hops.into()))),
            ("forwarded", self.forwarded.clone().map(Value::String)),
        ];
        let Value::Table(key) = table.entry("key").or_insert_with(|| Value::Table(Table::new())) else { return };
        for (name, value) in said {
            let Some(value) = value else { continue };
            match name {
                "trusted_proxies" => drop(key.remove("trusted_hops")),
                "trusted_hops" => drop(key.remove("trusted_proxies")),
                _ => {}
            }
            key.insert(name.to_owned(), value);
        }
    }
}

/// The file as a table, once it has been found to be right by itself.
fn read(path: &Path) -> Result<Table, Usage> {
    let wrong = |what: &dyn std::fmt::Display| Usage(format!("--config {}: {what}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Settings::parse(&text).map_err(|error| wrong(&error))?;
    text.parse().map_err(|error: toml::de::Error| wrong(&error))
}

fn append(table: &mut Table, key: &str, values: impl Iterator<Item = Value>) {
    let values: Vec<Value> = values.collect();
    if values.is_empty() {
        return;
    }
    if let Value::Array(array) = table.entry(key).or_insert_with(|| Value::Array(Vec::new())) {
        array.extend(values);
    }
}

fn limit(name: &str, key: &str, rate: &str, burst: Option<NonZeroU32>) -> Value {
    let mut limit = Table::new();
    limit.insert("name".into(), name.into());
    limit.insert("key".into(), key.into());
    limit.insert("rate".into(), rate.into());
    if let Some(burst) = burst {
        limit.insert("burst".into(), i64::from(burst.get()).into());
    }
    Value::Table(limit)
}

/// Asks the file's reader about one value; says what it allows.
fn asked(table: &Table) -> Result<(), String> {
    let text = toml::to_string(table).map_err(|error| error.to_string())?;
    match Settings::parse(&text) {
        Ok(_) => Ok(()),
        Err(SettingsError::Value { allowed, .. }) => Err(format!("allowed is {allowed}")),
        Err(error) => Err(error.to_string()),
    }
}

fn rate(text: &str) -> Result<String, String> {
    let mut table = Table::new();
    append(&mut table, "limit", std::iter::once(limit("each", "client", text, None)));
    asked(&table).map(|()| text.to_owned())
}

fn in_flight(text: &str) -> Result<Value, String> {
    match text.parse::<u32>() {
        _ if text == "auto" => Ok(text.into()),
        Ok(most) if most > 0 => Ok(i64::from(most).into()),
        _ => Err("allowed is a whole number from 1, or auto".to_owned()),
    }
}

fn queue_wait(text: &str) -> Result<Duration, String> {
    let span = values::some_span(text)?;
    let table = Table::from_iter(
        [("queue", Value::Integer(1)), ("queue_time", format!("{}ms", span.as_millis()).into())]
            .map(|(key, value)| (key.to_owned(), value)),
    );
    asked(&table).map(|()| span)
}

fn exempt(text: &str) -> Result<String, String> {
    asked(&Table::from_iter([("exempt".to_owned(), Value::Array(vec![text.into()]))])).map(|()| text.to_owned())
}

fn status(text: &str) -> Result<u16, String> {
    let status = text.parse().ok().filter(|status| (400..=599).contains(status));
    status.ok_or_else(|| "allowed is a status from 400 to 599".to_owned())
}

fn key(text: &str) -> Result<String, String> {
    let by = Table::from_iter([("by".to_owned(), Value::from(text))]);
    asked(&Table::from_iter([("key".to_owned(), Value::Table(by))])).map(|()| text.to_owned())
}

fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|error: comity_guard::key::NetworkError| error.to_string())
}

/// Who may wait where only for how long was said.
const MOST_WAITING: i64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::testing::{parse, refused};
    use comity_guard::InFlight;
    use comity_guard::key::{ForwardedField, Trust};

    fn settings(words: &[&str]) -> Result<Settings, String> {
        parse::<LimitFlags>(words).unwrap().settings().map_err(|usage| usage.0)
    }

    /// The same with a file.
    fn with(file: &str, words: &[&str]) -> Result<Settings, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("guard.toml");
        std::fs::write(&path, file).unwrap();
        settings(&[&["--config", path.to_str().unwrap()], words].concat())
    }

    #[test]
    fn g24_the_flags_say_what_holds() {
        let held = settings(&["--rate", "10/s", "--burst", "20", "--max-in-flight", "64"]).unwrap().describe();
        assert_eq!(held[0], "each: any method every path: each client: 20 at once, then 1 per 100 ms (10/s)");
        assert_eq!(held[1], "in flight: at most 64, the rest is shed at once");
        let held =
            settings(&["--global-rate", "100/min", "--queue-wait", "2s", "--queue", "5", "--max-in-flight", "1"]);
        let held = held.unwrap().describe();
        assert!(held[0].starts_with("all: any method every path: all clients together: 100 at once"), "{held:?}");
        assert_eq!(held[1], "in flight: at most 1, 5 more wait for up to 2s, the rest is shed at once");
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        let words = ["--max-in-flight", "auto", "--queue-wait", "50ms", "--exempt", "/healthz", "--exempt", "GET /b"];
        let rest = ["--status", "503", "--dry-run", "--key", "header:X-Key", "--ipv6-prefix", "56"];
        let held = settings(&[&words[..], &rest].concat()).unwrap();
        assert_eq!((held.in_flight, held.exempt.len(), held.dry_run), (InFlight::Auto, 2, true));
        assert_eq!(held.queue.map(|queue| (queue.most, queue.longest)), Some((1024, Duration::from_millis(50))));
        assert_eq!((held.answers.refused.as_u16(), held.answers.terse), (503, true));
        assert_eq!((format!("{:?}", held.key.by).as_str(), held.key.ipv6_prefix.bits()), ("Header(\"x-key\")", 56));
        let held = settings(&["--rate", "1", "--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "::1"]).unwrap();
        assert!(matches!(held.key.trust, Trust::Networks(networks) if networks.len() == 2));
        let held = settings(&["--rate", "1", "--shared-failure", "admit"]).unwrap();
        assert_eq!(held.on_store_failure, comity_guard::OnStoreFailure::Admit);
        let held = settings(&["--rate", "1", "--trusted-hops", "2", "--forwarded", "Forwarded"]).unwrap();
        assert!(matches!(held.key.trust, Trust::Hops(hops) if hops.get() == 2));
        assert_eq!(held.key.forwarded, ForwardedField::Forwarded);
        assert_eq!(settings(&["--rate", "1"]).unwrap().key.trust, Trust::Nobody);
    }

    #[test]
    fn flags_come_before_the_keys_of_the_file_and_limits_are_added_to_its_limits() {
        let file = "max_in_flight = 1\nqueue = 3\nrefused_status = 418\nexempt = [\"/a\"]\n[key]\ntrusted_hops = 1\n\
                    [[limit]]\nname = \"login\"\npath = \"/login\"\nrate = \"5/min\"\n";
        let kept = with(file, &[]).unwrap();
        assert_eq!((kept.rules.len(), kept.answers.refused.as_u16()), (1, 418));
        let words = ["--max-in-flight", "9", "--queue-wait", "1s", "--status", "503", "--exempt", "/b", "--rate", "2"];
        let held = with(file, &[&words[..], &["--trusted-proxy", "10.0.0.0/8"]].concat()).unwrap();
        assert_eq!(held.in_flight, InFlight::at_most(9).unwrap());
        assert_eq!(held.queue.map(|queue| (queue.most, queue.longest.as_secs())), Some((3, 1)));
        assert_eq!((held.rules.len(), held.exempt.len(), held.answers.refused.as_u16()), (2, 2, 503));
        assert!(matches!(held.key.trust, Trust::Networks(_)));
    }

    #[test]
    fn what_is_wrong_names_flag_value_and_what_is_allowed() {
        for (words, told) in [
            (&["--rate", "0/s"][..], ["--rate", "0/s", "10/s"]),
            (&["--rate", "fast"], ["--rate", "fast", "10/s"]),
            (&["--rate", "1", "--burst", "0"], ["--burst", "'0'", "from 1"]),
            (&["--burst", "5"], ["--rate", "required", "not provided"]),
            (&["--global-burst", "5"], ["--global-rate", "required", "not provided"]),
            (&["--max-in-flight", "0"], ["--max-in-flight", "'0'", "auto"]),
            (&["--max-in-flight", "-1"], ["--max-in-flight", "-1", "auto"]),
            (&["--queue-wait", "2m"], ["--queue-wait", "2m", "up to a minute"]),
            (&["--exempt", "healthz"], ["--exempt", "healthz", "begins with `/`"]),
            (&["--status", "200"], ["--status", "200", "from 400 to 599"]),
            (&["--key", "cookie"], ["--key", "cookie", "header:X-Api-Key"]),
            (&["--ipv6-prefix", "0"], ["--ipv6-prefix", "'0'", "1..=128"]),
            (&["--trusted-proxy", "10.0.0.1/8"], ["--trusted-proxy", "10.0.0.1/8", "10.0.0.0/8"]),
            (&["--trusted-hops", "0"], ["--trusted-hops", "'0'", "1..=32"]),
            (
                &["--trusted-hops", "1", "--trusted-proxy", "::1"],
                ["--trusted-hops", "cannot be used with", "--trusted-proxy"],
            ),
            (&["--forwarded", "via"], ["--forwarded", "via", "x-forwarded-for"]),
        ] {
            refused::<LimitFlags>(words, &told);
        }
    }

    #[test]
    fn a_wrong_file_is_named_with_key_value_and_what_is_allowed() {
        for (file, told) in [
            ("[[limit]]\nrate = \"0/s\"", &["guard.toml", "rate = \"0/s\"", "[[limit]] 1", "allowed is"][..]),
            ("max_in_fligth = 3", &["guard.toml", "max_in_fligth", "max_in_flight"]),
            ("nonsense", &["guard.toml", "line 1"]),
            ("queue = -1", &["guard.toml", "queue = -1", "allowed is"]),
        ] {
            let error = with(file, &[]).unwrap_err();
            assert!(told.iter().all(|part| error.contains(part)), "{file}: {error}");
        }
        let twice = with("[[limit]]\nname = \"each\"\nrate = 1", &["--rate", "2"]).unwrap_err();
        assert!(twice.contains("\"each\"` twice") && twice.contains("--rate is `each`"), "{twice}");
        assert!(settings(&["--config", "no/such.toml"]).unwrap_err().contains("--config no/such.toml"));
        assert!(settings(&["--exempt", "/a"]).unwrap_err().contains("allowed are --rate"));
    }
}
