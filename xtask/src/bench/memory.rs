//! `cargo xtask bench memory`: what a line of a long list takes.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::server::Server;
use super::{release, words};
use crate::workspace::Workspace;

/// A million lines: memory a line, with 100 hosts and with 900,000.
pub(super) fn run(workspace: &Workspace, folder: &Path) -> anyhow::Result<()> {
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
            "fetch -q --shared none --profile crawl --no-presets --parallel 64 --contact bench@example.org --connect-to ::127.0.0.1:{} -i {} --jsonl million.jsonl --replace",
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
