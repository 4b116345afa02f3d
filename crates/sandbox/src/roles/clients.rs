//! The connections of a kernel's clients, as far as one has to wait for another.
//!
//! A client asks on one connection, *shell*, and hears what comes of it on another, *iopub*, for which it has to subscribe: what a
//! kernel publishes before that is lost. When the process behind the ports is exchanged, ZeroMQ makes the connections of a client
//! anew, each by itself, 0.1 to 0.2 s after it broke. If shell comes first, the kernel runs what it is asked to and publishes output
//! that the client never hears, and the client waits for the end of its cell for ever.
//!
//! So whoever asks waits here until everybody can hear. (On *control* nobody waits: there a restored kernel is told that it lives
//! again.) Which connections belong together nobody can tell. But all subscriptions that broke with the old process must be there
//! again, and at least as many as there are connections on shell, for a client has one of each. A client may come twice: the daemon
//! connects again at once, and anew when it knows that the kernel is another. So a subscription that was counted as one of those that
//! broke, and is left soon after by its own client, is missing again: it stood for the same client. And one that hangs up while it is held asks no
//! more, and the kernel never hears its name: it may have come again under the same one, and a ROUTER can lose the requests of a name that
//! it has twice. We begin with a session that wakes up, and do not know then who was there before: all who were come
//! within the first moments, so everybody waits for these. A client that has no iopub goes on when the kernel has been there for a
//! second, and is not counted any more; whoever has not come back by then will not be waited for again.
//!
//! And a client that is back may say nothing: ZeroMQ's own thread connects again, but a subscription is repeated by the thread that
//! next looks at the socket, and that one may be waiting for the reply on shell. So it is said here in the client's place, for everything,
//! as all clients do; what one does not want its own socket drops.
//!
//! What is held is what the client says, from the middle of its greeting on ([ZMTP 3.1](https://rfc.zeromq.org/spec/37/)). After
//! that it has to hear the kernel's answer before it can send its first request, and by then the kernel has read the subscription,
//! which was sent before the rest of the greeting.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

/// How long a client that asks is held once the kernel is there.
const LIMIT: Duration = Duration::from_secs(1);
/// What both sides may say unasked: the beginning of a greeting, which tells that ZMTP is spoken.
const SIGNATURE: usize = 10;
/// How it begins.
const ZMTP: u8 = 0xff;
/// All of a greeting.
const GREETING: usize = 64;
/// The longest head of a frame: flags and eight bytes of length.
const LONGEST_HEAD: usize = 9;
/// In a frame's flags: its length has eight bytes instead of one.
const LONG: u8 = 2;
/// How long ZeroMQ takes at most to try again, and a little more.
const FIRST_MOMENTS: Duration = Duration::from_millis(300);
/// How long a client has to subscribe by itself when it could.
const ITS_TURN: Duration = Duration::from_millis(20);
/// How often it is looked whether one that is held has hung up.
const GLANCE: Duration = Duration::from_millis(20);
/// A frame that subscribes to everything.
const SUBSCRIPTION: [u8; 3] = [0, 1, 1];

/// What a connection is for, by the place of its port in a connection file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    Shell,
    Iopub,
    Other,
}

impl Channel {
    /// Ports come in the order shell, iopub, stdin, control, heartbeat.
    pub(super) const fn at(index: usize) -> Self {
        match index {
            0 => Self::Shell,
            1 => Self::Iopub,
            _ => Self::Other,
        }
    }
}

/// All connections of one kernel's clients.
#[derive(Clone, Default)]
pub(super) struct Clients(Arc<Shared>);

struct Shared {
    begun: Instant,
    counts: Mutex<Counts>,
    changed: Condvar,
}

impl Default for Shared {
    fn default() -> Self {
        Self { begun: Instant::now(), counts: Mutex::default(), changed: Condvar::new() }
    }
}

#[derive(Default)]
struct Counts {
    /// Connections on shell.
    asking: usize,
    /// Connections on iopub that have subscribed.
    hearing: usize,
    /// Those that broke with a kernel and are not there again.
    missing: usize,
}

