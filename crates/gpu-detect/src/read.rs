//! Reading processes.
//!
//! Almost every process has nothing to do with a GPU, so each is looked at in two steps. The *glance* reads `maps` once and
//! follows the links in `fd`; a process with no file of interest in either is done. Only of the others are the environment,
//! the threads, the sockets and so on read. A glance costs some 40 µs for a small process, and 1 to 2 ms for one with 2,000 mappings
//! and 500 descriptors; nearly all of it is the kernel's, so nothing is read twice and every read goes through one buffer.
//!
//! A process is pinned by a descriptor of its directory: if it ends and its number is given to another, reads fail instead of
//! telling of the other.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use base::proc::{self, Mapping, Stat};
use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat, readlinkat_raw};
use rustix::io::Errno;

use crate::error::{DetectError, Result};
use crate::object::Object;
use crate::seen::{Seen, SeenFile, SeenMapping};
use crate::text;

/// The kernel gives `maps` a page at a time, however much is asked for; small files come at once.
const PIECE: usize = 16 << 10;

/// The directory of all processes.
pub(crate) struct Proc {
    path: PathBuf,
    dir: OwnedFd,
}

/// Memory that is used again and again.
pub(crate) struct Buffers {
    text: Vec<u8>,
    names: Vec<MaybeUninit<u8>>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { text: Vec::with_capacity(PIECE), names: vec![MaybeUninit::uninit(); PIECE] }
    }
}

/// One process's directory.
pub(crate) struct Process {
    pub(crate) pid: i32,
    path: PathBuf,
    dir: OwnedFd,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Proc {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let dir = openat(CWD, path, DIRECTORY, Mode::empty())
            .map_err(|errno| DetectError::io("open", path)(errno.into()))?;
        Ok(Self { path: path.to_path_buf(), dir })
    }

    /// The numbers of all processes.
    pub(crate) fn pids(&self, buffers: &mut Buffers) -> Result<Vec<i32>> {
        numbers(&self.dir, &mut buffers.names)
            .map_err(|errno| DetectError::io("list", &self.path)(errno.into()))
    }

    pub(crate) fn process(&self, pid: i32) -> Result<Process> {
        let name = pid.to_string();
        let dir = openat(&self.dir, name.as_str(), DIRECTORY, Mode::empty());
        let dir = dir.map_err(|errno| DetectError::of_process(pid, self.path.join(&name), errno.into()))?;
        Ok(Process { pid, path: self.path.join(name), dir })
    }
}

impl Process {
    /// Its mappings and descriptors that matter.
    pub(crate) fn glance(&self, buffers: &mut Buffers) -> Result<Seen> {
        let mut seen = Seen { pid: self.pid, ..Seen::default() };
        self.read("maps", &mut buffers.text)?;
        for (line, path) in proc::with_file(&buffers.text) {
            let Some(object) = Object::of(path) else { continue };
            if object.is_library() && seen.maps(object) {
                continue;
            }
            seen.mappings.extend(Mapping::parse(line).map(|mapping| SeenMapping {
                object,
                start: mapping.start,
                end: mapping.end,
                permissions: mapping.permissions_text(),
                offset: mapping.offset,
                path: lossy(mapping.path),
            }));
        }
        self.descriptors(buffers, &mut seen)?;
        Ok(seen)
    }

