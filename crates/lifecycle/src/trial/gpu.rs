//! A GPU for trials, and its driver: what it was told outlives the daemon, as with a real one.
//!
//! A process that was given a GPU has its number there, too. A file says what the driver has done to the process: it runs, it is
//! locked, or it is checkpointed, and then the number is in the process's own memory and travels with its images. Like the real ones, the
//! driver refuses whoever stands still, and the checkpointer refuses whoever has something on the GPU.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image_store::Storing;
use manifest::host::Gpu as GpuOfHost;
use manifest::snapshot::{GpuProcess, GpuSection};
use sandbox::process::Identity;
use sandbox::{DeviceNode, User};
use session_record::GpuWish;

use super::fuse::{pass, request};
use super::machine::{Machine, is_stopped};
use crate::error::{LifecycleError, Result};
use crate::ports::{
    Gpu, GpuHeld, GpuHost, GpuJournal, GpuLook, GpuPlan, GpuWanted, Granted, OffGpu, OntoGpu, Placed,
};
use crate::steps::Steps;

/// The one that there is.
const UUID: &str = "GPU-00000000-0000-0000-0000-000000000001";

/// What the driver has done to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Running = b'r' as isize,
    Locked = b'l' as isize,
    Checkpointed = b'c' as isize,
}

/// What the driver knows of a process: its state, and its number on the GPU.
pub(super) type Known = (State, u8);

impl Machine {
    fn driver(&self, process: Identity) -> PathBuf {
        let name = format!("{}-{}", process.pid, process.start_time);
        self.processes.with_extension("gpu").join(name)
    }

    /// `None` for a process that never had a GPU.
    pub(super) fn on_gpu(&self, process: Identity) -> Option<Known> {
        let [state, number] = fs::read(self.driver(process)).ok()?[..] else { panic!("half of a state") };
        let states = [State::Running, State::Locked, State::Checkpointed];
        Some((states.into_iter().find(|one| *one as u8 == state).unwrap(), number))
    }

    pub(super) fn set_on_gpu(&self, process: Identity, (state, number): Known) {
        let path = self.driver(process);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In one piece: the daemon may die in between.
        fs::write(path.with_extension("new"), [state as u8, number]).unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    }

    /// One call of the driver.
    fn call(&self, what: &'static str, process: Identity, from: State, to: State) -> Result<()> {
        request(what)?;
        let refused = |why: &str| {
            let detail = format!("the driver would not {what}: process {} {why}", process.pid);
            Err(LifecycleError::BadRequest { detail })
        };
        let Some((state, number)) = self.on_gpu(process) else { return refused("has no GPU") };
        if is_stopped(process) {
            return refused("stands still");
        }
        if state != from {
            return refused(&format!("is {state:?}"));
        }
        let (_, [memory, kept]) = self.session_of(process);
        match (from, to) {
            (State::Locked, State::Checkpointed) => {
                self.remember(process, [memory, number]);
                self.set_on_gpu(process, (to, 0));
            }
            (State::Checkpointed, State::Locked) if kept == 0 => return refused("has nothing to put back"),
            (State::Checkpointed, State::Locked) => {
                self.set_on_gpu(process, (to, kept));
                self.remember(process, [memory, 0]);
            }
            _ => self.set_on_gpu(process, (to, number)),
        }
        pass(&format!("{what}: done"));
        Ok(())
    }

    fn lock(&self, process: Identity) -> Result<()> {
        self.call("lock on the GPU", process, State::Running, State::Locked)
    }

    fn checkpoint(&self, process: Identity) -> Result<()> {
        self.call("checkpoint on the GPU", process, State::Locked, State::Checkpointed)
    }

    fn restore_on_gpu(&self, process: Identity) -> Result<()> {
        self.call("restore on the GPU", process, State::Checkpointed, State::Locked)
    }

    fn unlock(&self, process: Identity) -> Result<()> {
        self.call("unlock on the GPU", process, State::Locked, State::Running)
    }

    /// Makes it run on the GPU, whatever was done to it. One that has ended needs nothing.
    fn make_running(&self, process: Identity) -> Result<()> {
        let state = |process| self.on_gpu(process).filter(|_| process.is_alive()).map(|(state, _)| state);
        if state(process) == Some(State::Checkpointed) {
            self.restore_on_gpu(process)?;
        }
        if state(process) == Some(State::Locked) {
            self.unlock(process)?;
        }
        Ok(())
    }
}

/// The port.
pub(super) struct FakeGpu(pub(super) Machine);

fn granted() -> Granted {
    let node = DeviceNode { name: "nvidia0".to_owned(), major: 195, minor: 0 };
    Granted { gpus: vec![UUID.to_owned()], nodes: vec![node] }
}

