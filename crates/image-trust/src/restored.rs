//! A second look, after CRIU has done its work and before the session runs a single instruction.
//!
//! Between the check of a path and CRIU's opening it, the owner of a directory on the way can put something else there. So
//! when everything is restored and still stopped (CRIU calls it *pre-resume*), what is really open is compared with what the
//! user can reach: each descriptor, mapping, working directory and program is looked up once more by its path, as the user,
//! in the session's own view, and must be the very same inode. What has no name any more must be the user's own.
//! Credentials and namespaces are read back from `/proc` too: this does not rest on our understanding of the images.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::proc::Mapping;
use rustix::fs::FileType;
use sandbox::User;

use crate::people::is_group;
use crate::reach::{self, Need};
use crate::{Findings, procfs};

/// Descriptors without a path that a session may hold.
const ANONYMOUS: [&str; 6] = ["eventfd", "eventpoll", "inotify", "signalfd", "timerfd", "pidfd"];
const PROC_MAGIC: i64 = 0x9fa0;
const TMPFS_MAGIC: i64 = 0x0102_1994;
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;
const SYSFS_MAGIC: i64 = 0x6265_6572;

/// What is looked at once: the same inode, under the same path, for the same use. The path alone would not do: a second process may
/// hold something else under it.
type Key = (u64, u64, PathBuf, Need);

/// Something that a restored process holds.
struct Held {
    what: String,
    link: PathBuf,
    file: OwnedFd,
    need: Need,
}

pub(crate) fn check(init: i32, user: &User, findings: &mut Findings) -> sandbox::Result<()> {
    let mut held = BTreeMap::new();
    for pid in sandbox::process::tree(init)?.iter().map(|one| one.pid) {
        if let Err(error) = process(pid, user, findings, &mut held) {
            findings.add(format!("process {pid} cannot be examined ({error})"));
        }
    }
    let root = match reach::open_base(Path::new(&format!("/proc/{init}/root"))) {
        Ok(root) => root,
        Err(error) => {
            findings.add(format!("the root of process {init} cannot be opened ({error})"));
            return Ok(());
        }
    };
    let faults = sandbox::as_user(user, || {
        held.values()
            .filter_map(|one| may_hold(one, &root, user).err().map(|fault| format!("{} {fault}", one.what)))
            .collect::<Vec<_>>()
    })?;
    for fault in faults {
        findings.add(fault);
    }
    Ok(())
}

fn process(pid: i32, user: &User, findings: &mut Findings, held: &mut BTreeMap<Key, Held>) -> io::Result<()> {
    let proc = PathBuf::from(format!("/proc/{pid}"));
    let status = fs::read_to_string(proc.join("status"))?;
    if status.lines().any(|line| line.starts_with("State:\tZ")) {
        return Ok(());
    }
    for task in fs::read_dir(proc.join("task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        for fault in credentials(&status, user) {
            findings.add(format!("process {pid} {fault}"));
        }
    }
    for namespace in ["user", "pid", "mnt", "ipc"] {
        let (own, ours) = (
            fs::read_link(proc.join("ns").join(namespace))?,
            fs::read_link(Path::new("/proc/self/ns").join(namespace))?,
        );
        if own != ours {
            findings.add(format!("process {pid} is in a {namespace} namespace where it does not belong"));
        }
    }
    let mut hold = |link: PathBuf, through: PathBuf, what: String, need: Need| -> io::Result<()> {
        let file = reach::open_base(&through)?;
        let stat = rustix::fs::fstat(&file)?;
        held.entry((stat.st_dev, stat.st_ino, link.clone(), need)).or_insert(Held { what, link, file, need });
        Ok(())
    };
    for fd in fs::read_dir(proc.join("fd"))? {
        let fd = fd?;
        let number = fd.file_name().to_string_lossy().into_owned();
        let link = fs::read_link(fd.path())?;
        if let Some(text) = link.to_str().filter(|text| !text.starts_with('/')) {
            let anonymous = text.strip_prefix("anon_inode:").map(|name| name.trim_matches(['[', ']']));
            let plain = text.starts_with("pipe:") || text.starts_with("socket:");
            if !plain && !anonymous.is_some_and(|name| ANONYMOUS.contains(&name)) {
                findings.add(format!("descriptor {number} of process {pid} is {text}"));
            }
            continue;
        }
        let flags = fs::read_to_string(proc.join("fdinfo").join(&number))?;
        let flags =
            flags.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        let flags = flags.unwrap_or(2);
        let looked_at_only = flags & 0o10_000_000 != 0;
        let need = Need {
            read: !looked_at_only && flags & 3 != 1,
            write: !looked_at_only && flags & 3 != 0,
            ..Need::default()
        };
        hold(
            link.clone(),
            fd.path(),
            format!("descriptor {number} of process {pid} (`{}`)", link.display()),
            need,
        )?;
    }
    let maps = base::proc::read(pid, "maps")?.ok_or(io::ErrorKind::NotFound)?;
    for line in maps.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // What cannot be read cannot be trusted.
        let mapping = Mapping::parse(line).ok_or(io::ErrorKind::InvalidData)?;
        let Some(link) = mapping.file() else { continue };
        let need = Need {
            read: true,
            write: mapping.is_shared() && mapping.is_writable(),
            code: mapping.is_executable(),
            ..Need::default()
        };
        let what = format!("a mapping of process {pid} (`{}`)", link.display());
        hold(link, proc.join("map_files").join(mapping.range()), what, need)?;
    }
    let runs = Need { read: true, execute: true, code: true, ..Need::default() };
    let enters = Need { execute: true, ..Need::default() };
    for (name, need) in [("exe", runs), ("cwd", enters), ("root", enters)] {
        let link = fs::read_link(proc.join(name))?;
        hold(link, proc.join(name), format!("{name} of process {pid}"), need)?;
    }
    Ok(())
}

