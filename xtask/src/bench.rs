//! `cargo xtask bench [decide] [waiting] [fetch] [memory]`: beside the peers, in one run, as ratios.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use wait4::Wait4;

use crate::workspace::{Workspace, run as run_command};

/// Runs the benchmarks that are named, or all.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> anyhow::Result<()> {
    const KNOWN: [&str; 4] = ["decide", "waiting", "fetch", "memory"];
    if let Some(unknown) = arguments.iter().find(|argument| !KNOWN.contains(&argument.as_str())) {
        bail!("no benchmark is called `{unknown}`; there is: {}", KNOWN.join(", "));
    }
    let wanted = |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == name);
    for bench in ["decide", "waiting"].into_iter().filter(|bench| wanted(bench)) {
        println!("\n== {bench}: cargo bench -p comity --bench {bench}");
        cargo(workspace, &["bench", "--locked", "-q", "-p", "comity", "--bench", bench])?;
    }
    if wanted("fetch") || wanted("memory") {
        cargo(workspace, &["build", "--locked", "-q", "--release", "-p", "comity-cli"])?;
        cargo(
            workspace,
            &["build", "--locked", "-q", "--release", "-p", "comity-audit", "--example", "static_server"],
        )?;
    }
    let folder = tempfile::tempdir()?;
    if wanted("fetch") {
        fetch(workspace, folder.path())?;
    }
    if wanted("memory") {
        memory(workspace, folder.path())?;
    }
    Ok(())
}

const FILES: usize = 20_000;
const BYTES: usize = 1024;
const AT_ONCE: usize = 64;
const ROUNDS: usize = 3;

/// 20,000 files of 1 KB on loopback, 64 at once, unpaced, each kept as a file.
fn fetch(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
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
                "fetch -q --profile api --no-presets --parallel {AT_ONCE} --contact bench@example.org -i {} -o comity",
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

/// A million lines: memory a line, with 100 hosts and with 900,000.
fn memory(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
    println!("\n== memory: 1,000,000 URLs, the run stopped after 15 s");
    let server = Server::start(workspace, 100)?;
    for hosts in [100usize, 900_000] {
        let list = folder.join("million.txt");
        let text = (0..1_000_000).fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "http://host{}.example/some/page/number/{n}.html", n % hosts);
            text
        });
        let length = text.len() / 1_000_000;
        std::fs::write(&list, text)?;
        let arguments = words(&format!(
            "fetch -q --profile crawl --no-presets --parallel 64 --contact bench@example.org --connect-to ::127.0.0.1:{} -i {} --jsonl million.jsonl --replace",
            server.port,
            list.display()
        ));
        let mut child = Command::new(release(workspace, "comity"))
            .args(&arguments)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let peak = peak_after(&mut child, Duration::from_secs(15))?;
        println!("{hosts:>7} hosts: {:.0} bytes a line at the peak, of which {length} are its URL", peak as f64 / 1e6);
    }
    Ok(())
}

/// The most memory a process had, asked just before it is stopped.
#[expect(clippy::disallowed_methods, reason = "the run is given so long")]
fn peak_after(child: &mut Child, span: Duration) -> anyhow::Result<usize> {
    std::thread::sleep(span);
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))
        .context("the run ended before it was to be stopped, or this is no Linux")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kilobytes: usize = peak.trim().trim_end_matches("kB").trim().parse()?;
    child.kill()?;
    child.wait()?;
    Ok(kilobytes * 1024)
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

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(workspace: &Workspace, bytes: usize) -> anyhow::Result<Self> {
        let program = release(workspace, "examples/static_server");
        let mut child = Command::new(program).arg(bytes.to_string()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("the server has no stdout")?).read_line(&mut line)?;
        Ok(Self { child, port: line.trim().parse().context("the server names its port first")? })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn release(workspace: &Workspace, name: &str) -> PathBuf {
    workspace.metadata.target_directory.join("release").join(name).into_std_path_buf()
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
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

fn cargo(workspace: &Workspace, arguments: &[&str]) -> anyhow::Result<()> {
    run_command(workspace.cargo().args(arguments))
}
