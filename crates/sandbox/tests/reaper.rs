//! The reaper takes what nobody waits for, and nothing else. One test, because being a subreaper concerns the whole process.
#![expect(
    clippy::expect_used,
    reason = "clippy.toml allows it in #[test] functions only, not in their helpers"
)]

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use sandbox::process::{Identity, info};
use sandbox::{OrphanReaper, Signal};

const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a script that prints the pid of something it leaves behind, and gives that.
fn leave_behind(script: &str) -> Identity {
    let output = Command::new("sh").args(["-c", script]).output().expect("sh runs");
    let pid = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a pid");
    Identity::of(pid).expect("/proc").expect("it runs")
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_zombie(identity: Identity) -> bool {
    info(identity.pid)
        .expect("/proc")
        .is_some_and(|process| process.identity() == identity && process.is_zombie())
}

fn is_reaped(identity: Identity) -> bool {
    Identity::of(identity.pid).expect("/proc") != Some(identity)
}

#[test]
fn orphans_are_reaped_and_no_status_is_stolen() {
    let own = i32::try_from(std::process::id()).expect("pids fit");
    let (sender, ends) = channel();
    let reaper = OrphanReaper::start(PATIENCE, sender).expect("it starts");

    // Nobody's business; see the end.
    let stray = leave_behind("sleep 1000 >/dev/null 2>&1 & echo $!");
    stray.signal(Signal::KILL).expect("it runs");

    // A watched orphan is reaped at once, and its end reported with its status.
    let watched = leave_behind("sleep 1000 >/dev/null 2>&1 & echo $!");
    wait_until("it falls to us", || {
        info(watched.pid).expect("/proc").is_some_and(|process| process.ppid == own)
    });
    reaper.watch(watched).expect("it runs");
    watched.signal(Signal::KILL).expect("it runs");
    let ended = ends.recv_timeout(Duration::from_secs(30)).expect("its end is reported");
    assert_eq!((ended.identity, ended.status), (watched, Some(137)));
    assert!(is_reaped(watched));
    reaper.watch(watched).expect_err("it is gone");

    // What is not our child is reported without a status.
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 1000 >/dev/null & echo $!; wait"]).stdout(Stdio::piped());
    let mut shell = shell.spawn().expect("sh runs");
    let mut line = [0; 32];
    let length = shell.stdout.as_mut().expect("a pipe").read(&mut line).expect("a pid");
    let pid = String::from_utf8_lossy(&line[..length]).trim().parse().expect("a pid");
    let grandchild = Identity::of(pid).expect("/proc").expect("it runs");
    reaper.watch(grandchild).expect("it runs");
    grandchild.signal(Signal::KILL).expect("it runs");
    let ended = ends.recv_timeout(Duration::from_secs(30)).expect("its end is reported");
    assert_eq!((ended.identity, ended.status), (grandchild, None));
    assert!(shell.wait().expect("its status is ours").success());

    // The first process of a deeper PID namespace is reaped long before any patience ends …
    if rustix::process::geteuid().is_root() {
        let started = Instant::now();
        let first = leave_behind("unshare --pid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'");
        first.signal(Signal::KILL).expect("it runs");
        wait_until("the first process is reaped", || is_reaped(first));
        assert!(started.elapsed() < PATIENCE, "after {:?}", started.elapsed());
    }

    // … while children of a Command keep their status, though many rounds go by before somebody asks.
    let mut children: Vec<_> = (0..10)
        .map(|code| Command::new("sh").args(["-c", &format!("exit {code}")]).spawn().expect("sh runs"))
        .collect();
    for child in &children {
        let pid = i32::try_from(child.id()).expect("pids fit");
        wait_until("it ends", || is_zombie(Identity::of(pid).expect("/proc").expect("nobody has reaped it")));
    }
    // Four rounds at least.
    std::thread::sleep(Duration::from_secs(2));
    for (code, child) in children.iter_mut().enumerate() {
        let status = child.wait().expect("its status is still there");
        assert_eq!(status.code().and_then(|code| usize::try_from(code).ok()), Some(code));
    }
    wait_until("the stray is reaped in the end", || is_reaped(stray));

    // Nobody watches any more: its thread ends, also while a process is watched that lives on.
    let survivor = leave_behind("sleep 1000 >/dev/null 2>&1 & echo $!");
    reaper.watch(survivor).expect("it runs");
    drop(reaper);
    assert_eq!(ends.recv_timeout(Duration::from_secs(30)), Err(RecvTimeoutError::Disconnected));
    survivor.signal(Signal::KILL).expect("it runs");
}
