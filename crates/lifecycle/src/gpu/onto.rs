//! Onto GPUs after CRIU's restore: which ones, decided beforehand; and the driver's part, done afterwards.

use std::collections::{BTreeMap, BTreeSet};

use checkpoint_cuda::{GpuMap, GpuUuid, Target};
use gpu_detect::Host;
use gpu_plan::placement::{Choice, Here, Placement, Taken, place};
use gpu_plan::reserve::Reserved;
use gpu_plan::{DEV, in_manifest, look, used_by, wish};
use manifest::Snapshot;
use manifest::snapshot::{GpuProcess, GpuSection, HostSection};
use sandbox::process::{self, Identity, ProcessInfo};
use sandbox::{DeviceNode, User};

use super::stage::Noted;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::journal::Entry;
use crate::record::GpuWish;
use crate::record::Record;
use crate::steps::Steps;

/// What a snapshot has on GPUs.
#[derive(Clone, Debug)]
pub(crate) struct GpuAim {
    processes: Vec<GpuProcess>,
    taken: Vec<Taken>,
}

impl GpuAim {
    /// `None` for a snapshot without any.
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Option<Self>> {
        let processes = snapshot.get::<GpuSection>()?.unwrap_or_default().processes;
        let gpus = snapshot.get::<HostSection>()?.map(|host| host.fingerprint.gpus).unwrap_or_default();
        if processes.is_empty() {
            return Ok(None);
        }
        let mut bytes: BTreeMap<&str, u64> = BTreeMap::new();
        for process in &processes {
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
        let taken = gpus
            .into_iter()
            .map(|gpu| Taken { bytes: bytes.get(gpu.uuid.as_str()).copied().unwrap_or(0), gpu })
            .collect();
        Ok(Some(Self { processes, taken }))
    }
}

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

/// GPUs for a restore. Nobody else is promised their bytes while this lives.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// What the driver must be told.
    map: GpuMap,
    processes: Vec<GpuProcess>,
    /// UUIDs of the GPUs that the session has then.
    pub(crate) granted: Vec<String>,
    /// Their nodes.
    pub(crate) nodes: Vec<DeviceNode>,
    /// What the session was to have.
    pub(crate) wish: GpuWish,
    reserved: Option<Reserved>,
}

impl Placed {
    /// Each GPU takes its own place.
    pub(crate) fn in_place(section: GpuSection) -> Self {
        Self { processes: section.processes, ..Self::default() }
    }

    /// The session has them now.
    pub(crate) fn grant_to(&self, record: &mut Record) {
        record.gpus.clone_from(&self.granted);
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
        aim: Option<&GpuAim>,
        wanted: Wanted<'_>,
    ) -> Result<Placed> {
        let wish = wanted.wish.unwrap_or(&record.gpu_wish).clone();
        let Some(aim) = aim else {
            if record.habitat.is_host() {
                return Ok(Placed { wish, ..Placed::default() });
            }
            let (granted, host) = self.grant(&wish, &record.owner)?;
            let nodes = host.map(|host| nodes_for(&host, &granted));
            return Ok(Placed { granted, nodes: nodes.unwrap_or_default(), wish, ..Placed::default() });
        };
        if wish == GpuWish::None {
            return Err(LifecycleError::NoPlaceOnGpus {
                commit: commit.to_owned(),
                reasons: vec!["it has work on GPUs, and the session may use none".to_owned()],
            });
        }
        let gpus = &self.inner.gpus;
        let driver = gpus.driver()?;
        let tree = wanted.ends.map(pids_of).transpose()?.unwrap_or_default();
        let ((placement, host), reserved) =
            gpus.reservations.decide(tree.clone(), |promises| -> Result<_> {
                let host = gpus.host()?;
                let promised = promises.outstanding(|pids| used_by(&host, pids));
                let freed: BTreeMap<String, u64> = used_by(&host, &tree).into_iter().collect();
                let usable = usable(&host);
                let here: Vec<Here> = host
                    .gpus
                    .iter()
                    .filter(|gpu| record.habitat.is_host() || usable.contains(&gpu.uuid))
                    .map(|gpu| Here {
                        gpu: in_manifest(gpu),
                        free: gpu
                            .free_bytes
                            .saturating_add(freed.get(&gpu.uuid).copied().unwrap_or(0))
                            .saturating_sub(promised.get(&gpu.uuid).copied().unwrap_or(0)),
                    })
                    .collect();
                let among: Option<BTreeSet<String>> = match wanted.wish {
                    Some(asked @ GpuWish::List(_)) => {
                        Some(wish::resolve(asked, &host)?.into_iter().collect())
                    }
                    _ => None,
                };
                let own: BTreeSet<String> = record.gpus.iter().cloned().collect();
                let choice = Choice { among: among.as_ref(), own: &own, force: wanted.force };
                let placement = place(&aim.taken, &here, choice).map_err(|reasons| {
                    LifecycleError::NoPlaceOnGpus { commit: commit.to_owned(), reasons }
                })?;
                let bytes = aim
                    .taken
                    .iter()
                    .filter(|taken| taken.bytes > 0)
                    .filter_map(|taken| Some((placement.pairs.get(&taken.gpu.uuid)?.clone(), taken.bytes)))
                    .collect();
                Ok(((placement, host), bytes))
            })?;
        if !placement.is_identity() && !driver.capabilities().pairs {
            return Err(LifecycleError::NoPlaceOnGpus {
                commit: commit.to_owned(),
                reasons: vec![format!(
                    "its own GPUs have no room or are not here, and driver {} can only restore onto the same ones: \
                     that begins with 580",
                    host.driver_version
                )],
            });
        }
        let granted = placement.granted();
        let nodes = match record.habitat.is_host() {
            true => Vec::new(),
            false => nodes_for(&host, &granted),
        };
        Ok(Placed {
            map: map(&placement)?,
            processes: aim.processes.clone(),
            granted: if record.habitat.is_host() { Vec::new() } else { granted },
            nodes,
            wish,
            reserved: Some(reserved),
        })
    }

