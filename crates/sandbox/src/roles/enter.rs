//! `enter` and `session`: running a command in a box that is up.
//!
//! `enter` goes into the namespaces of the box and becomes the user; its child is born inside. The child is this program again, in
//! the role `session`: it must lead a session of its own, or its session would be one outside the box, with which CRIU
//! could not dump it should it live on.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::{Outcome, become_user, open_program, while_doing, with_causes};
use crate::cgroup;
use crate::exec::Entry;
use crate::user::User;

pub(super) fn enter() -> Outcome {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(while_doing("read what to run"))?;
    let entry: Entry = serde_json::from_slice(&text).map_err(while_doing("understand what to run"))?;
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    let pid = Pid::from_raw(entry.pid).ok_or("0 is no process")?;
    let target = pidfd_open(pid, PidfdFlags::empty()).map_err(while_doing("find the box's first process"))?;

    let groups = cgroup::of_box(entry.pid).map_err(with_causes)?;
    cgroup::join(&groups, rustix::process::getpid().as_raw_nonzero().get()).map_err(with_causes)?;
    let ours = ThreadNameSpaceType::MOUNT
        | ThreadNameSpaceType::PROCESS_ID
        | ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION
        | ThreadNameSpaceType::NETWORK;
    // CRIU gives a restored tree a time namespace, too. A kernel that has none says that the flag is invalid.
    match move_into_thread_name_spaces(target.as_fd(), ours | ThreadNameSpaceType::TIME) {
        Err(Errno::INVAL) => move_into_thread_name_spaces(target.as_fd(), ours),
        entered => entered,
    }
    .map_err(while_doing("enter the namespaces"))?;
    drop(target);
    let (_open, runnable) = open_program(&program)?;
    become_user(&User {
        uid: entry.uid,
        gid: entry.gid,
        groups: entry.groups.clone(),
        name: String::new(),
        home: PathBuf::new(),
        shell: PathBuf::new(),
    })?;
    let cwd = Path::new(&entry.cwd);
    rustix::process::chdir(cwd).map_err(while_doing(format!("enter the directory `{}`", cwd.display())))?;
    let status = Command::new(runnable)
        .arg0(&program)
        .arg("session")
        .args(&entry.command)
        .env_clear()
        .envs(entry.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .status()
        .map_err(while_doing(format!("run `{}` inside", program.display())))?;
    let status = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(255);
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)))
}

pub(super) fn session(words: Vec<OsString>) -> Outcome {
    let (name, rest) = words.split_first().ok_or("there is no command")?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    Err(while_doing(format!("run `{}`", name.display()))(Command::new(name).args(rest).exec()))
}
