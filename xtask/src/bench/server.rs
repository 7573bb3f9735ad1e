//! Whom the downloaders ask.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::release;
use crate::workspace::Workspace;

/// A server of files on loopback. Dropped, it is ended.
pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
}

impl Server {
    pub(super) fn start(workspace: &Workspace, bytes: usize) -> anyhow::Result<Self> {
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
