//! The thread in the target that carries out requests.
//!
//! It is made by the first `cuInit` and lives as long as the process. It blocks all signals, so that no handler of the
//! program runs on it, and waits in a read of a pipe whose both ends belong to the process itself: to CRIU it is an
//! ordinary thread with an ordinary pipe.
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustix::pipe::{PipeFlags, pipe_with};
use serde::de::DeserializeOwned;

use super::block::Block;
use super::caller::{call_of, wall_clock};
use super::message::{self, Ask, Reply, Request};
use super::placement::{self, Pair};
use super::state::{State, Step};
use super::target::{own_process, own_thread};
use crate::abi::sys::block::{Copy, Words, publish};
use crate::client::{Client, Pool, lock, tables};
use crate::code::{Code, Result};
use crate::faults::{Phase, Question, Verdict};
use crate::wire::{self, Checkpoint, Core, GpuInfo, Host, Image, Piece};

/// More than a pipe holds: one read then always ends at the end of a request.
const WHOLE_PIPE: usize = 1 << 16;
/// How far below its device address the copy of a piece lies. The same address at each checkpoint lets a store of
/// snapshots see that nothing changed.
const COPIES_BELOW: u64 = 0x1000_0000_0000;

/// What a checkpointed process keeps.
#[derive(Debug)]
struct Saved {
    image: Image,
    copies: Vec<Copy>,
    /// The GPUs that the process could open.
    gpus: Vec<GpuInfo>,
}

#[derive(Debug)]
struct Helper {
    client: &'static Client,
    words: &'static Words,
    requests: OwnedFd,
    replies: OwnedFd,
    stale: OwnedFd,
    saved: Option<Saved>,
    /// A restore failed in the way after which this driver answers 304 for ever.
    wedged: bool,
}

/// Starts the helper of this process, and shows the control block once it can be asked.
///
/// # Errors
/// OPERATING_SYSTEM if the address of the block is taken or there are no pipes or threads to be had.
pub fn start(client: &'static Client) -> Result<()> {
    let (requests, request_end) = pipe_with(PipeFlags::CLOEXEC).map_err(|_| Code::OPERATING_SYSTEM)?;
    let (stale, replies) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|_| Code::OPERATING_SYSTEM)?;
    let pipes = [requests.as_raw_fd(), request_end.as_raw_fd(), stale.as_raw_fd(), replies.as_raw_fd()];
    let (ready, wait) = mpsc::channel();
    let work = move || {
        let _ = SigSet::all().thread_block();
        // Kept open for the life of the process: callers open it by its number.
        let _request_end = request_end;
        let state = State::Running.number();
        let block = Block { owner: own_process(), helper: own_thread(), state, pipes, busy: 0 };
        match publish(&block) {
            Ok(words) => {
                let mut helper =
                    Helper { client, words, requests, replies, stale, saved: None, wedged: false };
                helper.note(&lock(&client.directory).clone(), State::Running);
                let _ = ready.send(Ok(()));
                helper.serve();
            }
            Err(code) => drop(ready.send(Err(code))),
        }
    };
    let name = format!("cuda{:012x}", 0x1400_0006);
    std::thread::Builder::new().name(name).spawn(work).map_err(|_| Code::OPERATING_SYSTEM)?;
    wait.recv().map_err(|_| Code::OPERATING_SYSTEM)?
}

impl Helper {
    fn serve(&mut self) {
        let mut waiting = VecDeque::new();
        let mut bytes = vec![0; WHOLE_PIPE];
        loop {
            match rustix::io::read(&self.requests, &mut *bytes) {
                Ok(count) => {
                    waiting.extend(message::split::<Request>(bytes.get(..count).unwrap_or_default()))
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            while let Some(request) = waiting.pop_front() {
                self.words.busy.store(request.id, Ordering::SeqCst);
                let result =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.carry_out(&request)));
                let code = result.unwrap_or(Err(Code::UNKNOWN)).err().map_or(0, |code| code.0);
                let reply = Reply { id: request.id, code, state: self.state().number(), parked: None };
                self.words.busy.store(0, Ordering::SeqCst);
                self.reply(&reply);
            }
        }
    }

    fn reply(&self, reply: &Reply) {
        let Some(bytes) = message::frame(reply) else { return };
        if rustix::io::write(&self.replies, &bytes).is_err() {
            // Full of answers that nobody fetched.
            let mut stale = vec![0; WHOLE_PIPE];
            let _ = rustix::io::read(&self.stale, &mut *stale);
            let _ = rustix::io::write(&self.replies, &bytes);
        }
    }

    fn state(&self) -> State {
        State::from_number(self.words.state.load(Ordering::SeqCst)).unwrap_or(State::Failed)
    }

    fn note(&self, directory: &Path, state: State) {
        self.words.state.store(state.number(), Ordering::SeqCst);
        // Only the server's table of states hangs on it.
        let _: Result<serde_json::Value> = ask(&Pool::default(), directory, Checkpoint::Note { state });
    }

    fn carry_out(&mut self, request: &Request) -> Result<()> {
        let Ask::Step { step, pairs, custom } = &request.ask else { return Ok(()) };
        let next = self.state().after(*step, *custom)?;
        if let Some(verdict) = request.fault {
            self.suffer(request, verdict)?;
        }
        self.meet(request, *step, Phase::During)?;
        match step {
            Step::Lock => self.lock(request)?,
            Step::Checkpoint => {
                if let Err(code) = self.checkpoint() {
                    if code == Code::UNKNOWN {
                        self.note(&request.dir, State::Failed);
                    }
                    return Err(code);
                }
            }
            Step::Restore => self.restore(&request.dir, pairs)?,
            Step::Unlock => self.client.gate.open(),
            Step::Complete => return Err(Code::NOT_SUPPORTED),
        }
        self.note(&request.dir, next);
        self.meet(request, *step, Phase::After)
    }

