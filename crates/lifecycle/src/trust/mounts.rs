//! What the session would see of the file system, and where each of its paths leads on this machine.
//!
//! A session's mount namespace is a bind of the root, a few file systems of its own (proc, sys, a tmpfs with the device
//! nodes, pts) and binds from outside that CRIU calls *external*: the images name a key, and the restore says what is mounted
//! there. A user cannot mount anything in it, so the table in the images must be the one that the launcher made.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::images::Images;
use super::wire::Message;
use super::{Expectations, Findings};

/// A file system that the restore makes anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Made {
    Proc,
    Sys,
    Memory,
    Terminals,
    Queues,
}

/// What is at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// Something of this machine.
    Machine(PathBuf),
    /// Something of the session's own.
    Own(Made),
}

/// The mounts of the session.
#[derive(Debug)]
pub(super) struct View {
    mounts: Vec<Mount>,
}

#[derive(Debug)]
struct Mount {
    id: u64,
    inside: PathBuf,
    place: Place,
}

/// Where the launcher puts file systems of the session's own.
const OWN_PLACES: [(u64, Made, &[&str]); 5] = [
    (1, Made::Proc, &["/proc"]),
    (2, Made::Sys, &["/sys"]),
    (
        5,
        Made::Memory,
        &["/dev", "/dev/shm", "/run", "/run/lock", "/tmp", "/var/tmp", "/sys/fs/cgroup", "/run/user"],
    ),
    (6, Made::Terminals, &["/dev/pts"]),
    (14, Made::Queues, &["/dev/mqueue"]),
];

/// Checks the mount table and gives back what it shows.
pub(super) fn check(images: &Images, expected: &Expectations, findings: &mut Findings) -> View {
    let mut tables = images.numbered("mountpoints");
    let table = tables.next();
    if tables.next().is_some() {
        findings.add("there are several mount tables");
    }
    let Some((number, mounts)) = table.filter(|_| expected.boxed) else {
        if expected.boxed || table.is_some() {
            findings.add("the mount table is not that of a session");
        }
        let place = Place::Machine(expected.root.clone());
        return View { mounts: vec![Mount { id: u64::MAX, inside: PathBuf::from("/"), place }] };
    };
    let own = images
        .of("pstree")
        .first()
        .and_then(|root| images.first(&format!("ids-{}", root.number(1)?)).and_then(|ids| ids.number(9)));
    if own.is_none_or(|own| own.to_string() != number) {
        findings.add(format!("mountpoints-{number} is not the session's mount table"));
    }
    let mut view = View { mounts: Vec::new() };
    for mount in mounts {
        let inside = path(mount.bytes(7));
        match place(mount, &inside, expected) {
            Ok(place) => {
                let id = mount.number(2).unwrap_or(0);
                if view.mounts.iter().any(|other| other.id == id || other.inside == inside) {
                    findings.add(format!("there are two mounts at `{}`", inside.display()));
                }
                view.mounts.push(Mount { id, inside, place });
            }
            Err(fault) => findings.add(format!("the mount at `{}` {fault}", inside.display())),
        }
    }
    if !view.mounts.iter().any(|mount| mount.inside == Path::new("/")) {
        findings.add("there is no root mount");
    }
    view
}

fn place(mount: &Message, inside: &Path, expected: &Expectations) -> Result<Place, String> {
    if !is_plain(inside) {
        return Err("has no plain path".to_owned());
    }
    for (field, what) in [(12, "asks for a plugin"), (13, "is external in an old way"), (16, "is deleted")] {
        if mount.number(field).unwrap_or(0) != 0 {
            return Err(what.to_owned());
        }
    }
    if mount.number(10).unwrap_or(0) != 0 || mount.number(11).unwrap_or(0) != 0 {
        return Err("is shared with others".to_owned());
    }
    let key = mount.bytes(18);
    if !key.is_empty() {
        let known = expected.mounts.iter().find(|known| known.key.as_bytes() == key);
        return match known {
            Some(known) if known.inside == inside => Ok(Place::Machine(known.source.clone())),
            Some(_) => Err("is not where this external mount belongs".to_owned()),
            None => Err(format!("has the external key `{}` that nobody gave", String::from_utf8_lossy(key))),
        };
    }
    if inside == Path::new("/") {
        return Ok(Place::Machine(expected.root.clone()));
    }
    let kind = mount.number(1).unwrap_or(0);
    let Some((_, made, places)) = OWN_PLACES.iter().find(|(number, ..)| *number == kind) else {
        return Err(format!("is of a kind ({kind}) that no session has"));
    };
    if !places.iter().any(|place| Path::new(place) == inside) {
        return Err("is not where a session has one".to_owned());
    }
    if mount.bytes(6) != b"/" {
        return Err(format!("shows `{}` of another mount", String::from_utf8_lossy(mount.bytes(6))));
    }
    // without it CRIU would lend the terminals of the machine
    let options = mount.bytes(9);
    if *made == Made::Terminals && !options.split(|byte| *byte == b',').any(|option| option == b"newinstance")
    {
        return Err("is not an instance of its own".to_owned());
    }
    Ok(Place::Own(*made))
}

impl View {
    /// What is at `inside` (a plain absolute path), and the rest of the path below that mount.
    pub(super) fn place(&self, inside: &Path) -> Option<(&Place, PathBuf)> {
        self.mount_of(inside)
            .and_then(|mount| Some((&mount.place, inside.strip_prefix(&mount.inside).ok()?.to_owned())))
    }

    /// Whether CRIU, which goes by the mount's number, ends up where the path says.
    pub(super) fn agrees(&self, inside: &Path, number: Option<u64>) -> bool {
        match (self.mount_of(inside), number.map(u64::cast_signed)) {
            (Some(mount), Some(number)) if number >= 0 => {
                mount.id == number.cast_unsigned() || mount.id == u64::MAX
            }
            (Some(mount), _) => mount.id == u64::MAX,
            (None, _) => false,
        }
    }

    /// Whether two paths are in the same mount.
    pub(super) fn same_mount(&self, one: &Path, other: &Path) -> bool {
        match (self.mount_of(one), self.mount_of(other)) {
            (Some(one), Some(other)) => one.id == other.id,
            _ => false,
        }
    }

    fn mount_of(&self, inside: &Path) -> Option<&Mount> {
        self.mounts
            .iter()
            .filter(|mount| inside.starts_with(&mount.inside))
            .max_by_key(|mount| mount.inside.components().count())
    }
}

/// A path as CRIU has it.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Absolute, and without a step up.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}
