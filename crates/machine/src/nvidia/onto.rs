//! Onto GPUs after CRIU's restore: which ones, decided beforehand; and the driver's part, done afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use checkpoint_cuda::{GpuMap, GpuUuid, Target};
use gpu_detect::Host;
use gpu_plan::placement::{Choice, Here, Placement, Taken, place as match_gpus};
use gpu_plan::reserve::Reserved;
use gpu_plan::{DEV, Gpus, in_manifest, look, used_by, wish};
use lifecycle::ports::{GpuHeld, GpuJournal, GpuWanted, Granted, OntoGpu, Placed, Steps};
use lifecycle::{GpuWish, LifecycleError, Result};
use manifest::snapshot::{GpuProcess, GpuSection};
use sandbox::process::{self, Identity, ProcessInfo};
use sandbox::{DeviceNode, User};

use super::error::{cuda, planning};
use super::off::Noted;

/// The GPUs of a new session that this user may use.
pub(super) fn grant(gpus: &Gpus, wish: &GpuWish, user: &User) -> Result<Granted> {
    let host = match wish {
        GpuWish::None => None,
        // A driver that does not answer must not keep sessions from starting that may have no use for it.
        GpuWish::All => gpus.present().then(|| gpus.host().ok()).flatten(),
        GpuWish::List(names) if names.is_empty() => None,
        GpuWish::List(_) => Some(gpus.host().map_err(planning)?),
    };
    let Some(host) = host else { return Ok(Granted::default()) };
    let usable = usable(&host);
    let granted = match wish {
        GpuWish::List(names) => {
            let named = wish::resolve(names, &host).map_err(planning)?;
            if let Some(closed) = named.iter().find(|uuid| !usable.contains(*uuid)) {
                return Err(LifecycleError::BadRequest {
                    detail: format!("user {} may not open the device of GPU {closed}", user.name),
                });
            }
            named
        }
        _ => host.gpus.iter().map(|gpu| gpu.uuid.clone()).filter(|uuid| usable.contains(uuid)).collect(),
    };
    Ok(Granted { nodes: nodes_for(&host, &granted), gpus: granted })
}

/// Work of a snapshot, and the GPUs that it was promised.
struct Work {
    gpus: Arc<Gpus>,
    /// What the driver must be told.
    map: GpuMap,
    processes: Vec<GpuProcess>,
    reserved: Option<Reserved>,
    /// Where its device memory is, if that is not in its processes.
    beside: Option<PathBuf>,
}

/// GPUs for a restore.
pub(super) fn place(gpus: &Arc<Gpus>, held: &GpuHeld, wanted: &GpuWanted<'_>) -> Result<Placed> {
    let no_place = |reasons| LifecycleError::NoPlaceOnGpus { commit: wanted.commit.to_owned(), reasons };
    let taken = bytes_by_gpu(held);
    let driver = gpus.driver().map_err(planning)?;
    let tree = wanted.ends.map(pids_of).transpose()?.unwrap_or_default();
    let ((placement, host), reserved) = gpus.reservations.decide(tree.clone(), |promises| -> Result<_> {
        let host = gpus.host().map_err(planning)?;
        let promised = promises.outstanding(|pids| used_by(&host, pids));
        let freed: BTreeMap<String, u64> = used_by(&host, &tree).into_iter().collect();
        let usable = usable(&host);
        let here: Vec<Here> = host
            .gpus
            .iter()
            .filter(|gpu| !wanted.boxed || usable.contains(&gpu.uuid))
            .map(|gpu| Here {
                gpu: in_manifest(gpu),
                free: gpu
                    .free_bytes
                    .saturating_add(freed.get(&gpu.uuid).copied().unwrap_or(0))
                    .saturating_sub(promised.get(&gpu.uuid).copied().unwrap_or(0)),
            })
            .collect();
        let among: Option<BTreeSet<String>> = match wanted.among {
            Some(names) => Some(wish::resolve(names, &host).map_err(planning)?.into_iter().collect()),
            None => None,
        };
        let own: BTreeSet<String> = wanted.own.iter().cloned().collect();
        let choice = Choice { among: among.as_ref(), own: &own, force: wanted.force };
        let placement = match_gpus(&taken, &here, choice).map_err(no_place)?;
        let bytes = taken
            .iter()
            .filter(|taken| taken.bytes > 0)
            .filter_map(|taken| Some((placement.pairs.get(&taken.gpu.uuid)?.clone(), taken.bytes)))
            .collect();
        Ok(((placement, host), bytes))
    })?;
    let is_beside = held.processes.iter().any(|process| process.strategy == GpuProcess::BESIDE);
    if is_beside && !driver.capabilities().custom_storage {
        let need = "its device memory was copied past its processes, and comes back by a driver for CUDA 13.4 or newer";
        return Err(no_place(vec![format!("{need}; this is {}", host.driver_version)]));
    }
    if !placement.is_identity() && !driver.capabilities().pairs {
        return Err(no_place(vec![format!(
            "its own GPUs have no room or are not here, and driver {} can only restore onto the same ones: \
             that begins with 580",
            host.driver_version
        )]));
    }
    let granted = match wanted.boxed {
        true => {
            let granted = placement.granted();
            Granted { nodes: nodes_for(&host, &granted), gpus: granted }
        }
        false => Granted::default(),
    };
    let work = Work {
        gpus: Arc::clone(gpus),
        map: map(&placement)?,
        processes: held.processes.clone(),
        reserved: Some(reserved),
        beside: held.beside.clone(),
    };
    Ok(Placed { granted, work: Some(Box::new(work)), ..Placed::default() })
}

