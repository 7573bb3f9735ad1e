//! The project's own chores: `cargo xtask CHORE`.
//!
//! A chore is a file (or a folder) of its own beside this one, and a line in [`CHORES`].
#![expect(clippy::print_stdout, reason = "a chore talks to the person who runs it")]

mod arms;
mod bench;
mod test;
mod workspace;

use std::process::ExitCode;

use crate::workspace::Workspace;

/// What can be asked of `cargo xtask`.
struct Chore {
    name: &'static str,
    about: &'static str,
    /// Gets the workspace and the arguments after the chore's name.
    run: fn(&Workspace, &[String]) -> anyhow::Result<()>,
}

const CHORES: &[Chore] = &[
    Chore { name: "test", about: "all that CI checks, in order, up to the first failure", run: test::run },
    Chore {
        name: "bench",
        about: "decisions, waiting, fetching, shared stores and the guard beside their peers; prints ratios",
        run: bench::run,
    },
    Chore {
        name: "arms",
        about: "comity and its peers at hosts with hidden limits, by what the hosts saw",
        run: arms::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        println!("cargo xtask CHORE\n");
        for chore in CHORES {
            println!("  {:8} {}", chore.name, chore.about);
        }
        return ExitCode::SUCCESS;
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        let known: Vec<_> = CHORES.iter().map(|chore| chore.name).collect();
        println!("no chore is called `{name}`; there is: {}", known.join(", "));
        return ExitCode::from(2);
    };
    match Workspace::open().and_then(|workspace| (chore.run)(&workspace, rest)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
