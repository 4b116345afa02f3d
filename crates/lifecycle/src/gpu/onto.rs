//! Which GPUs a restore gets, decided beforehand.

use std::path::Path;

use cas_core::Store;
use cas_core::progress::Silent;
use image_store::{Storing, lay_out_device_memory};
use manifest::Snapshot;
use manifest::snapshot::{GpuSection, HostSection};
use session_record::{GpuWish, Record};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::ports::{GpuHeld, GpuPlan, GpuWanted, Placed};

/// What a restore is to have.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Wanted<'a> {
    /// What was asked for; as the session was started if `None`.
    pub(crate) wish: Option<&'a GpuWish>,
    /// Try also GPUs of another kind.
    pub(crate) force: bool,
    /// A tree that is ended before the restore: what it holds counts as free.
    pub(crate) ends: Option<i32>,
}

impl GpuHeld {
    /// `None` for a snapshot without any. Device memory that is not in its processes is laid out in `device`.
    pub(crate) fn of(
        store: &Store,
        commit: &str,
        snapshot: &Snapshot,
        device: &Path,
    ) -> Result<Option<Self>> {
        let processes = snapshot.get::<GpuSection>()?.unwrap_or_default().processes;
        let gpus = snapshot.get::<HostSection>()?.map(|host| host.fingerprint.gpus).unwrap_or_default();
        let beside = lay_out_device_memory(store, commit, snapshot, device, &Silent)?;
        let beside = beside.then(|| device.to_owned());
        Ok((!processes.is_empty()).then_some(Self { processes, gpus, beside }))
    }
}

impl Placed {
    /// The session has them now.
    pub(crate) fn grant_to(&self, record: &mut Record) {
        record.gpus.clone_from(&self.granted.gpus);
        record.gpu_wish = self.wish.clone();
        record.gpu_trouble = None;
    }
}

impl Engine {
    /// Where the device memory of a plan goes, if it need not go through its processes.
    pub(crate) fn beside(&self, record: &Record, plan: &GpuPlan) -> Result<Option<Storing>> {
        if !plan.beside || !self.inner.stages.may_lie_on_disk(plan.vram_bytes())? {
            return Ok(None);
        }
        let directory = self.inner.place.device_memory(&record.id);
        Ok(Some(self.inner.store.open()?.write_device_memory(record.head_id()?, directory)?))
    }

    /// Finds GPUs for a restore into this session. Nothing is touched; everything that can be told beforehand refuses here.
    pub(crate) fn place_gpus(
        &self,
        record: &Record,
        commit: &str,
        held: Option<&GpuHeld>,
        wanted: Wanted<'_>,
    ) -> Result<Placed> {
        let wish = wanted.wish.unwrap_or(&record.gpu_wish).clone();
        let Some(held) = held else {
            let granted = match record.habitat.is_adopted() {
                true => Default::default(),
                false => self.gpu().grant(&wish, &record.owner)?,
            };
            return Ok(Placed { granted, wish, work: None });
        };
        if wish == GpuWish::None {
            return Err(LifecycleError::NoPlaceOnGpus {
                commit: commit.to_owned(),
                reasons: vec!["it has work on GPUs, and the session may use none".to_owned()],
            });
        }
        let among = match wanted.wish {
            Some(GpuWish::List(names)) => Some(names.as_slice()),
            _ => None,
        };
        let wanted = GpuWanted {
            commit,
            own: &record.gpus,
            boxed: !record.habitat.is_adopted(),
            among,
            force: wanted.force,
            ends: wanted.ends,
        };
        Ok(Placed { wish, ..self.gpu().place(held, &wanted)? })
    }
}