    /// The driver's part of a restore: all processes onto their GPUs, then all unlocked. The tree runs already, with its calls
    /// of CUDA waiting. On an error the caller ends it.
    pub(crate) fn put_onto_gpus(
        &self,
        init: Identity,
        placed: &Placed,
        entry: &Entry,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        if placed.processes.is_empty() {
            return Ok(());
        }
        let driver = self.inner.gpus.driver()?;
        let tree = process::tree(init.pid)?;
        let mut targets = Vec::new();
        let mut identities = Vec::new();
        for process in &placed.processes {
            let Some(found) = tree.iter().find(|one| is_inside(one, process.pid)) else {
                return Err(LifecycleError::Bug(format!("process {} was not restored", process.pid)));
            };
            targets.push(Target { pid: found.pid, vram_bytes: process.vram_bytes });
            identities.push(found.identity());
        }
        entry.note_gpu(identities);
        if let Some(reserved) = &placed.reserved {
            reserved.taken_by(&targets.iter().map(|target| target.pid).collect::<Vec<_>>());
        }
        let mut notes = Noted(entry);
        let locked = steps.run("restore the GPU", || {
            let tree = driver.adopt(&targets)?;
            tree.restore(&placed.map, &mut notes).map_err(|(tree, error)| {
                // The whole tree is ended by whoever asked for this.
                tree.ended();
                error.into()
            })
        })?;
        steps.run("unlock the GPU", || Ok(locked.unlock()?))
    }

    /// The GPUs of a new session that this user may use, and what the machine has. A machine without GPUs has none to give,
    /// which is fine unless some were named.
    pub(crate) fn grant(&self, wish: &GpuWish, user: &User) -> Result<(Vec<String>, Option<Host>)> {
        let gpus = &self.inner.gpus;
        let host = match wish {
            GpuWish::None => None,
            // A driver that does not answer must not keep sessions from starting that may have no use for it.
            GpuWish::All => gpus.present().then(|| gpus.host().ok()).flatten(),
            GpuWish::List(names) if names.is_empty() => None,
            GpuWish::List(_) => Some(gpus.host()?),
        };
        let Some(host) = host else { return Ok((Vec::new(), None)) };
        let mut granted = wish::resolve(wish, &host)?;
        let usable = usable(&host);
        if let (GpuWish::List(_), Some(closed)) = (wish, granted.iter().find(|uuid| !usable.contains(*uuid)))
        {
            return Err(LifecycleError::BadRequest {
                detail: format!("user {} may not open the device of GPU {closed}", user.name),
            });
        }
        granted.retain(|uuid| usable.contains(uuid));
        Ok((granted, Some(host)))
    }
}

fn map(placement: &Placement) -> Result<GpuMap> {
    if placement.is_identity() {
        return Ok(GpuMap::identity());
    }
    let mut pairs = Vec::new();
    for (old, new) in &placement.pairs {
        pairs.push((old.parse::<GpuUuid>()?, new.parse::<GpuUuid>()?));
    }
    Ok(GpuMap::new(pairs)?)
}

fn is_inside(process: &ProcessInfo, number: u32) -> bool {
    !process.is_zombie() && look::inside(process).is_ok_and(|inside| inside == number)
}

fn pids_of(init: i32) -> Result<Vec<i32>> {
    Ok(process::tree(init)?.iter().map(|process| process.pid).collect())
}

/// GPUs whose nodes this user may open.
fn usable(host: &Host) -> BTreeSet<String> {
    let nodes = sandbox::usable_nodes(DEV.as_ref());
    let may = |minor: u32| nodes.iter().any(|node| node.gpu() == Some(minor));
    host.gpus.iter().filter(|gpu| may(gpu.minor)).map(|gpu| gpu.uuid.clone()).collect()
}

/// The device nodes for these GPUs: their own, and those that every one of them needs. None for none.
pub(crate) fn nodes_for(host: &Host, granted: &[String]) -> Vec<DeviceNode> {
    if granted.is_empty() {
        return Vec::new();
    }
    let own: Vec<u32> =
        host.gpus.iter().filter(|gpu| granted.contains(&gpu.uuid)).map(|gpu| gpu.minor).collect();
    let mut nodes = sandbox::usable_nodes(DEV.as_ref());
    nodes.retain(|node| node.gpu().is_none_or(|minor| own.contains(&minor)));
    nodes
}
