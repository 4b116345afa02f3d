//! `loopback`, `join` and `door`: a box's loopback and the machine's, joined.
//!
//! A box has a network of its own, so that two branches can listen on the same port. Two ways lead across:
//!
//! - *outward*: a server that a cell starts gets a port on the machine's loopback ([`outward`]), for its own user only;
//! - *inward*: where something listens on the machine's loopback, it is found inside at the same address ([`inward`]): a database or
//!   a model server that the user would reach without a box. Inside nobody has a right that their user has not: the connections
//!   are made out here, by a process of that user.
//!
//! A socket belongs to the network that it was made in, whoever holds it. So one process out here does all the carrying, and a child of it,
//! the *door*, has entered the box's network and does nothing but make sockets there and hand them out ([`Door`]).
//!
//! Nothing of this is in a snapshot, and nothing has to be told to it: it is started when the processes of a box are all there, and ends
//! with the box. What was carried breaks then, like every connection of a session that is restored.

mod door;
mod inward;
mod outward;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) use door::door;

use self::door::Door;
use self::inward::Inward;
use self::outward::Outward;
use super::{Outcome, inside, while_doing, with_causes};
use crate::loopback::Loopback;

/// How often the machine's loopback is looked at.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Connections at a time, in both directions; more are turned away.
const MOST: usize = 512;
/// A thread here only copies.
const STACK: usize = 128 << 10;
/// How long nothing is accepted when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long somebody who asks may take to ask and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts `join` so that it is nobody's child but the subreaper's, and ends.
pub(super) fn loopback(words: Vec<OsString>) -> Outcome {
    let program = std::env::current_exe().map_err(while_doing("find our own program"))?;
    Command::new(program)
        .arg("join")
        .args(words)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(while_doing("join the loopbacks"))?;
    Ok(ExitCode::SUCCESS)
}

/// Words: where to make the socket, and what is to be joined, as JSON.
pub(super) fn join(words: &[OsString]) -> Outcome {
    let started = start(words);
    let report = started.as_ref().map_or_else(|failure| failure.as_str(), |_| "up");
    let mut out = io::stdout();
    writeln!(out, "{report}").and_then(|()| out.flush()).map_err(while_doing("report"))?;
    // The daemon waits for the end of this pipe.
    let null = File::options().write(true).open("/dev/null").map_err(while_doing("open /dev/null"))?;
    rustix::stdio::dup2_stdout(&null).map_err(while_doing("use /dev/null"))?;
    started?.run()
}

fn start(words: &[OsString]) -> Outcome<Joined> {
    let [socket, plan] = words else { return Err("the socket or the plan is missing".to_owned()) };
    let plan: Loopback =
        serde_json::from_str(&plan.to_string_lossy()).map_err(while_doing("understand the plan"))?;
    rustix::process::setsid().map_err(while_doing("start a session"))?;
    rustix::process::chdir("/").map_err(while_doing("leave the directory"))?;
    let door = Arc::new(Door::open(plan.holder)?);
    inside::raise_the_number_of_open_files()?;
    let open = Open::default();
    let inward = Arc::new(Inward::new(&plan, Arc::clone(&door), open.clone()));
    if plan.inward {
        inward.look();
    }
    let outward = Outward::new(&plan, door, Arc::clone(&inward), open);
    Ok(Joined { asked: listen(Path::new(socket))?, plan, inward, outward })
}

fn listen(path: &Path) -> Outcome<UnixListener> {
    // Whoever connects meanwhile finds the old one or the new one.
    let mut draft = path.as_os_str().to_owned();
    draft.push("+");
    let draft = PathBuf::from(draft);
    let failed = || while_doing(format!("listen at `{}`", path.display()));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed()(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&draft).map_err(failed())?;
    fs::rename(&draft, path).map_err(failed())?;
    Ok(listener)
}

struct Joined {
    plan: Loopback,
    asked: UnixListener,
    inward: Arc<Inward>,
    outward: Outward,
}

impl Joined {
    /// Until the box ends.
    fn run(self) -> Outcome {
        let Self { plan, asked, inward, mut outward } = self;
        let holder = plan.holder.open().map_err(with_causes)?;
        std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || {
                for who in asked.incoming().flatten() {
                    // Whoever says nothing or does not read gets no answer.
                    let _ = answer(&who, &mut outward);
                }
            })
            .map_err(while_doing("listen to questions"))?;
        loop {
            let mut ends = [PollFd::new(&holder, PollFlags::IN)];
            match poll(&mut ends, plan.inward.then_some(&LOOK)) {
                Ok(0) => inward.look(),
                Err(rustix::io::Errno::INTR) => {}
                // With us all sockets in that network end, and the door with them.
                _ => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

fn answer(mut who: &UnixStream, outward: &mut Outward) -> io::Result<()> {
    who.set_read_timeout(Some(PATIENCE))?;
    who.set_write_timeout(Some(PATIENCE))?;
    who.read_exact(&mut [0])?;
    let mut line = serde_json::to_vec(&outward.look()?)?;
    line.push(b'\n');
    who.write_all(&line)
}

/// Where the ports begin that the system gives to whoever asks for any.
fn first_of_any() -> u16 {
    const USUALLY: u16 = 32768;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(USUALLY)
}

/// How many connections are open.
#[derive(Clone, Default)]
struct Open(Arc<AtomicUsize>);

impl Open {
    /// Has every connection of a listener carried until that is stopped.
    fn take(
        &self,
        listener: &TcpListener,
        carry: impl Fn(&TcpStream) -> io::Result<()> + Clone + Send + 'static,
    ) -> io::Result<()> {
        let (listener, open) = (listener.try_clone()?, self.clone());
        let accept = move || {
            loop {
                match listener.accept() {
                    Ok((client, _)) => open.begin(client, carry.clone()),
                    // It was stopped.
                    Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        };
        std::thread::Builder::new().stack_size(STACK).spawn(accept).map(drop)
    }

    /// Has a thread carry one connection, unless there are too many.
    fn begin(&self, client: TcpStream, carry: impl FnOnce(&TcpStream) -> io::Result<()> + Send + 'static) {
        if self.0.fetch_add(1, Ordering::Relaxed) >= MOST {
            self.0.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let open = self.clone();
        let carried = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            // A connection that cannot be made or breaks is closed.
            let _ = carry(&client);
            open.0.fetch_sub(1, Ordering::Relaxed);
        });
        if carried.is_err() {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