fn host() -> GpuHost {
    let gpu = GpuOfHost {
        uuid: UUID.to_owned(),
        pci_id: "10de:2330".to_owned(),
        bus_id: "00000000:1b:00.0".to_owned(),
        name: "a GPU for trials".to_owned(),
        memory_bytes: 1 << 30,
        nvlink_peers: BTreeSet::new(),
        mig: None,
        compute_capability: "9.0".to_owned(),
    };
    GpuHost { gpus: vec![gpu], driver_version: "580.105.08".to_owned() }
}

/// Who is about to be touched is on disk before; the worker is gone already, so that nobody has to be waited for.
fn note(journal: &dyn GpuJournal, process: Identity) -> Result<()> {
    journal.note_gpu(vec![process]);
    journal.note_gpu_worker(Identity { pid: i32::MAX, start_time: 1 });
    Ok(journal.sync()?)
}

impl Gpu for FakeGpu {
    fn host(&self) -> Result<GpuHost> {
        request("ask which GPUs there are").map(|()| host())
    }

    fn held_by(&self, _: i32) -> Option<u64> {
        None
    }

    fn grant(&self, wish: &GpuWish, _: &User) -> Result<Granted> {
        match wish {
            GpuWish::None => Ok(Granted::default()),
            _ => request("grant a GPU").map(|()| granted()),
        }
    }

    fn look(&self, init: i32) -> Result<Option<GpuLook>> {
        let (machine, process) = (self.0.clone(), Identity::of(init)?);
        let Some(process) = process.filter(|process| machine.on_gpu(*process).is_some()) else {
            return Ok(None);
        };
        request("look for work on the GPU")?;
        let plan = move || {
            request("ask the driver about it")?;
            let on_gpu = GpuProcess {
                pid: u32::try_from(init).unwrap(),
                devices: vec![UUID.to_owned()],
                strategy: "driver".to_owned(),
                vram_bytes: 1,
                by_device: Vec::new(),
            };
            let section = GpuSection { processes: vec![on_gpu] };
            Ok(Some(GpuPlan { processes: vec![process], section, host: host(), beside: false }))
        };
        Ok(Some(GpuLook {
            refusals: Vec::new(),
            warnings: Vec::new(),
            on_gpu: BTreeSet::from([init]),
            vram_bytes: 1,
            plan: Box::new(plan),
        }))
    }

    fn take_off(
        &self,
        plan: &GpuPlan,
        _: i32,
        _: Option<&Storing>,
        journal: &dyn GpuJournal,
        steps: &mut Steps<'_>,
    ) -> Result<Box<dyn OffGpu>> {
        let off = TakenOff { machine: self.0.clone(), process: plan.processes[0], is_off: true };
        note(journal, off.process)?;
        // Dropped on an error, it comes back.
        steps.run("lock the GPU", || off.machine.lock(off.process))?;
        steps.run("checkpoint the GPU", || off.machine.checkpoint(off.process))?;
        Ok(Box::new(off))
    }

    fn place(&self, _: &GpuHeld, _: &GpuWanted<'_>) -> Result<Placed> {
        request("find a place on the GPU")?;
        Ok(Placed { granted: granted(), work: Some(Box::new(Work(self.0.clone()))), ..Placed::default() })
    }

    fn place_as_before(&self, _: GpuSection) -> Result<Placed> {
        Err(LifecycleError::BadRequest { detail: "no tree of the host in a trial".to_owned() })
    }

    fn wait_for_worker(&self, _: Identity) {}

    fn bring_back(&self, processes: &[Identity], _: &Path) -> Result<()> {
        processes.iter().try_for_each(|process| self.0.make_running(*process))
    }

    fn bring_back_tree(&self, init: Identity, _: &Path) -> Result<()> {
        self.0.make_running(init)
    }

    fn must_wait(&self, processes: &[Identity]) -> bool {
        processes.iter().any(|process| is_stopped(*process))
    }
}

struct TakenOff {
    machine: Machine,
    process: Identity,
    is_off: bool,
}

impl OffGpu for TakenOff {
    fn paused(&self) -> Duration {
        Duration::ZERO
    }

    fn bring_back(&mut self, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        note(journal, self.process)?;
        steps.run("restore the GPU", || self.machine.restore_on_gpu(self.process))?;
        steps.run("unlock the GPU", || self.machine.unlock(self.process))?;
        self.is_off = false;
        Ok(())
    }

    fn again(&mut self, first: LifecycleError) -> Result<()> {
        let stuck = |_| LifecycleError::GpuStuck { pids: vec![self.process.pid], source: Box::new(first) };
        self.machine.make_running(self.process).map_err(stuck)?;
        self.is_off = false;
        Ok(())
    }

    fn ended(mut self: Box<Self>) {
        self.is_off = false;
    }
}

impl Drop for TakenOff {
    fn drop(&mut self) {
        if self.is_off {
            let _stuck = self.machine.make_running(self.process);
        }
    }
}

struct Work(Machine);

impl OntoGpu for Work {
    fn put(&self, init: Identity, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        note(journal, init)?;
        steps.run("restore the GPU", || self.0.restore_on_gpu(init))?;
        steps.run("unlock the GPU", || self.0.unlock(init))
    }
}
