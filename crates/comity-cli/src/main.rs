//! The `comity` command: courteous HTTP at full speed.
//!
//! ```text
//! flags ─ one struct a concern ─► commands ─ fetch · demo · explain · hosts · forget · audit · guard · presets · simulate
//!                                    └► screen (stderr is words) · stdout (data)
//! ```

mod commands;
mod exit;
mod flags;
#[cfg(test)]
mod reference;
mod screen;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use commands::Command;
use exit::{Exit, Usage};

/// Courteous HTTP at full speed: one pace per host, found by listening to what the host says.
#[derive(Debug, Parser)]
#[command(name = "comity", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let name = command.name();
    match command.run() {
        Ok(exit) => exit.into(),
        Err(error) => match error.downcast_ref::<Usage>() {
            Some(usage) => wrong(name, usage),
            None if screen::is_broken_pipe(&error) => Exit::Error.into(),
            None => {
                screen::say(&format!("comity: {error:#}"));
                Exit::Error.into()
            }
        },
    }
}

/// Ends as clap does for a wrong value, with the usage of the command that was given.
fn wrong(name: &str, usage: &Usage) -> ! {
    let mut cli = Cli::command();
    cli.build();
    let command = cli.find_subcommand_mut(name);
    let error = clap::error::ErrorKind::ValueValidation;
    match command {
        Some(command) => command.error(error, usage).exit(),
        None => Cli::command().error(error, usage).exit(),
    }
}
