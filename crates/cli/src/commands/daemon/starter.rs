//! Starting the daemon in the background.
//!
//! Whoever finds nobody at the socket takes a lock in the run directory, looks once more, and starts the daemon; so of several
//! programs that need it at the same moment one starts it and the others wait for that one. The daemon leaves the terminal's
//! session by itself (`--detach`) and writes to a log of its own, so it holds nothing of its starter's. It answers only when it
//! is ready; until then its starter waits, and if it ends instead, the last lines of the log say why.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use api::Places;
use api::places::make_private;
use rustix::fs::{FlockOperation, flock};

use crate::error::CliError;

/// How long a daemon may take until it answers. It may have to finish what one before it had begun.
const START: Duration = Duration::from_secs(60);
/// How long to wait for a daemon that is there but cannot be reached: it looks for its socket every two seconds.
const SOCKET: Duration = Duration::from_secs(6);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// A log that is longer is put aside.
const LOG_LIMIT: u64 = 8 << 20;
/// How much of a log is shown.
const SHOWN: (u64, usize) = (16 << 10, 8);

/// The daemon's program.
const PROGRAM: &str = "infinijupd";
/// What names another one.
const PROGRAM_VARIABLE: &str = "INFINIJUP_DAEMON";
/// What a service manager told our own process, and nobody else is to hear.
const OF_A_MANAGER: [&str; 6] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// Whether commands may start the daemon by themselves. Inside a session there is none to be reached, and none is wanted.
pub(in crate::commands) fn is_wanted() -> bool {
    let says_no = std::env::var_os("INFINIJUP_AUTOSTART").is_some_and(|value| value == "0");
    !says_no && std::env::var_os("INFINIJUP_SESSION").is_none()
}

/// The log of a daemon that was started here.
pub(super) fn log_of(places: &Places) -> PathBuf {
    places.state.join("daemon.log")
}

/// Whether somebody answers there. A request of its own: it also tells a daemon that is about to leave that it is needed.
pub(in crate::commands) fn answers(socket: &Path) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(b"GET /v1/version HTTP/1.1\r\nhost: infinijupd\r\nconnection: close\r\n\r\n")?;
        Ok(stream.read(&mut [0; 64])? > 0)
    };
    match ask() {
        Ok(answered) => answered,
        // Somebody is there, only slow.
        Err(error) => matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
    }
}

/// Starts the daemon unless it answers; whether it had to be started.
pub(in crate::commands) fn ensure(places: &Places) -> Result<bool, CliError> {
    if answers(&places.socket) {
        return Ok(false);
    }
    make_private(&places.run)?;
    make_private(&places.state)?;
    let deadline = Instant::now() + START;
    let _turn = take_turn(&places.run.join("start.lock"), deadline)?;
    if answers(&places.socket) {
        return Ok(false);
    }
    let program = find()?;
    let log = log_of(places);
    let (file, begin) = open_log(&log).map_err(not_started(&log, &program))?;
    let child = spawn(&program, places, file).map_err(not_started(&log, &program))?;
    wait(child, places, (&log, begin), deadline)?;
    Ok(true)
}

fn not_started(log: &Path, program: &Path) -> impl Fn(io::Error) -> CliError {
    let (log, program) = (log.to_owned(), program.to_owned());
    move |error| CliError::NotStarted {
        why: format!("`{}` cannot be started: {error}", program.display()),
        log: log.clone(),
        lines: Vec::new(),
    }
}

/// Held by whoever starts the daemon; the kernel gives it back when they are gone, however they ended.
fn take_turn(path: &Path, deadline: Instant) -> Result<File, CliError> {
    let refused = |why: String| CliError::NotStarted { why, log: path.to_owned(), lines: Vec::new() };
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(path)
        .map_err(|error| refused(format!("`{}` cannot be opened: {error}", path.display())))?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < deadline => {
                sleep(PAUSE);
            }
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(refused("another program has been starting it for too long".to_owned()));
            }
            Err(error) => return Err(refused(format!("`{}` cannot be locked: {error}", path.display()))),
        }
    }
}

