//! `inside`, `enter` and what they run: programs in a box that is up.
//!
//! The box's user namespace belongs to the user, so any process of theirs may enter it, and has all its capabilities then. `inside`
//! hands them on to a program of ours or to CRIU; `enter` gives them up before it runs a command of the user's.
//!
//! A process that enters a PID namespace stays where it is; its child is born inside. So both wait for that child.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, ThreadNameSpaceType, move_into_thread_name_spaces};

use super::{Outcome, number, options, rights, while_doing, with_causes};
use crate::cgroup;
use crate::exec::Entry;
use crate::keepname;
use crate::process::{self, Identity};
use crate::spec::ROOT_PID;
use crate::unix;

/// Where CRIU keeps what it has learnt about the kernel: in the directory that [`RUNTIME`] names.
const KDAT: &str = "/run/criu.kdat";
const RUNTIME: (&str, &str) = ("XDG_RUNTIME_DIR", "/run");
const PATH: (&str, &str) = ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

/// Options: `--holder PID:START`, `--kdat FILE`, and `--directory DIR`, each of which the program finds as `/proc/self/fd/N`,
/// counted from [`crate::exec::FIRST_DIRECTORY`]. Behind `--` the program and its words.
pub(super) fn inside(words: Vec<OsString>) -> Outcome {
    let (mut holder, mut kdat, mut directories) = (None, None, Vec::new());
    let mut words = words.into_iter();
    let program = options(&mut words, |option, value| {
        match option {
            "--holder" => holder = Some(parse_identity(&value)?),
            "--kdat" => kdat = fs::read(&value).ok(),
            "--directory" => directories.push(open_directory(value.as_ref())?),
            _ => return Err(format!("unknown option {option}")),
        }
        Ok(())
    })?;
    let holder = holder.ok_or("the holder is missing")?;

    place(&directories)?;
    go_into(holder)?;
    if let Some(kdat) = kdat {
        // CRIU does without, too; it only takes longer.
        let _ = fs::write(KDAT, kdat);
    }
    raise_the_number_of_open_files()?;
    // With it, CRIU would take itself for root and try to become user 0, whom this namespace does not know.
    let root = rustix::process::geteuid().is_root();
    rights::hand_on(if root { CapabilitySet::empty() } else { CapabilitySet::SETUID })?;
    let status = Command::new(&program)
        .args(words)
        .env_clear()
        .envs([RUNTIME, PATH, ("LC_ALL", "C")])
        .status()
        .map_err(while_doing(format!("run `{}` inside", program.display())))?;
    Ok(passed_on(status))
}

/// Directories of the machine that the box may not see: opened out here, once.
fn open_directory(path: &Path) -> Outcome<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(while_doing(format!("open `{}`", path.display())))
}

/// Gives the directories the numbers that the program expects, and keeps them open for it.
fn place(directories: &[OwnedFd]) -> Outcome<()> {
    // They were opened one after the other with nothing else open, so they have these numbers already.
    for (index, directory) in directories.iter().enumerate() {
        let expected = crate::exec::FIRST_DIRECTORY + i32::try_from(index).map_err(while_doing("count"))?;
        if directory.as_raw_fd() != expected {
            return Err(format!("directory {index} got the descriptor {}", directory.as_raw_fd()));
        }
        rustix::io::fcntl_setfd(directory, FdFlags::empty()).map_err(while_doing("hand a directory over"))?;
    }
    Ok(())
}

/// Enters every namespace of the box that is not ours.
fn go_into(holder: Identity) -> Outcome<()> {
    let target = holder.open().map_err(with_causes)?;
    let groups = cgroup::of_box(holder.pid).map_err(with_causes)?;
    cgroup::join(&groups, rustix::process::getpid().as_raw_nonzero().get()).map_err(with_causes)?;
    let mut theirs = ThreadNameSpaceType::empty();
    for (name, kind) in [
        ("user", ThreadNameSpaceType::USER),
        ("mnt", ThreadNameSpaceType::MOUNT),
        ("pid", ThreadNameSpaceType::PROCESS_ID),
        ("ipc", ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION),
        ("uts", ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME),
        ("net", ThreadNameSpaceType::NETWORK),
        ("time", ThreadNameSpaceType::TIME),
    ] {
        let inode = |pid: &str| rustix::fs::stat(format!("/proc/{pid}/ns/{name}")).map(|stat| stat.st_ino);
        // A kernel without time namespaces has no such file.
        if let (Ok(ours), Ok(inside)) = (inode("self"), inode(&holder.pid.to_string()))
            && ours != inside
        {
            theirs |= kind;
        }
    }
    move_into_thread_name_spaces(target.as_fd(), theirs).map_err(while_doing("enter the namespaces"))
}

/// CRIU holds a descriptor for much of what it looks at, and so does whoever carries connections.
pub(super) fn raise_the_number_of_open_files() -> Outcome<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })
        .map_err(while_doing("raise the number of open files"))
}

pub(super) fn enter() -> Outcome {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(while_doing("read what to run"))?;
    let entry: Entry = serde_json::from_slice(&text).map_err(while_doing("understand what to run"))?;
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    go_into(entry.holder)?;
    rights::give_up()?;
    let cwd = Path::new(&entry.cwd);
    rustix::process::chdir(cwd).map_err(while_doing(format!("enter the directory `{}`", cwd.display())))?;
    let status = Command::new(&program)
        .arg("session")
        .args(&entry.command)
        .env_clear()
        .envs(entry.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .status()
        .map_err(while_doing(format!("run `{}` inside", program.display())))?;
    Ok(passed_on(status))
}

/// Becomes a command. It must lead a session of its own, or its session would be one outside the box, with which CRIU could not
/// dump it should it live on.
pub(super) fn session(words: Vec<OsString>) -> Outcome {
    let (name, rest) = words.split_first().ok_or("there is no command")?;
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    let mut command = Command::new(name);
    command.args(rest);
    keepname::preload(&mut command, &program);
    Err(while_doing(format!("run `{}`", name.display()))(command.exec()))
}

/// The next process of the box gets a number above this one.
///
/// A box can have counted further than the machine does (its `pid_max`), and the kernel lets nobody say so. Then the box counts from the
/// beginning: numbers that are taken are left out by the kernel.
pub(super) fn count_from(words: &[OsString]) -> Outcome {
    let last: i32 = number(words.first().ok_or("the number is missing")?, "the number")?;
    let path = "/proc/sys/kernel/ns_last_pid";
    let write = |last: i32| fs::write(path, last.to_string());
    write(last)
        .or_else(|error| match error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) {
            true => write(ROOT_PID),
            false => Err(error),
        })
        .map_err(while_doing(format!("write `{path}`")))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells which Unix sockets there are in the box's network, as JSON.
pub(super) fn sockets() -> Outcome {
    let found = unix::list_sockets().map_err(with_causes)?;
    let text = serde_json::to_vec(&found).map_err(while_doing("report"))?;
    std::io::stdout().write_all(&text).map_err(while_doing("report"))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn parse_identity(value: &OsString) -> Outcome<Identity> {
    let parsed = value.to_str().and_then(|text| {
        let (pid, start_time) = text.split_once(':')?;
        Some(Identity { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
    });
    parsed.ok_or_else(|| format!("`{}` names no process", value.display()))
}

fn passed_on(status: ExitStatus) -> ExitCode {
    let status = process::as_shell(status);
    ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX))
}