/// Each GPU takes its own place.
pub(super) fn place_as_before(gpus: &Arc<Gpus>, section: GpuSection) -> Result<Placed> {
    let _there = gpus.driver().map_err(planning)?;
    let work = Work {
        gpus: Arc::clone(gpus),
        map: GpuMap::identity(),
        processes: section.processes,
        reserved: None,
        beside: None,
    };
    Ok(Placed { work: Some(Box::new(work)), ..Placed::default() })
}

/// How much a snapshot held of each GPU that its processes could see.
fn bytes_by_gpu(held: &GpuHeld) -> Vec<Taken> {
    let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
    for process in &held.processes {
        match (process.by_device.as_slice(), process.devices.as_slice()) {
            ([], [device]) => *bytes.entry(device).or_default() += process.vram_bytes,
            (several, _) => {
                for one in several {
                    let all = bytes.entry(&one.device).or_default();
                    *all = all.saturating_add(one.bytes);
                }
            }
        }
    }
    let taken = |gpu: &manifest::host::Gpu| Taken {
        bytes: bytes.get(gpu.uuid.as_str()).copied().unwrap_or(0),
        gpu: gpu.clone(),
    };
    held.gpus.iter().map(taken).collect()
}

impl OntoGpu for Work {
    fn put(&self, init: Identity, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        let driver = self.gpus.driver().map_err(planning)?;
        let tree = process::tree(init.pid)?;
        let mut targets = Vec::new();
        let mut identities = Vec::new();
        for process in &self.processes {
            let Some(found) = tree.iter().find(|one| is_inside(one, process.pid)) else {
                return Err(LifecycleError::Bug(format!("process {} was not restored", process.pid)));
            };
            targets.push(Target { pid: found.pid, vram_bytes: process.vram_bytes });
            identities.push(found.identity());
        }
        journal.note_gpu(identities);
        if let Some(reserved) = &self.reserved {
            reserved.taken_by(&targets.iter().map(|target| target.pid).collect::<Vec<_>>());
        }
        let mut notes = Noted(journal);
        let locked = steps.run("restore the GPU", || {
            let tree = driver.adopt(&targets).map_err(cuda)?;
            let restored = match &self.beside {
                Some(beside) => tree.restore_from(beside, &self.map, &mut notes),
                None => tree.restore(&self.map, &mut notes),
            };
            restored.map_err(|(tree, error)| {
                // The whole tree is ended by whoever asked for this.
                tree.ended();
                cuda(error)
            })
        })?;
        steps.run("unlock the GPU", || locked.unlock().map_err(cuda))
    }
}

fn map(placement: &Placement) -> Result<GpuMap> {
    if placement.is_identity() {
        return Ok(GpuMap::identity());
    }
    let mut pairs = Vec::new();
    for (old, new) in &placement.pairs {
        pairs.push((old.parse::<GpuUuid>().map_err(cuda)?, new.parse::<GpuUuid>().map_err(cuda)?));
    }
    GpuMap::new(pairs).map_err(cuda)
}

fn is_inside(process: &ProcessInfo, number: u32) -> bool {
    !process.is_zombie() && look::inside(process).is_ok_and(|inside| inside == number)
}

/// The numbers of a tree.
pub(super) fn pids_of(init: i32) -> Result<Vec<i32>> {
    Ok(process::tree(init)?.iter().map(|process| process.pid).collect())
}

/// GPUs whose nodes this user may open.
fn usable(host: &Host) -> BTreeSet<String> {
    let nodes = sandbox::usable_nodes(DEV.as_ref());
    let may = |minor: u32| nodes.iter().any(|node| node.gpu() == Some(minor));
    host.gpus.iter().filter(|gpu| may(gpu.minor)).map(|gpu| gpu.uuid.clone()).collect()
}

/// The device nodes for these GPUs: their own, and those that every one of them needs. None for none.
fn nodes_for(host: &Host, granted: &[String]) -> Vec<DeviceNode> {
    if granted.is_empty() {
        return Vec::new();
    }
    let own: Vec<u32> =
        host.gpus.iter().filter(|gpu| granted.contains(&gpu.uuid)).map(|gpu| gpu.minor).collect();
    let mut nodes = sandbox::usable_nodes(DEV.as_ref());
    nodes.retain(|node| node.gpu().is_none_or(|minor| own.contains(&minor)));
    nodes
}