/// The program: the one that is named, the one beside ours, or the first in the path.
pub(in crate::commands) fn find() -> Result<PathBuf, CliError> {
    let named = std::env::var_os(PROGRAM_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    let looked: Vec<PathBuf> = match named {
        Some(named) => vec![named],
        None => {
            let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path: Vec<PathBuf> = std::env::split_paths(&path).filter(|one| one.is_absolute()).collect();
            beside.into_iter().chain(path).map(|directory| directory.join(PROGRAM)).collect()
        }
    };
    match looked.iter().find(|path| path.is_file()) {
        Some(found) => Ok(found.clone()),
        None => Err(CliError::NoDaemonProgram { looked: looked.into_iter().next().unwrap_or_default() }),
    }
}

/// The log, and where what comes now begins in it.
fn open_log(path: &Path) -> io::Result<(File, u64)> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.len() > LOG_LIMIT) {
        fs::rename(path, path.with_extension("log.1"))?;
    }
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(nofollow).open(path)?;
    let begin = file.metadata()?.len();
    Ok((file, begin))
}

/// Keeps what a service manager told us from a program that we start.
pub(in crate::commands) fn without_manager(command: &mut Command) {
    for name in OF_A_MANAGER {
        command.env_remove(name);
    }
}

/// What the daemon tells glibc's allocator, as its unit for systemd does. glibc otherwise keeps up to eight arenas a core, and threads that come
/// and go leave each with freed memory. And what it once had to map for a large buffer it keeps from then on, up to 32 MiB of a kind: a
/// daemon after a few hundred snapshots held 85 MB that way instead of 40.
const OF_THE_ALLOCATOR: [(&str, &str); 3] =
    [("MALLOC_ARENA_MAX", "2"), ("MALLOC_MMAP_THRESHOLD_", "4194304"), ("MALLOC_TRIM_THRESHOLD_", "8388608")];

fn spawn(program: &Path, places: &Places, log: File) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.arg("--detach").arg("--socket").arg(&places.socket);
    command.current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    without_manager(&mut command);
    for (name, value) in OF_THE_ALLOCATOR.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        command.env(name, value);
    }
    command.spawn()
}

fn wait(mut child: Child, places: &Places, log: (&Path, u64), deadline: Instant) -> Result<(), CliError> {
    let failed = |why: String| {
        let lines = last_lines(log).unwrap_or_default();
        Err(CliError::NotStarted { why, log: log.0.to_owned(), lines })
    };
    let mut ended = None;
    loop {
        if places.socket.exists() && answers(&places.socket) {
            return Ok(());
        }
        if ended.is_none() {
            let status = child.try_wait().ok().flatten();
            ended = status.map(|status| (status, Instant::now()));
        }
        match ended {
            // One that gives way to another is no failure, if that one can be reached.
            Some((status, when))
                if status.code() != Some(api::exit::BUSY.into()) || when.elapsed() > SOCKET =>
            {
                return failed(format!("it ended at once ({status})"));
            }
            None if Instant::now() > deadline => {
                return failed(format!("it gives no answer after {} s", START.as_secs()));
            }
            _ => sleep(PAUSE),
        }
    }
}

/// The last lines that were written since `begin`.
pub(in crate::commands) fn last_lines((path, begin): (&Path, u64)) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(begin.max(length.saturating_sub(SHOWN.0))))?;
    let mut bytes = Vec::new();
    file.take(SHOWN.0).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect();
    Ok(lines.get(lines.len().saturating_sub(SHOWN.1)..).unwrap_or_default().to_vec())
}

#[cfg(test)]
mod tests {
    use super::OF_THE_ALLOCATOR;

    #[test]
    fn the_unit_says_the_same_to_the_allocator() {
        let unit = include_str!("../../../../../deploy/systemd/user/infinijupd.service");
        let words = OF_THE_ALLOCATOR.map(|(name, value)| format!("{name}={value}")).join(" ");
        assert!(unit.lines().any(|line| line == format!("Environment={words}")), "{words}");
    }
}
