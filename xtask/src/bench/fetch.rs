//! `cargo xtask bench fetch`: the command beside other downloaders.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use wait4::Wait4;

use super::server::Server;
use super::{release, words};
use crate::workspace::Workspace;

/// 20,000 files of 1 KB on loopback, 64 at once, unpaced, each kept as a file.
pub(super) fn run(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    println!("\n== fetch: {FILES} files of {BYTES} bytes on loopback, {AT_ONCE} at once, unpaced; best of {ROUNDS}");
    let server = Server::start(workspace, BYTES)?;
    let list: String = (0..FILES).fold(String::new(), |mut list, n| {
        let _ = writeln!(list, "http://127.0.0.1:{}/file/{n}", server.port);
        list
    });
    let urls = folder.join("urls.txt");
    std::fs::write(&urls, &list)?;
    let config = folder.join("curl.conf");
    let entries = list.lines().enumerate().fold(String::new(), |mut text, (n, url)| {
        let _ = writeln!(text, "url = \"{url}\"\noutput = \"curl/{n}\"");
        text
    });
    std::fs::write(&config, entries)?;
    let comity = release(workspace, "comity");
    let contenders: [(&str, PathBuf, Vec<String>); 3] = [
        (
            "comity",
            comity,
            words(&format!(
                "fetch -q --shared none --profile api --no-presets --parallel {AT_ONCE} --contact bench@example.org -i {} -o comity",
                urls.display()
            )),
        ),
        (
            "wget2",
            "wget2".into(),
            words(&format!("-q --max-threads={AT_ONCE} --no-robots -P wget2 -i {}", urls.display())),
        ),
        (
            "curl",
            "curl".into(),
            words(&format!("-s --no-progress-meter --parallel --parallel-max {AT_ONCE} -K {}", config.display())),
        ),
    ];
    println!("{:8} {:>9} {:>12} {:>14} {:>9}", "", "wall s", "files/s", "CPU ms a file", "peak MB");
    let mut best: Vec<(&str, Cost)> = Vec::new();
    for round in 0..ROUNDS {
        for (name, program, arguments) in &contenders {
            let outputs = folder.join(name);
            let _ = std::fs::remove_dir_all(&outputs);
            std::fs::create_dir(&outputs)?;
            let Some(cost) = cost(program, arguments, folder)? else {
                if round == 0 {
                    println!("{name:8} is not installed");
                }
                continue;
            };
            let kept = count_files(&outputs, |path| path.extension().is_none_or(|e| e != "json"))?;
            if kept < FILES {
                bail!("{name} kept {kept} of {FILES} files");
            }
            match best.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) if known.wall <= cost.wall => {}
                Some((_, known)) => *known = cost,
                None => best.push((name, cost)),
            }
        }
    }
    for (name, cost) in &best {
        println!(
            "{name:8} {:>9.2} {:>12.0} {:>14.4} {:>9.1}",
            cost.wall.as_secs_f64(),
            FILES as f64 / cost.wall.as_secs_f64(),
            cost.cpu.as_secs_f64() * 1000.0 / FILES as f64,
            cost.peak as f64 / 1e6
        );
    }
    let ours = &best[0].1;
    for (name, cost) in &best[1..] {
        println!(
            "comity / {name}: rate {:.2}, CPU {:.2}, memory {:.2}",
            cost.wall.as_secs_f64() / ours.wall.as_secs_f64(),
            ours.cpu.as_secs_f64() / cost.cpu.as_secs_f64(),
            ours.peak as f64 / cost.peak as f64
        );
    }
    Ok(())
}

struct Cost {
    wall: Duration,
    cpu: Duration,
    peak: u64,
}

/// What a command cost; `None` where it is not installed.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn cost(program: &Path, arguments: &[String], folder: &Path) -> anyhow::Result<Option<Cost>> {
    let start = Instant::now();
    let spawned =
        Command::new(program).args(arguments).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot start {}", program.display())),
    };
    let ended = child.wait4()?;
    let wall = start.elapsed();
    if !ended.status.success() {
        bail!("{} ended with {}", program.display(), ended.status);
    }
    let usage = ended.rusage;
    Ok(Some(Cost { wall, cpu: usage.utime + usage.stime, peak: usage.maxrss }))
}

fn count_files(folder: &Path, wanted: impl Fn(&Path) -> bool + Copy) -> anyhow::Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        count += if entry.file_type()?.is_dir() {
            count_files(&entry.path(), wanted)?
        } else {
            usize::from(wanted(&entry.path()))
        };
    }
    Ok(count)
}

const FILES: usize = 20_000;
const BYTES: usize = 1024;
const AT_ONCE: usize = 64;
const ROUNDS: usize = 3;