    fn descriptors(&self, buffers: &mut Buffers, seen: &mut Seen) -> Result<()> {
        let fail = |errno: Errno| DetectError::of_process(self.pid, self.path.join("fd"), errno.into());
        let dir = openat(&self.dir, "fd", DIRECTORY, Mode::empty()).map_err(fail)?;
        let mut entries = RawDir::new(&dir, &mut buffers.names);
        // Longer targets than this are cut; nothing of interest is as long.
        let mut target = [0u8; 512];
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(fail)?;
            let Some(number) = number(entry.file_name().to_bytes()) else { continue };
            // It may have been closed since it was listed.
            let Ok(len) = readlinkat_raw(&dir, entry.file_name(), &mut target[..]) else { continue };
            let path = &target[..len];
            if let Some(object) = Object::of(path) {
                seen.files.push(SeenFile { object, number, path: lossy(path) });
            }
        }
        seen.files.sort_by_key(|file| file.number);
        Ok(())
    }

    /// The rest, for a process that matters. What cannot be read any more is left out: the process has ended or replaced its
    /// program, and the glance stands.
    pub(crate) fn closer_look(&self, seen: &mut Seen, buffers: &mut Buffers) {
        if let Ok(status) = self.status(buffers) {
            (seen.comm, seen.parent) = (status.name, status.parent);
        }
        if self.read("environ", &mut buffers.text).is_ok() {
            seen.environment = text::environment(&buffers.text);
        }
        if self.read("cgroup", &mut buffers.text).is_ok() {
            seen.cgroup = text::cgroup(&buffers.text);
        }
        seen.threads = self.thread_names(buffers);
        let held: Vec<u64> = seen.files.iter().filter_map(|file| file.object.socket()).collect();
        let service = seen.service_directory().map(str::to_owned);
        if (service.is_some() || !held.is_empty()) && self.read("net/unix", &mut buffers.text).is_ok() {
            for socket in text::unix_sockets(&buffers.text) {
                if is_below(&socket.name, service.as_deref().unwrap_or("/tmp/nvidia-mps")) {
                    seen.services.push(socket.name.clone());
                }
                if held.contains(&socket.inode) {
                    seen.sockets.push(socket.name);
                }
            }
        }
    }

    pub(crate) fn status(&self, buffers: &mut Buffers) -> Result<text::Status> {
        self.read("status", &mut buffers.text)?;
        Ok(text::Status::parse(&buffers.text))
    }

    pub(crate) fn parent(&self, buffers: &mut Buffers) -> Result<Option<i32>> {
        self.read("stat", &mut buffers.text)?;
        Ok(Stat::parent_in(&buffers.text))
    }

    /// Its children, by the kernel's own list; `None` where the kernel keeps none.
    pub(crate) fn children(&self, buffers: &mut Buffers) -> Option<Vec<i32>> {
        let mut children = Vec::new();
        for thread in self.threads(buffers) {
            match self.read(&format!("task/{thread}/children"), &mut buffers.text) {
                Ok(()) => children.extend(proc::numbers(&String::from_utf8_lossy(&buffers.text))),
                // The leader cannot vanish before its process: the file is not there at all.
                Err(DetectError::NoProcess { .. }) if thread == self.pid => return None,
                Err(_) => {}
            }
        }
        Some(children)
    }

    fn threads(&self, buffers: &mut Buffers) -> Vec<i32> {
        let Ok(dir) = openat(&self.dir, "task", DIRECTORY, Mode::empty()) else { return Vec::new() };
        numbers(&dir, &mut buffers.names).unwrap_or_default()
    }

    /// The leader's name comes first.
    fn thread_names(&self, buffers: &mut Buffers) -> Vec<String> {
        let mut threads = self.threads(buffers);
        threads.sort_by_key(|thread| (*thread != self.pid, *thread));
        let mut names = Vec::with_capacity(threads.len());
        for thread in threads {
            if self.read(&format!("task/{thread}/comm"), &mut buffers.text).is_ok() {
                names.push(lossy(buffers.text.trim_ascii_end()));
            }
        }
        names
    }

    fn read(&self, name: &str, into: &mut Vec<u8>) -> Result<()> {
        let fail = |errno: Errno| DetectError::of_process(self.pid, self.path.join(name), errno.into());
        into.clear();
        let file =
            openat(&self.dir, name, OFlags::RDONLY.union(OFlags::CLOEXEC), Mode::empty()).map_err(fail)?;
        loop {
            if into.capacity() - into.len() < PIECE {
                into.reserve(into.len().max(PIECE));
            }
            match rustix::io::read(&file, spare_capacity(into)) {
                Ok(0) => return Ok(()),
                Ok(_) if into.len() as u64 > proc::LONGEST => {
                    let error = io::Error::other("it is larger than any process makes it");
                    return Err(DetectError::io("read", self.path.join(name))(error));
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(fail(errno)),
            }
        }
    }
}

fn numbers(dir: impl AsFd, buffer: &mut [MaybeUninit<u8>]) -> Result<Vec<i32>, Errno> {
    let mut found = Vec::new();
    let mut entries = RawDir::new(dir, buffer);
    while let Some(entry) = entries.next() {
        found.extend(number(entry?.file_name().to_bytes()));
    }
    found.sort_unstable();
    Ok(found)
}

fn number(name: &[u8]) -> Option<i32> {
    name.first().filter(|first| first.is_ascii_digit())?;
    str::from_utf8(name).ok()?.parse().ok()
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
