//! `launch`: makes the namespaces of a box, with no right but that of its user.
//!
//! Any user may make a *user namespace*. It maps one id, the user's own, mostly to itself: nobody in it is somebody else. What was snapshotted as another user
//! finds its old number there, and is nobody but its new user outside. Whoever made it has all capabilities in it, and with those the other namespaces can be made: they belong to the user namespace, not to the machine.
//!
//! A process that unshares its PID and time namespaces stays outside them; its first child is process 1 in there. So this process
//! only prepares, starts `holder`, and waits for that child's word, which comes through a pipe: a failure, or the end of the pipe
//! when everything runs. Afterwards this process ends, and the box falls to the nearest subreaper.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::io::FdFlags;
use rustix::thread::CapabilitySet;
use rustix::time::{ClockId, clock_gettime};

use super::{Outcome, gate, rights, understand, while_doing, with_causes};
use crate::cgroup;
use crate::launch::Report;
use crate::process::Identity;
use crate::spec::{Clocks, Network, Plan};

/// What `nix` has no name for.
const CLONE_NEWTIME: i32 = 0x80;

pub(super) fn launch() -> Outcome {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(while_doing("read the plan"))?;
    let plan: Plan = serde_json::from_slice(&text).map_err(while_doing("understand the plan"))?;
    let report = match start(&plan, &text) {
        Ok(holder) => Report::Up(holder),
        Err(failure) => Report::Failed(failure),
    };
    let text = serde_json::to_vec(&report).map_err(while_doing("report"))?;
    std::io::stdout().write_all(&text).map_err(while_doing("report"))?;
    Ok(ExitCode::SUCCESS)
}

fn start(plan: &Plan, text: &[u8]) -> Outcome<Identity> {
    // A box that nobody has written down yet must not outlive the daemon that wants it. What we start does not inherit this.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(while_doing("end with the daemon"))?;
    // A signal to the daemon's terminal or group is not meant for the box.
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let groups: Vec<_> = plan.cgroup.iter().map(Into::into).collect();
    cgroup::join(&groups, own).map_err(with_causes)?;
    // Out here, so that the box never sees where they are.
    let sockets = match &plan.gate {
        Some((directory, ports)) => gate::listen(directory.as_ref(), ports.len())?,
        None => Vec::new(),
    };
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;

    make_user_namespace(plan.ids)?;
    // The mount namespace is made by the child: what it mounts would take our /proc away, too.
    let mut others = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC | CloneFlags::CLONE_NEWUTS;
    if plan.network == Network::Private {
        others |= CloneFlags::CLONE_NEWNET;
    }
    unshare(others).map_err(while_doing("make the namespaces"))?;
    make_time_namespace(plan.clocks)?;
    // It is another program than ours for the kernel, and runs as an ordinary user: without this it would have no capabilities.
    rights::hand_on(CapabilitySet::empty())?;

    let mut holder = Command::new(program);
    holder.arg("holder").arg(&plan.box_dir);
    for socket in &sockets {
        hand_over(socket)?;
        holder.arg(format!("fd={}", socket.as_raw_fd()));
    }
    let mut holder = holder
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Its own, so nothing changes; but it is started by `fork`, where `vfork` is refused across time namespaces.
        .gid(rustix::process::getegid().as_raw())
        .spawn()
        .map_err(while_doing("start the first process"))?;
    if let Some(mut stdin) = holder.stdin.take() {
        // If it died early, what comes from its pipe says more.
        let _ = stdin.write_all(text);
    }
    let mut words = String::new();
    if let Some(mut pipe) = holder.stdout.take() {
        pipe.read_to_string(&mut words).map_err(while_doing("hear from the first process"))?;
    }
    let up = understand(&words).and_then(|()| match holder.try_wait() {
        Ok(None) => Ok(()),
        // A short command may have ended, and the box with it, as it should.
        Ok(Some(_)) if plan.commands.is_some() => Ok(()),
        Ok(Some(status)) => Err(format!("the first process ended early ({status})")),
        Err(error) => Err(error.to_string()),
    });
    match up {
        Ok(()) => {
            let pid = i32::try_from(holder.id()).map_err(while_doing("use its pid"))?;
            // Should it have ended already, it waits to be reaped by us or our heir; or was reaped just now, by `try_wait`.
            Ok(Identity::of(pid).map_err(with_causes)?.unwrap_or(Identity { pid, start_time: 0 }))
        }
        Err(failure) => {
            // It has given up; with process 1 its namespace ends.
            let _ = holder.kill();
            let _ = holder.wait();
            Err(failure)
        }
    }
}

/// A user namespace in which we are who we are, perhaps by other numbers.
fn make_user_namespace(ids: Option<(u32, u32)>) -> Outcome<()> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let (inner_uid, inner_gid) = ids.unwrap_or((uid, gid));
    unshare(CloneFlags::CLONE_NEWUSER).map_err(|error| {
        format!("cannot make a user namespace: {error}; `infinijup doctor` says what is in the way")
    })?;
    let write = |file: &str, text: String| {
        let path = format!("/proc/self/{file}");
        fs::write(&path, text).map_err(while_doing(format!("write `{path}`")))
    };
    // Who may not drop a group can be kept out by it: that stays so inside. Groups that we are in stay usable.
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{inner_uid} {uid} 1"))?;
    write("gid_map", format!("{inner_gid} {gid} 1"))
}

/// A time namespace whose clocks show `clocks`, so that time does not jump for what is restored into it.
fn make_time_namespace(clocks: Option<Clocks>) -> Outcome<()> {
    match unshare(CloneFlags::from_bits_retain(CLONE_NEWTIME)) {
        Ok(()) => {}
        // A kernel without them. What is restored sees the time that has passed.
        Err(nix::errno::Errno::EINVAL) => return Ok(()),
        Err(error) => return Err(while_doing("make a time namespace")(error)),
    }
    let Some(clocks) = clocks else { return Ok(()) };
    let offsets: Vec<String> = [
        ("monotonic", clocks.monotonic, ClockId::Monotonic),
        ("boottime", clocks.boottime, ClockId::Boottime),
    ]
    .into_iter()
    .map(|(name, wanted, clock)| {
        let now = clock_gettime(clock);
        let now = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
        let offset = nanoseconds(wanted) - now;
        format!("{name} {} {}", offset.div_euclid(1_000_000_000), offset.rem_euclid(1_000_000_000))
    })
    .collect();
    let path = "/proc/self/timens_offsets";
    fs::write(path, offsets.join("\n")).map_err(while_doing(format!("write `{path}`")))
}

fn nanoseconds(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

/// A descriptor that stays open in the program that is run next.
fn hand_over(fd: &OwnedFd) -> Outcome<()> {
    rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(while_doing("hand a descriptor over"))
}
