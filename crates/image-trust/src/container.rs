//! Images of a container that somebody else has dumped.
//!
//! A container's processes are whatever its specification lets them be, so there is no user to compare them with. What can be held against the
//! images themselves is what no dump of a container has: memory that lies in another dump, mappings that only the kernel or a plugin makes,
//! files that are two things at once or have a path that leads elsewhere, devices that CRIU would make because an image says so.

use std::collections::BTreeSet;

use crate::Findings;
use crate::files::{KINDS, REG, UNIX, UNWANTED_MAPPINGS, VSYSCALL};
use crate::images::Images;
use crate::paths::{is_plain, path};
use crate::wire::Message;

/// Where the kernel lets nobody map anything, unless somebody has told it to.
const LOWEST: u64 = 4096;

pub(crate) fn check(images: &Images, findings: &mut Findings) {
    match images.first("inventory") {
        Some(inventory) if inventory.number(1) == Some(2) => {}
        Some(_) => findings.add("the images are of a version that is not known here"),
        None => findings.add("there is no inventory"),
    }
    processes(images, findings);
    memory(images, findings);
    files(images, findings);
    for (number, ghost) in images.numbered("ghost-file").filter_map(|(n, all)| Some((n, all.first()?))) {
        let kind = ghost.number(3).unwrap_or(0) & 0o170_000;
        if ![0o100_000, 0o040_000, 0o010_000, 0o120_000].contains(&kind) {
            findings.add(format!("ghost file {number} is a device"));
        }
    }
}

/// CRIU takes processes and threads from one list; nothing may be there that is not on it.
fn processes(images: &Images, findings: &mut Findings) {
    let tree = images.of("pstree");
    if tree.is_empty() {
        findings.add("there are no processes");
    }
    let mut known = BTreeSet::new();
    for process in tree {
        let pid = process.number(1).unwrap_or(0);
        if !known.insert(pid) {
            findings.add(format!("process {pid} is there twice"));
        }
        if images.first(&format!("core-{pid}")).is_none() {
            findings.add(format!("process {pid} has no core"));
        }
        known.extend(process.numbers(5));
    }
    for (number, _) in images.numbered("core") {
        if !number.parse().is_ok_and(|thread| known.contains(&thread)) {
            findings.add(format!("core-{number} belongs to no process"));
        }
    }
}

fn memory(images: &Images, findings: &mut Findings) {
    for (pid, mm) in images.numbered("mm").filter_map(|(pid, all)| Some((pid, all.first()?))) {
        for mapping in mm.inners(14) {
            let (start, status) = (mapping.number(1).unwrap_or(0), mapping.number(7).unwrap_or(0));
            if start < LOWEST && status & VSYSCALL == 0 {
                findings.add(format!("process {pid} maps memory at {start:#x}"));
            }
            if status & UNWANTED_MAPPINGS != 0 {
                findings.add(format!("process {pid} has a mapping of an unknown kind at {start:#x}"));
            }
        }
    }
    let maps = images.numbered("pagemap").chain(images.numbered("pagemap-shmem"));
    if maps
        .flat_map(|(_, all)| all)
        .any(|map| map.number(3).unwrap_or(0) != 0 || map.number(4).unwrap_or(0) & 1 != 0)
    {
        findings.add("memory is to be taken from another dump");
    }
}

fn files(images: &Images, findings: &mut Findings) {
    let mut ids = BTreeSet::new();
    for entry in images.of("files") {
        let id = entry.number(2).unwrap_or(0);
        if !ids.insert(id) {
            findings.add(format!("file {id} is there twice"));
        }
        let kind = entry.number(1).unwrap_or(0);
        let Some((_, field, ..)) = KINDS.iter().find(|(number, ..)| *number == kind) else {
            findings.add(format!("file {id} is of a kind ({kind}) that is not restored here"));
            continue;
        };
        let mut present = entry.present().filter(|number| *number > 2);
        let (Some(only), None, Some(own)) = (present.next(), present.next(), entry.inner(*field)) else {
            findings.add(format!("file {id} is not of one kind"));
            continue;
        };
        if only != *field || own.number(1) != Some(id) {
            findings.add(format!("file {id} is described as something else"));
        }
        match *field {
            REG if !is_plain(&path(own.bytes(6))) => {
                findings.add(format!("file {id} has a path that leads elsewhere"));
            }
            UNIX => socket(own, id, findings),
            _ => {}
        }
    }
}

/// The path of a socket may be relative to a directory that stands beside it.
fn socket(own: &Message, id: u64, findings: &mut Findings) {
    let name = own.bytes(11);
    let name = name.strip_suffix(b"\0").unwrap_or(name);
    if name.is_empty() || name.starts_with(b"\0") {
        return;
    }
    if name.contains(&0) || !is_plain(&path(own.bytes(14)).join(path(name))) {
        findings.add(format!("file {id} is a socket with a path that leads elsewhere"));
    }
}
