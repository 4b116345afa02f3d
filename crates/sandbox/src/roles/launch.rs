//! `launch`: makes the namespaces of a box.
//!
//! A process that unshares its PID namespace stays outside it; its first child is process 1 in there. So this process only prepares,
//! starts `stage`, and waits for that child's word. The word comes through a pipe that `stage` and then `init` hold: the
//! list of mounts when the file system stands, a failure if there is one, and the end of the pipe when everything runs.
//! Afterwards this process ends, and the box falls to the nearest subreaper.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};

use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use super::{Outcome, while_doing, with_causes};
use crate::cgroup;
use crate::launch::Report;
use crate::network;
use crate::process::Identity;
use crate::spec::{BoxMount, Launched, Plan};

/// What comes through the pipe, one line each.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// The file system stands.
    Mounts(Vec<BoxMount>),
    /// It did not work out.
    Failed(String),
}

pub(super) fn launch() -> Outcome {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(while_doing("read the plan"))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(while_doing("understand the plan"))?;
    let report = match start(&plan, &text) {
        Ok(launched) => Report::Up(launched),
        Err(failure) => Report::Failed(failure),
    };
    let text = serde_json::to_vec(&report).map_err(while_doing("report"))?;
    std::io::stdout().write_all(&text).map_err(while_doing("report"))?;
    Ok(ExitCode::SUCCESS)
}

fn start(plan: &Plan, text: &[u8]) -> Outcome<Launched> {
    // A signal to the daemon's terminal or group is not meant for the box.
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let groups: Vec<_> = plan.cgroup.iter().map(Into::into).collect();
    cgroup::join(&groups, own).map_err(with_causes)?;
    if let Some(path) = &plan.network {
        let namespace = std::fs::File::open(path).map_err(while_doing("open the network namespace"))?;
        network::enter(&namespace.into()).map_err(with_causes)?;
    }
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    // The mount namespace is made by the child: changing the root in ours would take our /proc away, too.
    unshare(CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWPID)
        .map_err(while_doing("make the namespaces"))?;
    let mut child = Command::new(program)
        .arg("stage")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(while_doing("start the first process"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it died early, what comes from its pipe says more.
        let _ = stdin.write_all(text);
    }
    let mut words = String::new();
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut words).map_err(while_doing("hear from the first process"))?;
    }
    match understand(&words) {
        Ok(mounts) => {
            let pid = i32::try_from(child.id()).map_err(while_doing("use its pid"))?;
            // It cannot vanish under us: should it have ended already, it waits to be reaped by us or our heir.
            let init = Identity::of(pid).map_err(with_causes)?.ok_or("the first process is gone")?;
            Ok(Launched { init, mounts })
        }
        Err(failure) => {
            // It has given up; with process 1 its namespace ends.
            let _ = child.kill();
            let _ = child.wait();
            Err(failure)
        }
    }
}

fn understand(words: &str) -> Outcome<Vec<BoxMount>> {
    let mut mounts = None;
    for line in words.lines() {
        match serde_json::from_str(line).map_err(while_doing("understand the first process"))? {
            Word::Mounts(list) => mounts = Some(list),
            Word::Failed(failure) => return Err(failure),
        }
    }
    mounts.ok_or_else(|| "the first process ended early".to_owned())
}
