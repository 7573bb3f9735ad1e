//! A process and all it starts, ended together.

use std::io;
use std::process::{Child, Command, ExitStatus};

/// A child that leads a process group of its own.
#[derive(Debug)]
pub(super) struct Group {
    leader: Child,
    ended: Option<ExitStatus>,
}

impl Group {
    /// Starts the command as the leader of a new group: a Ctrl-C in the terminal is not its affair but ours.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(command, 0);
        Ok(Self { leader: command.spawn()?, ended: None })
    }

    /// The leader, for its pipes.
    pub(super) fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// How the leader ended, if it has. What it left running is ended with it.
    pub(super) fn poll(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() && self.has_ended()? {
            // Until it is waited for, its number is nobody else's: the group that is killed is ours.
            self.kill();
            self.ended = Some(self.leader.wait()?);
        }
        Ok(self.ended)
    }

    /// Asks all of the group to end.
    pub(super) fn terminate(&mut self) {
        if self.ended.is_none() {
            #[cfg(unix)]
            self.signal(rustix::process::Signal::TERM);
        }
    }

    /// Ends all of the group.
    pub(super) fn kill(&mut self) {
        if self.ended.is_none() {
            #[cfg(unix)]
            self.signal(rustix::process::Signal::KILL);
            #[cfg(not(unix))]
            let _ = self.leader.kill();
        }
    }

    /// A group that is gone already is as good.
    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        let _ = rustix::process::kill_process_group(rustix::process::Pid::from_child(&self.leader), signal);
    }

    #[cfg(unix)]
    fn has_ended(&self) -> io::Result<bool> {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(Pid::from_child(&self.leader)), look)?.is_some())
    }

    #[cfg(not(unix))]
    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.leader.try_wait()?.is_some())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            let _ = self.leader.wait();
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::stop::Stop;
    use std::io::Read as _;
    use std::process::Stdio;
    use std::time::Duration;

    fn sh(script: &str) -> Group {
        Group::start(Command::new("sh").args(["-c", script]).stdout(Stdio::piped())).unwrap()
    }

    fn end(group: &mut Group) -> ExitStatus {
        loop {
            if let Some(status) = group.poll().unwrap() {
                return status;
            }
            Stop::new().wait(Duration::from_millis(2));
        }
    }

    /// The pipe's end comes when nobody holds it any more.
    fn drain(group: &mut Group) {
        group.leader().stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn what_a_process_leaves_running_ends_with_it() {
        let mut group = sh("sleep 600 & exit 3");
        assert_eq!(end(&mut group).code(), Some(3));
        drain(&mut group);
    }

    #[test]
    fn a_killed_group_is_gone_with_its_children() {
        let mut group = sh("trap '' TERM; sleep 600 & wait; sleep 600");
        group.terminate();
        group.kill();
        assert_eq!(end(&mut group).code(), None);
        drain(&mut group);
    }

    #[test]
    fn a_dropped_group_is_killed() {
        let mut group = sh("sleep 600");
        let mut pipe = group.leader().stdout.take().unwrap();
        drop(group);
        pipe.read_to_end(&mut Vec::new()).unwrap();
    }
}
