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
use super::message::{self, Ask, Parked, Reply, Request};
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
    /// Where the pieces are; `None`: with a caller.
    copies: Option<Vec<Copy>>,
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
    /// The operation with custom storage that is not complete.
    token: Option<u64>,
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
                let mut helper = Helper {
                    client,
                    words,
                    requests,
                    replies,
                    stale,
                    saved: None,
                    token: None,
                    wedged: false,
                };
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
                let (code, parked) = match result.unwrap_or(Err(Code::UNKNOWN)) {
                    Ok(parked) => (0, parked),
                    Err(code) => (code.0, None),
                };
                let reply = Reply { id: request.id, code, state: self.state().number(), parked };
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

    fn carry_out(&mut self, request: &Request) -> Result<Option<Parked>> {
        let Ask::Step { step, pairs, custom } = &request.ask else { return Ok(None) };
        let state = self.state();
        let next = state.after(*step, custom.is_some())?;
        if let Some(verdict) = request.fault {
            self.suffer(request, verdict)?;
        }
        self.meet(request, *step, Phase::During)?;
        let parked = self.take(request, *step, pairs, custom.as_deref()).inspect_err(|code| {
            // A checkpoint that loses the device loses the process.
            if *step == Step::Checkpoint && *code == Code::UNKNOWN {
                self.note(&request.dir, State::Failed);
            }
        })?;
        self.note(&request.dir, next);
        self.meet(request, *step, Phase::After)?;
        Ok(parked)
    }

    /// Takes a step that may be taken.
    fn take(
        &mut self,
        request: &Request,
        step: Step,
        pairs: &[Pair],
        contexts: Option<&[String]>,
    ) -> Result<Option<Parked>> {
        match (step, contexts) {
            (Step::Lock, _) => self.lock(request)?,
            (Step::Checkpoint, None) => self.checkpoint()?,
            (Step::Checkpoint, Some(contexts)) => return self.park(contexts).map(Some),
            (Step::Restore, contexts) => return self.restore(&request.dir, pairs, contexts),
            (Step::Unlock, _) => self.client.gate.open(),
            (Step::Complete, _) => self.settle()?,
        }
        Ok(None)
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
        let here = self.checkpointable()?;
        let pieces: Vec<Piece> = self.ask(Checkpoint::Measure)?;
        let copy = |piece: &Piece| Copy::new(piece.name.wrapping_sub(COPIES_BELOW), piece.bytes);
        let copies = pieces.iter().map(copy).collect::<Result<Vec<_>>>()?;
        let to = copies.iter().map(Copy::address).collect();
        let image: Image = self.ask(Checkpoint::Save { to })?;
        self.saved = Some(Saved { image, copies: Some(copies), gpus: here });
        self.let_go();
        Ok(())
    }

    /// Managed memory is beyond every driver so far. The answer is the GPUs that the process sees.
    fn checkpointable(&self) -> Result<Vec<GpuInfo>> {
        let managed =
            self.client.tables().allocations.values().any(|known| known.kind == tables::Kind::Managed);
        if managed { Err(Code::NOT_SUPPORTED) } else { Ok(self.openable(&lock(&self.client.host))) }
    }

    /// Closes all that leads to the device.
    fn let_go(&self) {
        self.client.pool.close();
        lock(&self.client.nodes).clear();
    }

    /// Shows the memory to a caller, who has contexts on all GPUs that hold some.
    fn park(&mut self, contexts: &[String]) -> Result<Parked> {
        let here = self.checkpointable()?;
        let pieces: Vec<Piece> = self.ask(Checkpoint::Measure)?;
        let host = lock(&self.client.host).clone();
        let used = host.gpus.iter().filter(|gpu| pieces.iter().any(|piece| piece.gpu == gpu.index));
        covered(used, contexts)?;
        let (image, parked): (Image, Parked) = self.ask(Checkpoint::Park)?;
        self.saved = Some(Saved { image, copies: None, gpus: here });
        self.token = Some(parked.token);
        Ok(parked)
    }

    /// The caller has its copies, or has brought them back.
    fn settle(&mut self) -> Result<()> {
        let token = self.token.ok_or(Code::ILLEGAL_STATE)?;
        let back = self.state() == State::Restoring;
        let _: serde_json::Value = self.ask(Checkpoint::Settle { token, back })?;
        self.token = None;
        if back {
            self.saved = None;
        } else {
            self.let_go();
        }
        Ok(())
    }

    fn ask<T: DeserializeOwned>(&self, request: Checkpoint) -> Result<T> {
        self.client.ask(&wire::Request::Checkpoint(request))
    }

    fn restore(
        &mut self,
        directory: &Path,
        pairs: &[Pair],
        contexts: Option<&[String]>,
    ) -> Result<Option<Parked>> {
        if self.wedged {
            return Err(Code::OPERATING_SYSTEM);
        }
        let saved = self.saved.as_ref().ok_or(Code::ILLEGAL_STATE)?;
        // The bytes come from where they went.
        if saved.copies.is_some() == contexts.is_some() {
            return Err(Code::INVALID_VALUE);
        }
        let pool = Pool::default();
        let hello = pool.ask::<Host>(directory, &wire::Request::Core(Core::Hello));
        let host = hello.map_err(|_| Code::NO_DEVICE)?;
        let new = placement::place(&saved.gpus, pairs, &self.openable(&host), host.level)?;
        let gpus: Vec<(u32, u32)> =
            saved.gpus.iter().zip(&new).map(|(old, new)| (old.index, new.index)).collect();
        if let Some(contexts) = contexts {
            let holds = |old: &u32| saved.image.pieces.iter().any(|piece| piece.gpu == *old);
            covered(gpus.iter().zip(&new).filter(|((old, _), _)| holds(old)).map(|(_, new)| new), contexts)?;
        }
        let nodes = self.nodes(&saved.image, &gpus)?;
        let from = saved.copies.as_ref().map(|copies| copies.iter().map(Copy::address).collect());
        let load = Checkpoint::Load { image: Box::new(saved.image.clone()), from, gpus };
        // Until here nothing has changed, and the server undoes what it could not finish.
        let parked: Option<Parked> = ask(&pool, directory, load)?;
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
        self.token = parked.as_ref().map(|parked| parked.token);
        self.saved = None;
        Ok(parked)
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

/// Has the caller contexts on all of these?
fn covered<'a>(mut gpus: impl Iterator<Item = &'a GpuInfo>, contexts: &[String]) -> Result<()> {
    let all = gpus.all(|gpu| contexts.contains(&placement::hex(&gpu.uuid)));
    if all { Ok(()) } else { Err(Code::INVALID_CONTEXT) }
}

fn ask<T: DeserializeOwned>(pool: &Pool, directory: &Path, request: Checkpoint) -> Result<T> {
    pool.ask(directory, &wire::Request::Checkpoint(request))
}