impl Clients {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody connects.
    pub(super) fn visit(&self, channel: Channel) -> Visit {
        if channel == Channel::Shell {
            self.counts().asking += 1;
        }
        Visit {
            clients: self.clone(),
            channel,
            is_counted: AtomicBool::new(channel == Channel::Shell),
            has_left: AtomicBool::new(false),
            filled: OnceLock::new(),
            answered: OnceLock::new(),
            is_over: AtomicBool::new(false),
        }
    }
}

/// One connection, from its beginning to its end.
pub(super) struct Visit {
    clients: Clients,
    channel: Channel,
    is_counted: AtomicBool,
    /// The client has said its last word.
    has_left: AtomicBool,
    /// When it was counted as one that is there again.
    filled: OnceLock<Instant>,
    answered: OnceLock<Instant>,
    /// The kernel has said its last word.
    is_over: AtomicBool,
}

impl Visit {
    /// Carries what the client says.
    pub(super) fn there(&self, from: &mut (impl Read + AsFd), to: &mut impl Write) -> io::Result<()> {
        let goes_on = match self.channel {
            Channel::Shell => self.ask(from, to),
            Channel::Iopub => subscribe(from, to).inspect(|subscribed| {
                if *subscribed {
                    self.hears();
                }
            }),
            Channel::Other => Ok(true),
        };
        let carried = goes_on.and_then(|goes_on| if goes_on { io::copy(from, to) } else { Ok(0) });
        self.has_left.store(true, Ordering::Relaxed);
        if self.channel == Channel::Iopub && !self.is_over.load(Ordering::Relaxed) {
            self.leaves_by_itself();
        }
        carried.map(drop)
    }

    /// At once, not when the kernel has noticed: its client may be back before that.
    fn leaves_by_itself(&self) {
        let mut counts = self.clients.counts();
        let came_back_just_now = self.filled.get().is_some_and(|filled| filled.elapsed() < LIMIT);
        if self.leave(&mut counts) && came_back_just_now {
            counts.missing += 1;
        }
    }

    /// Carries what a client says before it is held, and holds it. `false` if it has ended before, or hung up meanwhile: what it has
    /// said until then would name it to the kernel, where it may have come again under the same name.
    fn ask(&self, from: &mut (impl Read + AsFd), to: &mut impl Write) -> io::Result<bool> {
        let mut signature = [0; SIGNATURE];
        let passed = pass(from, to, &mut signature)?;
        // Whoever speaks something else waits for nobody, and nobody says anything to it first.
        Ok(match passed.first() {
            Some(&ZMTP) => self.wait(from),
            Some(_) => true,
            None => false,
        })
    }

    /// It has subscribed.
    fn hears(&self) {
        self.is_counted.store(true, Ordering::Relaxed);
        let mut counts = self.clients.counts();
        counts.hearing += 1;
        if let Some(fewer) = counts.missing.checked_sub(1) {
            counts.missing = fewer;
            // It is set here only.
            let _first = self.filled.set(Instant::now());
        }
        self.clients.0.changed.notify_all();
    }

    /// Carries what the kernel says.
    pub(super) fn back(&self, from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
        let mut first = [0; SIGNATURE];
        let carried = pass(from, to, &mut first).and_then(|passed| {
            if passed.is_empty() {
                return Ok(());
            }
            // It is set here only.
            let _first = self.answered.set(Instant::now());
            self.tell();
            io::copy(from, to).map(drop)
        });
        self.is_over.store(true, Ordering::Relaxed);
        if self.channel == Channel::Iopub && !self.has_left.load(Ordering::Relaxed) {
            let mut counts = self.clients.counts();
            // Not one that never got as far as that.
            if self.leave(&mut counts) {
                counts.missing += 1;
            }
        }
        self.tell();
        carried
    }

