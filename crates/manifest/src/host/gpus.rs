//! Which GPU here takes the place of which GPU of the snapshot.
//!
//! The driver restores a CUDA process onto the GPUs that it had, by UUID. From driver 580 on it also takes a map from old
//! to new UUIDs, if the chips are the same and their memory is at least as large. MIG instances are not restored onto
//! another layout. So: a GPU that is still here takes its own place; each other one gets a GPU of the same chip and MIG
//! layout that is not taken yet.
//!
//! Within one chip and layout only memory decides, so pairing the largest with the largest finds a way if there is one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::verdict::{Findings, Reason, reason};
use super::{Gpu, HostFingerprint, version};

/// The first driver with a checkpoint API.
const DRIVER_CHECKPOINT: u64 = 570;
/// The first driver that restores onto other GPUs.
const DRIVER_UUID_MAP: u64 = 580;

/// A GPU of the snapshot and the one that takes its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct GpuPair {
    /// UUID when the snapshot was taken.
    pub taken: String,
    /// UUID here.
    pub here: String,
}

/// Pairs each GPU of the snapshot with one that is here, sorted by the old UUID; or says why that cannot be done. Drivers are
/// not looked at. If every pair is of one GPU with itself, no map must be given to the driver.
pub fn pair_gpus(taken: &[Gpu], here: &[Gpu]) -> Result<Vec<GpuPair>, Vec<Reason>> {
    if here.len() < taken.len() {
        let found =
            reason("gpu-fewer", "There are fewer GPUs here than the snapshot uses.", taken.len(), here.len());
        return Err(vec![found.way_out("restore on a machine with at least as many GPUs of the same model")]);
    }
    let mut pairs = Vec::new();
    let mut homeless: Vec<&Gpu> = Vec::new();
    let mut used = BTreeSet::new();
    for old in taken {
        match here.iter().find(|new| new.uuid == old.uuid && fits(old, new)) {
            Some(new) => {
                used.insert(new.uuid.as_str());
                pairs.push(pair(old, new));
            }
            None => homeless.push(old),
        }
    }
    let mut free: BTreeMap<_, VecDeque<&Gpu>> = BTreeMap::new();
    for new in largest_first(here.iter().filter(|new| !used.contains(new.uuid.as_str()))) {
        free.entry(slot(new)).or_default().push_back(new);
    }
    let mut reasons = Vec::new();
    for old in largest_first(homeless) {
        let places = free.entry(slot(old)).or_default();
        match places.front().copied().filter(|new| fits(old, new)) {
            Some(new) => {
                places.pop_front();
                pairs.push(pair(old, new));
            }
            None => {
                reasons.push(why_no_place(old, here.iter().filter(|new| !used.contains(new.uuid.as_str()))))
            }
        }
    }
    pairs.sort();
    if reasons.is_empty() { Ok(pairs) } else { Err(reasons) }
}

fn pair(old: &Gpu, new: &Gpu) -> GpuPair {
    GpuPair { taken: old.uuid.clone(), here: new.uuid.clone() }
}

fn fits(old: &Gpu, new: &Gpu) -> bool {
    slot(old) == slot(new) && new.memory_bytes >= old.memory_bytes
}

/// What two GPUs must have in common, whatever their sizes.
fn slot(gpu: &Gpu) -> (&str, &str, Option<Vec<&str>>) {
    (&gpu.pci_id, &gpu.compute_capability, mig(gpu))
}

fn mig(gpu: &Gpu) -> Option<Vec<&str>> {
    let mut layout: Vec<_> = gpu.mig.as_ref()?.iter().map(String::as_str).collect();
    layout.sort_unstable();
    Some(layout)
}

fn largest_first<'a>(gpus: impl IntoIterator<Item = &'a Gpu>) -> Vec<&'a Gpu> {
    let mut sorted: Vec<_> = gpus.into_iter().collect();
    // By bus id after that: neighbours stay neighbours, and the order of listing does not matter.
    sorted.sort_by_key(|gpu| (std::cmp::Reverse(gpu.memory_bytes), &gpu.bus_id, &gpu.uuid));
    sorted
}

