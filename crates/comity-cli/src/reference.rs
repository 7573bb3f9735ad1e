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
    check("exit-codes.md", &text);
}

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
