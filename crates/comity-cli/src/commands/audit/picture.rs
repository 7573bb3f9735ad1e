//! The arrivals of an audit, drawn.

use std::path::Path;

use anyhow::Result;
use comity_audit::audit::{HostReport, Report};
use comity_audit::picture::{Dot, Panel, html, svg};
use comity_fetch::keep::write_atomically;

use crate::flags::audit::PictureKind;
use crate::screen::words::count;

/// Draws a panel for each host of each arm, and writes the picture whole or not at all.
pub(super) fn write(report: &Report, path: &Path, kind: PictureKind) -> Result<()> {
    let hosts: Vec<(String, Vec<Dot>)> = report
        .arms
        .iter()
        .flat_map(|arm| arm.hosts.iter().map(|host| (arm.workers, host)))
        .take(PANELS)
        .map(|(workers, host)| {
            let title = format!("{} to {}: {}", count(workers.into(), "worker"), host.host, host.verdict);
            (title, dots(host))
        })
        .collect();
    let panels: Vec<Panel<'_>> =
        hosts.iter().map(|(title, dots)| Panel { title: title.clone(), dots, promised: report.interval }).collect();
    let text = match kind {
        PictureKind::Svg => svg(&panels),
        PictureKind::Html => html(&format!("What arrived of {}", report.command.join(" ")), &panels),
    };
    write_atomically(path, text.as_bytes())?;
    Ok(())
}

fn dots(host: &HostReport) -> Vec<Dot> {
    let dot = |seen: &comity_audit::audit::Seen| Dot {
        at: seen.at,
        worker: seen.worker.and_then(|worker| usize::try_from(worker).ok()),
        refused: seen.refused,
    };
    host.seen.iter().map(dot).collect()
}

/// Panels that anybody would look at.
const PANELS: usize = 24;