fn credentials(status: &str, user: &User) -> Vec<String> {
    let field = |name: &str| base::proc::field(status, name).unwrap_or_default();
    let mut faults = Vec::new();
    let numbers = |text: &str| {
        text.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX)).collect::<Vec<u64>>()
    };
    if numbers(field("Uid")) != [u64::from(user.uid); 4] {
        faults.push(format!("has the user ids {}", field("Uid")));
    }
    let gids = numbers(field("Gid"));
    if gids.len() != 4 || !gids.iter().all(|gid| is_group(user, *gid)) {
        faults.push(format!("has the group ids {}", field("Gid")));
    }
    if !numbers(field("Groups")).into_iter().all(|group| is_group(user, group)) {
        faults.push(format!("is in the groups {}", field("Groups")));
    }
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        if u64::from_str_radix(field(set), 16) != Ok(0) {
            faults.push(format!("has capabilities ({set} {})", field(set)));
        }
    }
    faults
}

/// Whether this user could hold it. Called as the user.
fn may_hold(held: &Held, root: &OwnedFd, user: &User) -> Result<(), String> {
    let unknown = |error: rustix::io::Errno| format!("cannot be examined ({error})");
    let stat = rustix::fs::fstat(&held.file).map_err(unknown)?;
    let system = rustix::fs::fstatfs(&held.file).map_err(unknown)?.f_type;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if matches!(kind, FileType::CharacterDevice | FileType::BlockDevice) {
        return if reach::is_harmless_device(kind, stat.st_rdev) {
            Ok(())
        } else {
            Err("is a device".to_owned())
        };
    }
    let link = held.link.as_os_str().as_bytes();
    if stat.st_nlink == 0 || link.ends_with(b" (deleted)") {
        let shared = ["/dev/zero", "/memfd:", "/SYSV", "/[aio]", "/anon_hugepage"];
        let nameless = shared.iter().any(|name| link.starts_with(name.as_bytes()));
        let in_memory = [TMPFS_MAGIC, HUGETLBFS_MAGIC].contains(&system);
        let own = stat.st_uid == user.uid && stat.st_mode & 0o6000 == 0;
        return if own || (nameless && in_memory) {
            Ok(())
        } else {
            Err("is a deleted file of somebody else".to_owned())
        };
    }
    let below = held.link.strip_prefix("/").map_err(|_| "has no path".to_owned())?;
    if [PROC_MAGIC, SYSFS_MAGIC].contains(&system) {
        let inside = below.components().skip(1).collect::<PathBuf>();
        let refused = system == PROC_MAGIC && procfs::leads_out(&inside);
        return if refused || held.need.write { Err("is a file of the kernel".to_owned()) } else { Ok(()) };
    }
    match reach::may(root, below, held.need, user)? {
        Some(found) => {
            let found = rustix::fs::fstat(&found).map_err(unknown)?;
            let same = (found.st_dev, found.st_ino) == (stat.st_dev, stat.st_ino);
            if same || stat.st_uid == user.uid {
                Ok(())
            } else {
                Err("is not what its path leads to".to_owned())
            }
        }
        None if stat.st_uid == user.uid => Ok(()),
        None => Err("cannot be found by its path".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_compared() {
        let mut user = User::by_uid(rustix::process::getuid().as_raw()).unwrap();
        (user.uid, user.gid, user.groups) = (1000, 1000, vec![1000, 27]);
        let status = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 1000 \nCapInh:\t0\nCapPrm:\t0\nCapEff:\t0\n\
                      CapAmb:\t0\n";
        assert_eq!(credentials(status, &user), Vec::<String>::new());
        for (from, to) in [("1000\t1000\nGid", "1000\t0\nGid"), ("27 ", "0 "), ("CapEff:\t0", "CapEff:\t1")] {
            assert_eq!(credentials(&status.replace(from, to), &user).len(), 1, "{to}");
        }
    }
}
