//! Reading `/proc`.
//!
//! One reader for all: what a file there looks like is written down once, in the module that is named after it. A process may end at any
//! moment, which is no error for anyone who looks: files of a process are read as an `Option`, `None` when it is gone. What a process
//! can make the kernel write (its name, its mappings, its environment) may hold any bytes and have any length, so every read is
//! bounded, and nothing here panics over it.
//!
//! Whoever must be sure to read about *one* process, whatever becomes of its number, opens its directory once and reads through that
//! (`gpu-detect/src/read.rs`, `checkpoint-cuda/src/helper/target.rs`); what was read is understood here all the same.

mod cgroup;
mod cgroups;
mod held;
mod maps;
mod memory;
mod mountinfo;
mod stat;
mod status;
mod tcp;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use cgroup::{Membership, memberships};
pub use cgroups::{Cgroup, Version as CgroupVersion, cgroups_of};
pub use held::{Hold, Holds, holds};
pub use maps::{Mapping, with_file};
pub use memory::{MachineMemory, amount_in_bytes, resident_bytes};
pub use mountinfo::{Mount, mounts_in};
pub use stat::Stat;
pub use status::{field, number_of, numbers_of};
pub use tcp::listening;

/// No environment, list of sockets or of mappings that a sane process has is larger.
pub const LONGEST: u64 = 256 << 20;

/// `/proc/PID/NAME`.
pub fn path(pid: i32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// A file of a process; `None` if the process has ended.
pub fn read(pid: i32, name: &str) -> io::Result<Option<Vec<u8>>> {
    of_process(pid, read_file(&path(pid, name)))
}

/// A file of a process as text; what is no UTF-8 in it is replaced.
pub fn read_text(pid: i32, name: &str) -> io::Result<Option<String>> {
    Ok(read(pid, name)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// A file of ours or of the machine as text, such as `/proc/meminfo`.
pub fn read_text_at(path: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_file(path)?).into_owned())
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One more than may be: to tell a file that is too long from one that is just as long.
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than any process makes it"));
    }
    Ok(bytes)
}

/// A process that has ended is nothing, not an error.
pub fn unless_ended<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if has_ended(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The same for a file of a process, which belongs to root as soon as the process has no memory any more: that an ordinary user may not read
/// it then says that the process is ending, and nothing else.
fn of_process<T>(pid: i32, result: io::Result<T>) -> io::Result<Option<T>> {
    match unless_ended(result) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_ending(pid) => Ok(None),
        result => result,
    }
}

fn is_ending(pid: i32) -> bool {
    // Everybody may read this file, so it does not come back here.
    Stat::of(pid).is_ok_and(|stat| stat.is_none_or(|stat| stat.is_over() || stat.is_dying))
}

/// Whether an error means that the process has ended: its directory is gone, or was when the file was read.
pub fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The numbers of all processes, in no order.
pub fn pids() -> io::Result<Vec<i32>> {
    numbers_in(Path::new("/proc"))
}

/// The numbers of a process's threads, in no order; `None` if it has ended.
pub fn threads(pid: i32) -> io::Result<Option<Vec<i32>>> {
    of_process(pid, numbers_in(&path(pid, "task")))
}

/// A process's descriptors and where each leads (`/home/a`, `socket:[7]`, `anon_inode:[eventpoll]`), in no order; `None` if it has
/// ended. One that is closed meanwhile is left out.
pub fn descriptors(pid: i32) -> io::Result<Option<Vec<(i32, PathBuf)>>> {
    let directory = path(pid, "fd");
    let Some(numbers) = of_process(pid, numbers_in(&directory))? else { return Ok(None) };
    let target = |fd: i32| Some((fd, fs::read_link(directory.join(fd.to_string())).ok()?));
    Ok(Some(numbers.into_iter().filter_map(target).collect()))
}

/// The children of a process, by the lists that each of its threads has. `None` if there are no such lists: the kernel can be built
/// without them, and then only a look at all processes tells.
pub fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for thread in threads(pid).ok()?? {
        found.extend(numbers(&read_text(pid, &format!("task/{thread}/children")).ok()??));
    }
    Some(found)
}

/// The numbers in a list with blanks between them, such as `/proc/PID/task/TID/children`.
pub fn numbers(text: &str) -> impl Iterator<Item = i32> {
    text.split_ascii_whitespace().filter_map(|number| number.parse().ok()).filter(|number| *number > 0)
}

fn numbers_in(directory: &Path) -> io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        i32::try_from(std::process::id()).expect("pids fit")
    }

    #[test]
    fn this_process_is_there_with_its_threads_and_files() {
        assert!(pids().unwrap().contains(&own()));
        assert!(threads(own()).unwrap().unwrap().contains(&own()));
        let file = File::open("/proc/self/status").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&file);
        let found = descriptors(own()).unwrap().unwrap();
        let (_, target) = found.iter().find(|(fd, _)| *fd == number).expect("it is open");
        assert!(target.ends_with("status"), "{}", target.display());
        assert!(read_text(own(), "status").unwrap().unwrap().contains("Tgid:"));
    }

    #[test]
    fn a_child_is_listed_until_it_is_collected_and_then_nothing_is_there() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        if let Some(children) = children(own()) {
            assert!(children.contains(&pid));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read(pid, "stat").unwrap(), None);
        assert_eq!(threads(pid).unwrap(), None);
        assert_eq!(descriptors(pid).unwrap(), None);
        assert_eq!(Stat::of(pid).unwrap(), None);
    }

    #[test]
    fn one_that_has_ended_and_was_not_collected_is_nothing_to_its_own_user_either() {
        use std::os::unix::process::CommandExt;
        let nobody = 65_534;
        let mut child = std::process::Command::new("true");
        if rustix::process::geteuid().is_root() {
            child.uid(nobody);
        }
        let mut child = child.spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !Stat::of(pid).unwrap().unwrap().is_over() {
            std::thread::yield_now();
        }
        let seen = std::thread::spawn(move || {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(nobody);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            descriptors(pid)
        });
        assert_eq!(seen.join().unwrap().unwrap(), None);
        child.wait().unwrap();
    }

    #[test]
    fn a_file_without_an_end_is_refused() {
        assert_eq!(read_text_at(Path::new("/dev/zero")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn lists_of_children_are_read() {
        assert_eq!(numbers("12 13 \n").collect::<Vec<_>>(), [12, 13]);
        assert_eq!(numbers("-1 0 x").count(), 0);
    }
}