fn why_no_place<'a>(old: &Gpu, free: impl Iterator<Item = &'a Gpu>) -> Reason {
    let free: Vec<_> = free.collect();
    let chip = |gpu: &Gpu| format!("{} ({}, {} bytes)", gpu.name, gpu.pci_id, gpu.memory_bytes);
    let names = |gpus: &[&Gpu]| {
        let names: BTreeSet<_> = gpus.iter().map(|gpu| chip(gpu)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    let same_chip: Vec<_> = free
        .iter()
        .copied()
        .filter(|new| (&new.pci_id, &new.compute_capability) == (&old.pci_id, &old.compute_capability))
        .collect();
    if same_chip.is_empty() {
        let sentence = format!("No free GPU here is of the same chip as {}.", old.uuid);
        return reason("gpu-chip", sentence, chip(old), names(&free))
            .way_out("restore on a machine with GPUs of the same model");
    }
    let layout =
        |gpu: &Gpu| mig(gpu).map_or_else(|| "off".to_owned(), |layout| format!("[{}]", layout.join(" ")));
    if same_chip.iter().all(|new| mig(new) != mig(old)) {
        let sentence = format!("No free GPU here has the MIG layout of {}.", old.uuid);
        let here: BTreeSet<_> = same_chip.iter().map(|gpu| layout(gpu)).collect();
        return reason("gpu-mig", sentence, layout(old), here.into_iter().collect::<Vec<_>>().join(", "))
            .way_out("set up the same MIG layout with `nvidia-smi mig`, then try again");
    }
    let sentence = format!("No free GPU here has as much memory as {}.", old.uuid);
    reason("gpu-memory", sentence, chip(old), names(&same_chip))
        .way_out("restore on a machine whose GPUs have at least as much memory")
}

pub(super) fn compare(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) {
    if taken.gpus.is_empty() {
        return;
    }
    let driver_here = driver(taken, here, findings);
    let pairs = match pair_gpus(&taken.gpus, &here.gpus) {
        Ok(pairs) => pairs,
        Err(reasons) => return reasons.into_iter().for_each(|found| findings.block(found)),
    };
    if pairs.iter().any(|pair| pair.taken != pair.here) {
        let uuids = |uuid: fn(&GpuPair) -> &String| {
            pairs.iter().map(|p| uuid(p).as_str()).collect::<Vec<_>>().join(" ")
        };
        let (old, new) = (uuids(|pair| &pair.taken), uuids(|pair| &pair.here));
        if driver_here.is_some_and(|major| major < DRIVER_UUID_MAP) {
            let sentence = "The GPUs are others, and this driver can only restore onto the same ones.";
            findings.block(
                reason("gpu-map-driver", sentence, old, new).way_out("install NVIDIA driver 580 or newer"),
            );
        } else {
            let sentence =
                "The GPUs are others of the same chip: the driver is given a map from old to new UUIDs.";
            findings.note(reason("gpu-map", sentence, old, new));
        }
    }
    if here.gpus.len() > taken.gpus.len() {
        let sentence = "There are more GPUs here than there were.";
        findings.note(reason("gpu-more", sentence, taken.gpus.len(), here.gpus.len()));
    }
    nvlink(taken, here, &pairs, findings);
}

/// Looks at the driver; the major version here, if it can be told.
fn driver(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) -> Option<u64> {
    const WAY_OUT: &str = "install the NVIDIA driver of the snapshot or a newer one, at least 570";
    let old = taken.driver_version.as_deref().unwrap_or("unknown");
    let new = here.driver_version.as_deref().unwrap_or("absent");
    let Some(numbers) = version::numbers(new) else {
        let sentence = "The snapshot uses GPUs, and there is no NVIDIA driver here whose version is known.";
        findings.block(reason("driver-missing", sentence, old, new).way_out(WAY_OUT));
        return None;
    };
    let major = version::major(new);
    if major.is_some_and(|major| major < DRIVER_CHECKPOINT) {
        let sentence = "The NVIDIA driver here cannot restore: that begins with version 570.";
        findings.block(reason("driver-too-old", sentence, old, new).way_out(WAY_OUT));
        return major;
    }
    match version::numbers(old) {
        Some(before) if numbers < before => {
            let sentence = "The NVIDIA driver here is older than the one that took the GPU state.";
            findings.block(reason("driver-older", sentence, old, new).way_out(WAY_OUT));
        }
        Some(before) if numbers == before => {}
        Some(_) => findings.note(reason("driver-newer", "The NVIDIA driver here is newer.", old, new)),
        None => findings.note(reason("driver-unknown", "The driver of the snapshot is not known.", old, new)),
    }
    major
}

/// Whether the links among the snapshot's GPUs are the same among those that take their places.
fn nvlink(taken: &HostFingerprint, here: &HostFingerprint, pairs: &[GpuPair], findings: &mut Findings) {
    let to_old: BTreeMap<_, _> = pairs.iter().map(|pair| (pair.here.as_str(), pair.taken.as_str())).collect();
    let to_self: BTreeMap<_, _> =
        pairs.iter().map(|pair| (pair.taken.as_str(), pair.taken.as_str())).collect();
    let (old, new) = (links(&taken.gpus, &to_self), links(&here.gpus, &to_old));
    if old != new {
        let list = |links: &BTreeSet<(&str, &str)>| {
            let links: Vec<_> = links.iter().map(|(one, other)| format!("{one}-{other}")).collect();
            if links.is_empty() { "none".to_owned() } else { links.join(" ") }
        };
        let sentence =
            "NVLink connects the GPUs in another way; transfers between them may be slower or fail.";
        findings.note(reason("gpu-nvlink", sentence, list(&old), list(&new)));
    }
}

/// Links among GPUs that have a name in `names`, by those names, each once.
fn links<'a>(gpus: &[Gpu], names: &BTreeMap<&str, &'a str>) -> BTreeSet<(&'a str, &'a str)> {
    let mut found = BTreeSet::new();
    for gpu in gpus {
        for peer in &gpu.nvlink_peers {
            if let (Some(one), Some(other)) = (names.get(gpu.uuid.as_str()), names.get(peer.as_str())) {
                found.insert((*one.min(other), *one.max(other)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Verdict, compare};

    const GB: u64 = 1 << 30;

    fn gpu(uuid: &str) -> Gpu {
        Gpu {
            uuid: uuid.into(),
            pci_id: "10de:2330".into(),
            bus_id: format!("0000:{uuid}:00.0"),
            name: "H100".into(),
            memory_bytes: 80 * GB,
            compute_capability: "9.0".into(),
            ..Gpu::default()
        }
    }

    fn host(driver: &str, gpus: Vec<Gpu>) -> HostFingerprint {
        HostFingerprint { driver_version: Some(driver.into()), gpus, ..HostFingerprint::default() }
    }

    #[track_caller]
    fn check(taken: &HostFingerprint, here: &HostFingerprint, restorable: bool, codes: &[&str]) -> Verdict {
        let verdict = compare(taken, here);
        let found: Vec<_> = verdict.reasons().iter().map(|reason| reason.code).collect();
        assert_eq!((verdict.allows_restore(), &found[..]), (restorable, codes), "{verdict:?}");
        let mut turned = here.clone();
        turned.gpus.reverse();
        turned.gpus.iter_mut().flat_map(|gpu| &mut gpu.mig).for_each(|layout| layout.reverse());
        let mut old = taken.clone();
        old.gpus.reverse();
        assert_eq!(compare(taken, &turned), verdict, "the order of GPUs here matters");
        assert_eq!(
            compare(&old, here).allows_restore(),
            restorable,
            "the order of GPUs in the snapshot matters"
        );
        verdict
    }

    #[test]
    fn the_same_gpus_in_any_order_are_the_same() {
        let taken = host("580.1", vec![gpu("a"), gpu("b")]);
        assert_eq!(check(&taken, &host("580.1", vec![gpu("b"), gpu("a")]), true, &[]), Verdict::Same);
        // 570 is enough as long as the GPUs are the same.
        check(&host("570", vec![gpu("a")]), &host("570", vec![gpu("a")]), true, &[]);
    }

    #[test]
    fn others_of_the_same_chip_need_a_map_and_driver_580() {
        let taken = host("570.5", vec![gpu("a"), gpu("b")]);
        check(&taken, &host("570.5", vec![gpu("a"), gpu("x")]), false, &["gpu-map-driver"]);
        check(&taken, &host("579.9", vec![gpu("y"), gpu("x")]), false, &["gpu-map-driver"]);
        let verdict =
            check(&taken, &host("580.0", vec![gpu("x"), gpu("a")]), true, &["driver-newer", "gpu-map"]);
        let map = &verdict.reasons()[1];
        assert_eq!((map.taken.as_str(), map.here.as_str()), ("a b", "a x"));
    }

    #[test]
    fn fewer_gpus() {
        let taken = host("580", vec![gpu("a"), gpu("b")]);
        check(&taken, &host("580", vec![gpu("a")]), false, &["gpu-fewer"]);
        check(&taken, &host("580", vec![]), false, &["gpu-fewer"]);
    }

    #[test]
    fn more_gpus() {
        check(&host("580", vec![gpu("a")]), &host("580", vec![gpu("b"), gpu("a")]), true, &["gpu-more"]);
    }

    #[test]
    fn another_chip() {
        let other = Gpu { pci_id: "10de:20b0".into(), name: "A100".into(), ..gpu("x") };
        check(&host("580", vec![gpu("a")]), &host("580", vec![other.clone()]), false, &["gpu-chip"]);
        // Another one of the right chip is no help if it is taken.
        check(
            &host("580", vec![gpu("a"), gpu("b")]),
            &host("580", vec![gpu("a"), other]),
            false,
            &["gpu-chip"],
        );
        let revised = Gpu { compute_capability: "9.1".into(), ..gpu("x") };
        check(&host("580", vec![gpu("a")]), &host("580", vec![revised]), false, &["gpu-chip"]);
    }

    #[test]
    fn less_memory() {
        let small = Gpu { memory_bytes: 40 * GB, ..gpu("x") };
        let large = Gpu { memory_bytes: 94 * GB, ..gpu("y") };
        check(&host("580", vec![gpu("a")]), &host("580", vec![small.clone()]), false, &["gpu-memory"]);
        check(&host("580", vec![gpu("a")]), &host("580", vec![large.clone()]), true, &["gpu-map"]);
        let both = host("580", vec![small.clone(), large.clone()]);
        check(&host("580", vec![gpu("a")]), &both, true, &["gpu-map", "gpu-more"]);
        // Only one way of pairing these works.
        let taken = host("580", vec![Gpu { memory_bytes: 30 * GB, ..gpu("a") }, gpu("b")]);
        check(&taken, &host("580", vec![large, small]), true, &["gpu-map"]);
    }

    #[test]
    fn another_mig_layout() {
        let mig = |uuid: &str, layout: &[&str]| Gpu {
            mig: Some(layout.iter().map(|profile| (*profile).to_owned()).collect()),
            ..gpu(uuid)
        };
        let taken = host("580", vec![mig("a", &["1g.10gb", "2g.20gb"])]);
        check(&taken, &host("580", vec![mig("a", &["2g.20gb", "1g.10gb"])]), true, &[]);
        check(&taken, &host("580", vec![mig("a", &["3g.40gb"])]), false, &["gpu-mig"]);
        check(&taken, &host("580", vec![gpu("a")]), false, &["gpu-mig"]);
        check(&host("580", vec![gpu("a")]), &host("580", vec![mig("a", &[])]), false, &["gpu-mig"]);
    }

    #[test]
    fn drivers() {
        let with = |driver: &str| host(driver, vec![gpu("a")]);
        check(&with("580.2"), &with("580.1"), false, &["driver-older"]);
        check(&with("565"), &with("569.9"), false, &["driver-too-old"]);
        check(&with("580.2"), &with("590"), true, &["driver-newer"]);
        check(
            &with("580"),
            &HostFingerprint { driver_version: None, ..with("") },
            false,
            &["driver-missing"],
        );
        check(&with("580"), &with("what"), false, &["driver-missing"]);
        check(&HostFingerprint { driver_version: None, ..with("") }, &with("580"), true, &["driver-unknown"]);
    }

    #[test]
    fn another_nvlink() {
        let linked = |uuid: &str, peers: &[&str]| Gpu {
            nvlink_peers: peers.iter().map(|peer| (*peer).to_owned()).collect(),
            ..gpu(uuid)
        };
        let taken = host("580", vec![linked("a", &["b", "switch"]), linked("b", &["a"])]);
        check(&taken, &host("580", vec![linked("a", &["b"]), gpu("b")]), true, &[]);
        check(&taken, &host("580", vec![gpu("a"), gpu("b")]), true, &["gpu-nvlink"]);
        // Links are compared through the map.
        check(&taken, &host("580", vec![linked("x", &["y"]), gpu("y")]), true, &["gpu-map"]);
        check(&taken, &host("580", vec![gpu("x"), gpu("y")]), true, &["gpu-map", "gpu-nvlink"]);
    }
}
