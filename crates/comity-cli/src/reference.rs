//! docs/reference/ is written from the code: these tests fail where it is not what the code says.
//!
//! `COMITY_WRITE_REFERENCE=1 cargo test -p comity-cli reference` writes it anew.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use crate::Cli;
use crate::exit::Exit;

#[test]
fn the_reference_of_the_commands_is_what_the_code_says() {
    let mut command = Cli::command();
    command.build();
    let mut text = format!("# The `comity` command\n\n{NOTE}\n");
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        section(&mut text, sub);
    }
    check("comity.md", &text);
}

#[test]
fn the_reference_of_the_exit_codes_is_what_the_code_says() {
    let mut text = format!("# Exit codes of `comity`\n\n{NOTE}\n| code | meaning |\n|---:|---|\n");
    for exit in Exit::ALL {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning());
    }
    let mut causes = Exit::ALL.to_vec();
    causes.retain(|exit| !matches!(exit, Exit::Done | Exit::Usage));
    causes.sort();
    let order: Vec<String> = causes.iter().rev().map(|exit| exit.code().to_string()).collect();
    let _ = writeln!(text, "\nWhere several causes hold, the worst is the exit code: {}.", order.join(", "));
    text.push_str("\n## Of `comity audit`\n\n| code | meaning |\n|---:|---|\n");
    for exit in Exit::AUDIT {
        let _ = writeln!(text, "| {} | {} |", exit.code(), exit.meaning_of_audit());
    }
    check("exit-codes.md", &text);
}

#[test]
fn the_reference_of_the_configuration_is_what_the_code_says() {
    let mut text = format!("# `comity.toml`\n\n{NOTE}\n{CONFIGURATION}\n| key | meaning |\n|---|---|\n");
    for (key, meaning) in comity::config::KEYS {
        let _ = writeln!(text, "| `{key}` | {meaning} |");
    }
    check("configuration.md", &text);
}

#[test]
fn the_reference_of_the_guards_file_is_what_the_code_says() {
    let mut text = format!("# `guard.toml`\n\n{NOTE}\n{GUARD}");
    for (table, keys) in comity_guard::rules::KEYS {
        let title = match *table {
            "" => "## At the top".to_owned(),
            "limit" => "## `[[limit]]`".to_owned(),
            other => format!("## `[{other}]`"),
        };
        let _ = writeln!(text, "\n{title}\n\n| key | meaning |\n|---|---|");
        for (key, meaning) in *keys {
            let _ = writeln!(text, "| `{key}` | {meaning} |");
        }
    }
    check("guard.md", &text);
}

#[test]
fn the_reference_of_the_presets_is_what_the_data_says() {
    let mut text = format!("# Published limits of well-known services\n\n{NOTE}\n{PRESETS}\n");
    for preset in comity::presets::presets().unwrap() {
        let scopes: Vec<String> = preset.limits.iter().map(|(pattern, _)| format!("`{pattern}`")).collect();
        let _ = writeln!(text, "## {} {}\n\n{}\n", preset.id, preset.service, scopes.join(", "));
        for (pattern, partial) in &preset.limits {
            let words = partial.over(&comity::Limits::none()).in_words();
            let told = |what: &str| partial.over(&comity::Limits::none()).source(what).is_some();
            let words: Vec<String> =
                words.iter().filter(|(what, _)| told(what)).map(|(what, value)| format!("{what} {value}")).collect();
            let _ = writeln!(text, "- `{pattern}`: {}", words.join("; "));
        }
        let _ = writeln!(
            text,
            "\n{}\n\nSource: {}, read {}; confidence: {}.\n",
            preset.note, preset.source, preset.read, preset.confidence
        );
    }
    check("presets.md", &text);
}

const CONFIGURATION: &str = "Given to `comity fetch --config` and `comity explain --config`, or named by `COMITY_CONFIG`.

```toml
profile = \"crawl\"          # crawl, api or browse
pace_loopback = false      # whether localhost and its like are paced
presets = true             # whether published limits hold
shared = \"machine\"         # with whom the pace is shared, as --shared takes it; COMITY_SHARED comes before it

[default]                  # a template: every host by itself
in_flight = 2

[limits.\"*.example.org\"]   # a group: the domain's hosts together, apex included
per_second = 5

[limits.\"api.example.org/v1\"]
rate = \"60/min\"
```

A table's name is a host, `host:port`, an IP address, `*.domain`, or `*`, perhaps with a path prefix (`example.org/api`) or an
identity (`example.org#gold`, `#*` for each by itself). What these mean: [how the pace is found](../concepts/pace.md).

## Keys of `[default]` and `[limits.\"…\"]`
";

const GUARD: &str = "Given to `comity guard --config`, and read again at SIGHUP. Flags come before its keys, and add to its limits and exemptions.
[An example](../guide/guard.md#limits-by-route).
";

const PRESETS: &str = "They hold in `comity fetch` from the start. Your own limits win where they are stricter, or with
`override_preset = true`; `--no-presets` switches all of them off.
";

fn section(text: &mut String, command: &Command) {
    let _ = writeln!(text, "## `comity {}`\n", command.get_name());
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        let _ = writeln!(text, "{about}");
    }
    let mut heading = Some("");
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help") {
        if arg.get_help_heading() != heading {
            heading = arg.get_help_heading();
            let _ = writeln!(text, "\n### {}\n", heading.unwrap_or("Options"));
        }
        let _ = writeln!(text, "- `{}`: {}", spelling(arg), help(arg));
    }
    text.push('\n');
}

fn spelling(arg: &Arg) -> String {
    let mut names: Vec<String> = arg.get_short().map(|short| format!("-{short}")).into_iter().collect();
    names.extend(arg.get_long().map(|long| format!("--{long}")));
    let value = arg.get_value_names().filter(|_| arg.get_num_args().is_none_or(|n| n.takes_values()));
    let value = value.map(|names| names.join(" ")).unwrap_or_default();
    match (names.is_empty(), value.is_empty()) {
        (true, _) => value,
        (false, true) => names.join(", "),
        (false, false) => format!("{} {value}", names.join(", ")),
    }
}

fn help(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    help.split("\n\n").map(str::trim).collect::<Vec<_>>().join(". ")
}

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let text = format!("{}\n", text.trim_end());
    if std::env::var_os("COMITY_WRITE_REFERENCE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "{} is not what the code says; {NOTE}", path.display());
}

const NOTE: &str =
    "Written from the code; `COMITY_WRITE_REFERENCE=1 cargo test -p comity-cli reference` writes it anew.\n";
