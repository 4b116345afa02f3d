//! Which files the processes of a session have open.
//!
//! `/proc/PID/fd` and `/proc/PID/maps` say it. The names there are what the kernel makes of its own directory entries: no
//! link is in them, and they are seen from the process's own root. A name says little, though: the file that it leads to may
//! be another by now. What counts is the inode, and `/proc/PID/fd/N` leads to that one for certain.
//!
//! Only looking is done here, by root. Opening is not.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base::io_error;
use base::proc::{self, Mapping};
use rustix::fs::OFlags;

use super::Places;
use super::access::{Facts, facts_of_magic};
use crate::error::Result;

/// What the kernel adds to the name of something that was deleted.
const DELETED: &[u8] = b" (deleted)";

/// A regular file that a process of the session has open or mapped.
#[derive(Clone, Debug)]
pub struct OpenFile {
    /// As the processes see it; of a deleted one, where it was.
    pub path: PathBuf,
    pub(crate) facts: Facts,
    /// One of the descriptors.
    pub(crate) descriptor: Option<(i32, i32)>,
    /// Open for writing, or mapped so that a write changes the file.
    pub(crate) written: bool,
    /// Mapped so that a write changes the file. Such writes need not change its times.
    pub(crate) mapped_written: bool,
    /// A change of it can be the processes' own doing: they can write anywhere in it, or stand at its end.
    pub(crate) own_end: bool,
    /// Open for appending and in no other way: CRIU lets such a file grow.
    pub(crate) append_only: bool,
    /// The name that it was opened by is gone.
    pub(crate) deleted: bool,
}

/// What the processes have open.
#[derive(Debug)]
pub(crate) struct Open {
    /// Open by a descriptor, or mapped for writing. Each once.
    pub(crate) files: Vec<OpenFile>,
    /// Mapped in other ways: programs, libraries, data. Name and inode number.
    pub(crate) mapped: BTreeSet<(PathBuf, u64)>,
}

/// Looks at all of them. This is done during the freeze, so of the many libraries no more than the name is noted.
pub(crate) fn look(pids: &[i32], places: &Places) -> Result<Open> {
    let mut found = Found { places, files: BTreeMap::new(), mapped: BTreeSet::new() };
    for &pid in pids {
        let directory = PathBuf::from(format!("/proc/{pid}"));
        found.descriptors(pid, &directory).map_err(io_error("read", directory.join("fd")))?;
        found.mappings(pid, &directory).map_err(io_error("read", directory.join("maps")))?;
    }
    Ok(Open { files: found.files.into_values().collect(), mapped: found.mapped })
}

/// What a mapped file looks like, if it is still the one that was mapped.
pub(crate) fn facts_of_mapped(path: &Path, ino: u64, places: &Places) -> Option<Facts> {
    let facts = facts_of_magic(&host_path(places, path)?).ok()?;
    (facts.is_file() && facts.ino == ino).then_some(facts)
}

/// Where the processes are. A directory that is gone is CRIU's to make again.
pub(crate) fn working_directories(pids: &[i32]) -> Vec<PathBuf> {
    let links = pids.iter().filter_map(|pid| fs::read_link(format!("/proc/{pid}/cwd")).ok());
    let mut paths: Vec<PathBuf> =
        links.filter(|path| !path.as_os_str().as_bytes().ends_with(DELETED)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

struct Found<'a> {
    places: &'a Places,
    files: BTreeMap<((u32, u32), u64, PathBuf), OpenFile>,
    mapped: BTreeSet<(PathBuf, u64)>,
}

impl Found<'_> {
    fn descriptors(&mut self, pid: i32, directory: &Path) -> io::Result<()> {
        // A process that ended meanwhile has nothing open.
        for (fd, name) in proc::descriptors(pid)?.unwrap_or_default() {
            let link = directory.join("fd").join(fd.to_string());
            // `socket:[7]`, `/dev/null` and the like.
            if self.places.spot(&name).is_none() {
                continue;
            }
            let Ok(facts) = facts_of_magic(&link) else { continue };
            if !facts.is_file() {
                continue;
            }
            // A descriptor may be closed while we look, unless the process is frozen.
            let Ok(Some(info)) = proc::read_text(pid, &format!("fdinfo/{fd}")) else { continue };
            let flags = flags_in(&info);
            if flags.contains(OFlags::PATH) {
                continue;
            }
            let access = flags & OFlags::RWMODE;
            let written = access == OFlags::WRONLY || access == OFlags::RDWR;
            let append_only = access == OFlags::WRONLY && flags.contains(OFlags::APPEND);
            // Read after the size: what was written in between makes the position greater, never smaller.
            let at_end = proc::number_of(&info, "pos") >= Some(facts.size);
            let own_end = access == OFlags::RDWR || (written && at_end);
            let descriptor = Some((pid, fd));
            let flags = OpenFlags { descriptor, written, mapped_written: false, append_only, own_end };
            self.add(name, facts, flags);
        }
        Ok(())
    }

    fn mappings(&mut self, pid: i32, directory: &Path) -> io::Result<()> {
        let maps = proc::read(pid, "maps")?.unwrap_or_default();
        let mut last = None;
        for mapping in proc::with_file(&maps).filter_map(|(line, _)| Mapping::parse(line)) {
            let written = mapping.is_shared() && mapping.is_writable();
            let key = (mapping.inode, mapping.path, written);
            // A library has several mappings, one after the other.
            if last.replace(key) == Some(key) {
                continue;
            }
            let Some(name) = mapping.file() else { continue };
            if self.places.spot(&name).is_none() {
                continue;
            }
            if !written {
                self.mapped.insert((name, mapping.inode));
                continue;
            }
            let by_range = directory.join("map_files").join(mapping.range());
            let facts = facts_of_magic(&by_range).ok().or_else(|| {
                let seen = facts_of_magic(&directory.join("root").join(name.strip_prefix("/").ok()?)).ok();
                seen.filter(|facts| facts.ino == mapping.inode)
            });
            let Some(facts) = facts.filter(Facts::is_file) else { continue };
            let flags = OpenFlags {
                descriptor: None,
                written,
                mapped_written: true,
                append_only: false,
                own_end: true,
            };
            self.add(name, facts, flags);
        }
        Ok(())
    }

    fn add(&mut self, name: PathBuf, facts: Facts, flags: OpenFlags) {
        let (path, deleted) = self.true_name(name, &facts);
        // Without any name it is CRIU's to keep. So is what is in the box's own directories.
        if facts.nlink == 0 || self.places.spot(&path).is_none() {
            return;
        }
        let OpenFlags { descriptor, written, mapped_written, append_only, own_end } = flags;
        self.files
            .entry((facts.device, facts.ino, path.clone()))
            .and_modify(|file| {
                file.append_only &= append_only;
                file.written |= written;
                file.mapped_written |= mapped_written;
                file.own_end |= own_end;
                file.descriptor = file.descriptor.or(descriptor);
            })
            .or_insert(OpenFile {
                path,
                facts,
                descriptor,
                written,
                mapped_written,
                own_end,
                append_only,
                deleted,
            });
    }

    /// The kernel adds a word to the name of a file that was deleted. A file can also have that word in its name.
    fn true_name(&self, name: PathBuf, facts: &Facts) -> (PathBuf, bool) {
        let Some(bare) = name.as_os_str().as_bytes().strip_suffix(DELETED) else { return (name, false) };
        let is_its_name = host_path(self.places, &name).is_some_and(|path| {
            facts_of_magic(&path).is_ok_and(|found| (found.device, found.ino) == (facts.device, facts.ino))
        });
        if is_its_name { (name, false) } else { (PathBuf::from(OsString::from_vec(bare.to_vec())), true) }
    }
}