    /// Waits until whoever asks can hear. `false` if it has hung up.
    fn wait(&self, from: &impl AsFd) -> bool {
        let mut counts = self.clients.counts();
        while !self.is_over.load(Ordering::Relaxed) {
            if has_hung_up(from) {
                self.leave(&mut counts);
                self.clients.0.changed.notify_all();
                return false;
            }
            let early = FIRST_MOMENTS.saturating_sub(self.clients.0.begun.elapsed());
            if early.is_zero() && counts.missing == 0 && counts.hearing >= counts.asking {
                return true;
            }
            // A kernel that is being restored may have taken the connection and not live yet.
            let left = self.answered.get().map_or(LIMIT, |answered| LIMIT.saturating_sub(answered.elapsed()));
            if left.is_zero() {
                counts.missing = 0;
                self.leave(&mut counts);
                self.clients.0.changed.notify_all();
                return true;
            }
            let nap = if early.is_zero() { left } else { left.min(early) };
            let waited = self.clients.0.changed.wait_timeout(counts, nap.min(GLANCE));
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Is counted no more. Says whether it was.
    fn leave(&self, counts: &mut Counts) -> bool {
        let was_counted = self.is_counted.swap(false, Ordering::Relaxed);
        if was_counted {
            let count = match self.channel {
                Channel::Iopub => &mut counts.hearing,
                _ => &mut counts.asking,
            };
            *count = count.saturating_sub(1);
        }
        was_counted
    }

    /// Has everybody look again. With the lock, or one that is about to wait would miss it.
    fn tell(&self) {
        let _counts = self.clients.counts();
        self.clients.0.changed.notify_all();
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.leave(&mut self.clients.counts());
        self.tell();
    }
}

/// Passes on what one read gives; nothing at the end of the stream.
fn pass<'a>(from: &mut impl Read, to: &mut impl Write, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let length = loop {
        match from.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    let passed = buffer.get(..length).unwrap_or_default();
    to.write_all(passed)?;
    Ok(passed)
}

/// Carries what a client says on iopub until a subscription has gone by. `false` if the client has ended before.
fn subscribe(from: &mut (impl Read + AsFd), to: &mut impl Write) -> io::Result<bool> {
    let (mut opening, mut buffer) = (Opening::default(), [0; 4096]);
    while !opening.is_followed() {
        set_socket_timeout(&*from, Timeout::Recv, opening.is_whole().then_some(ITS_TURN))?;
        match pass(from, to, &mut buffer) {
            Ok([]) => return Ok(false),
            Ok(passed) => opening.take(passed),
            Err(error) if is_impatience(&error) => {
                to.write_all(&SUBSCRIPTION)?;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    set_socket_timeout(&*from, Timeout::Recv, None)?;
    Ok(true)
}

/// Whether a client will say no more, also if it said something before that nobody has read yet.
fn has_hung_up(client: &impl AsFd) -> bool {
    let mut ends = [PollFd::new(client, PollFlags::RDHUP)];
    // One that cannot be asked is not held against it.
    poll(&mut ends, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}

fn is_impatience(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// How a client opens a connection: a greeting and a frame `READY`. What follows on iopub is its subscription.
#[derive(Default)]
struct Opening {
    start: Vec<u8>,
    length: usize,
}

impl Opening {
    fn take(&mut self, bytes: &[u8]) {
        let room = (GREETING + LONGEST_HEAD).saturating_sub(self.start.len());
        self.start.extend(bytes.iter().take(room));
        self.length = self.length.saturating_add(bytes.len());
    }

    /// Whether something came after it.
    fn is_followed(&self) -> bool {
        self.end().is_some_and(|end| self.length > end)
    }

    /// Whether all of it is there, of a client that says what follows in plain words.
    fn is_whole(&self) -> bool {
        let greeting = |range: std::ops::Range<usize>| self.start.get(range).unwrap_or_default();
        let is_plain = greeting(0..1) == [ZMTP]
            && greeting(9..10) == [0x7f]
            && greeting(10..11).first().is_some_and(|major| *major >= 3)
            && greeting(12..17) == *b"NULL\0";
        is_plain && self.end().is_some_and(|end| self.length >= end)
    }

    fn end(&self) -> Option<usize> {
        let (flags, rest) = self.start.get(GREETING..)?.split_first()?;
        let (head, length) = if flags & LONG == 0 {
            (2, usize::from(*rest.first()?))
        } else {
            let length = u64::from_be_bytes(rest.get(..8)?.try_into().ok()?);
            (LONGEST_HEAD, usize::try_from(length).ok()?)
        };
        length.checked_add(GREETING + head)
    }
}

#[cfg(test)]
mod tests;
