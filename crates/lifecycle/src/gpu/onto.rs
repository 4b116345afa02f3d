//! Which GPUs a restore gets, decided beforehand.

use manifest::Snapshot;
use manifest::snapshot::{GpuSection, HostSection};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::ports::{GpuHeld, GpuWanted, Placed};
use crate::record::Record;
use crate::session::GpuWish;

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
    /// `None` for a snapshot without any.
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Option<Self>> {
        let processes = snapshot.get::<GpuSection>()?.unwrap_or_default().processes;
        let gpus = snapshot.get::<HostSection>()?.map(|host| host.fingerprint.gpus).unwrap_or_default();
        Ok((!processes.is_empty()).then_some(Self { processes, gpus }))
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
            let granted = match record.habitat.is_host() {
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
            boxed: !record.habitat.is_host(),
            among,
            force: wanted.force,
            ends: wanted.ends,
        };
        Ok(Placed { wish, ..self.gpu().place(held, &wanted)? })
    }
}