    /// Asks the script, through a channel that is closed again before anybody can see it.
    fn meet(&mut self, request: &Request, step: Step, phase: Phase) -> Result<()> {
        let question =
            Question { call: call_of(step), phase, pid: request.pid, caller: Some(request.caller) };
        let verdict = ask(&Pool::default(), &request.dir, Checkpoint::Fault(question)).unwrap_or(Verdict::Go);
        self.suffer(request, verdict)
    }

    fn suffer(&mut self, request: &Request, verdict: Verdict) -> Result<()> {
        match verdict {
            Verdict::Go => Ok(()),
            Verdict::Code(code) => Err(Code(code)),
            Verdict::Terminal => {
                self.note(&request.dir, State::Failed);
                Err(Code::UNKNOWN)
            }
            Verdict::Then304 => {
                self.wedged = true;
                Err(Code::OUT_OF_MEMORY)
            }
        }
    }

    fn lock(&self, request: &Request) -> Result<()> {
        let left = || request.until.map(|until| Duration::from_millis(until.saturating_sub(wall_clock())));
        let over = || {
            left().is_some_and(|left| left.is_zero())
                || self.words.cancelled.load(Ordering::SeqCst) == request.id
        };
        if over() || !self.client.gate.close(left().map(|left| Instant::now() + left)) {
            return Err(Code::NOT_READY);
        }
        // 0 would mean no limit to the server.
        let timeout_ms = left().map_or(0, |left| u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1));
        let drained = self.client.ask::<serde_json::Value>(&wire::Request::Core(Core::Drain { timeout_ms }));
        if drained.is_err() || over() {
            self.client.gate.open();
        }
        drained?;
        if over() { Err(Code::NOT_READY) } else { Ok(()) }
    }

    fn checkpoint(&mut self) -> Result<()> {
        let here = self.openable(&lock(&self.client.host));
        let pieces: Vec<Piece> = self.client.ask(&wire::Request::Checkpoint(Checkpoint::Measure))?;
        let copy = |piece: &Piece| Copy::new(piece.name.wrapping_sub(COPIES_BELOW), piece.bytes);
        let copies = pieces.iter().map(copy).collect::<Result<Vec<_>>>()?;
        let to = copies.iter().map(Copy::address).collect();
        let image: Image = self.client.ask(&wire::Request::Checkpoint(Checkpoint::Save { to }))?;
        self.client.pool.close();
        lock(&self.client.nodes).clear();
        self.saved = Some(Saved { image, copies, gpus: here });
        Ok(())
    }

    fn restore(&mut self, directory: &Path, pairs: &[Pair]) -> Result<()> {
        if self.wedged {
            return Err(Code::OPERATING_SYSTEM);
        }
        let saved = self.saved.as_ref().ok_or(Code::ILLEGAL_STATE)?;
        let pool = Pool::default();
        let hello = pool.ask::<Host>(directory, &wire::Request::Core(Core::Hello));
        let host = hello.map_err(|_| Code::NO_DEVICE)?;
        let new = placement::place(&saved.gpus, pairs, &self.openable(&host), host.level)?;
        let gpus: Vec<(u32, u32)> =
            saved.gpus.iter().zip(&new).map(|(old, new)| (old.index, new.index)).collect();
        let nodes = self.nodes(&saved.image, &gpus)?;
        let from = saved.copies.iter().map(Copy::address).collect();
        let load = Checkpoint::Load { image: Box::new(saved.image.clone()), from, gpus };
        // Until here nothing has changed, and the server undoes what it could not finish.
        let _: serde_json::Value = ask(&pool, directory, load)?;
        drop(pool);
        *lock(&self.client.nodes) = nodes;
        directory.clone_into(&mut lock(&self.client.directory));
        *lock(&self.client.host) = host;
        let mut tables = self.client.tables();
        for device in &mut tables.devices {
            let moved = saved.gpus.iter().zip(&new).find(|(old, _)| old.uuid == device.gpu.uuid);
            if let Some((_, new)) = moved {
                // The driver goes on to answer the old bus id (cuda-checkpoint#48).
                device.gpu = GpuInfo { pci: device.gpu.pci, ..new.clone() };
            }
        }
        drop(tables);
        self.saved = None;
        Ok(())
    }

    /// The GPUs whose device nodes this process can open.
    fn openable(&self, host: &Host) -> Vec<GpuInfo> {
        let opens =
            |gpu: &&GpuInfo| tables::open_nodes(&self.client.dev, &[&format!("nvidia{}", gpu.index)]).is_ok();
        if tables::open_nodes(&self.client.dev, &["nvidiactl"]).is_err() {
            return Vec::new();
        }
        host.gpus.iter().filter(opens).cloned().collect()
    }

    /// The device files that such a process has open.
    fn nodes(&self, image: &Image, gpus: &[(u32, u32)]) -> Result<Vec<std::fs::File>> {
        let mut files = tables::open_nodes(&self.client.dev, tables::COMMON_NODES)?;
        let used = |old: &u32| image.contexts.iter().any(|context| context.1 == *old);
        for (_, new) in gpus.iter().filter(|(old, _)| used(old)) {
            let name = format!("nvidia{new}");
            files.extend(tables::open_nodes(&self.client.dev, &[name.as_str(); tables::NODES_PER_GPU])?);
        }
        Ok(files)
    }
}

fn ask<T: DeserializeOwned>(pool: &Pool, directory: &Path, request: Checkpoint) -> Result<T> {
    pool.ask(directory, &wire::Request::Checkpoint(request))
}