fn host_path(places: &Places, path: &Path) -> Option<PathBuf> {
    let spot = places.spot(path)?;
    match spot.base {
        super::Base::Root => Some(Path::new("/").join(spot.below)),
        super::Base::Workspace => places.workspace.as_ref().map(|(_, outside)| outside.join(spot.below)),
    }
}

struct OpenFlags {
    descriptor: Option<(i32, i32)>,
    written: bool,
    mapped_written: bool,
    append_only: bool,
    own_end: bool,
}

fn flags_in(info: &str) -> OFlags {
    let bits = proc::field(info, "flags").and_then(|text| u32::from_str_radix(text, 8).ok());
    OFlags::from_bits_retain(bits.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::Stdio;

    use super::*;
    use crate::testing::{Holder, Home};

    #[test]
    fn flags_are_octal() {
        assert_eq!(flags_in("pos:\t0\nflags:\t0102001\n") & OFlags::RWMODE, OFlags::WRONLY);
        assert!(flags_in("flags:\t0102001\n").contains(OFlags::APPEND));
        assert_eq!(flags_in("nothing"), OFlags::empty());
    }

    #[test]
    fn each_file_is_found_once_with_how_it_is_open() {
        let home = Home::new();
        let log = home.write("work/log", "x");
        let both = home.write("work/both", "y");
        let append = || fs::OpenOptions::new().append(true).open(&log).unwrap();
        let one = Holder::new(&home, File::open(&both).unwrap(), append());
        let two = Holder::new(&home, Stdio::null(), fs::OpenOptions::new().write(true).open(&both).unwrap());
        let gone = i32::MAX;
        let Open { files: found, mapped } = look(&[one.pid(), two.pid(), gone], &home.places).unwrap();
        let find = |path: &Path| found.iter().filter(|file| file.path == path).collect::<Vec<_>>();
        let [file] = find(&log)[..] else { panic!("{found:?}") };
        assert!(file.written && file.append_only && !file.deleted && !file.mapped_written);
        let [file] = find(&both)[..] else { panic!("{found:?}") };
        assert!(file.written && !file.append_only);
        // The program itself is mapped.
        let program = mapped.iter().find(|(path, _)| path.ends_with("sleep") || path.ends_with("coreutils"));
        let (path, ino) = program.unwrap();
        assert_eq!(facts_of_mapped(path, *ino, &home.places).unwrap().ino, *ino);
        assert!(facts_of_mapped(path, ino + 1, &home.places).is_none());
        assert!(found.iter().all(|file| !file.path.starts_with("/dev")));
    }

    #[test]
    fn deleted_files_are_told_from_files_that_are_called_deleted() {
        let home = Home::new();
        let called = home.write("work/x (deleted)", "there");
        let deleted = home.write("work/y", "gone");
        let without = home.write("work/z", "gone and without another name");
        fs::hard_link(&deleted, home.path("work/y2")).unwrap();
        let open = |path: &Path| fs::OpenOptions::new().write(true).open(path).unwrap();
        let one = Holder::new(&home, open(&called), open(&deleted));
        let two = Holder::new(&home, Stdio::null(), open(&without));
        fs::remove_file(&deleted).unwrap();
        fs::remove_file(&without).unwrap();
        let found = look(&[one.pid(), two.pid()], &home.places).unwrap().files;
        let state = |path: &Path| found.iter().find(|file| file.path == path).map(|file| file.deleted);
        assert_eq!(state(&called), Some(false));
        assert_eq!(state(&deleted), Some(true));
        assert_eq!(state(&without), None);
    }
}
