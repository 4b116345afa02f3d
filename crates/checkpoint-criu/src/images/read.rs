//! From a directory of image files to messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use prost::Message;

use super::entries::{Entries, MAX_IMAGE, MAX_PAGEMAP, all, magic, one, pagemap, read_head, read_whole};
use super::{
    Core, DumpStats, Fd, FileEntry, FileFrame, FileKind, FileSort, Fs, Ghost, GhostFile, Ids, Inventory,
    MemfdInode, Mm, Mountpoint, Pagemap, PstreeEntry, Remap, Seccomp, Stats, TtyInfo, UserNamespace,
};
use crate::error::{CriuError, Result};

/// A directory of images, or images that were read from elsewhere.
#[derive(Clone, Debug)]
pub struct Images {
    dir: PathBuf,
    /// Contents by name; `None` if they are in `dir`.
    held: Option<BTreeMap<String, Vec<u8>>>,
}

impl Images {
    /// The images in `dir`, which must have an inventory.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self> {
        let images = Self { dir: dir.into(), held: None };
        images.inventory()?;
        Ok(images)
    }

    /// Images that are in memory already, by their names; not all of a dump need be there. `origin` is for errors.
    pub fn in_memory(origin: impl Into<PathBuf>, images: BTreeMap<String, Vec<u8>>) -> Self {
        Self { dir: origin.into(), held: Some(images) }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Names of all files in the directory, sorted.
    pub fn names(&self) -> Result<Vec<OsString>> {
        if let Some(held) = &self.held {
            return Ok(held.keys().map(OsString::from).collect());
        }
        let entries = fs::read_dir(&self.dir).map_err(CriuError::io("list", &self.dir))?;
        let mut names = Vec::new();
        for entry in entries {
            names.push(entry.map_err(CriuError::io("list", &self.dir))?.file_name());
        }
        names.sort();
        Ok(names)
    }

    /// About the dump as a whole.
    pub fn inventory(&self) -> Result<Inventory> {
        self.one("inventory.img", magic::INVENTORY)
    }

    /// The processes.
    pub fn pstree(&self) -> Result<Vec<PstreeEntry>> {
        self.all("pstree.img", magic::PSTREE)
    }

    /// The thread `tid`; a process by its pid.
    pub fn core(&self, tid: u32) -> Result<Core> {
        self.one(&format!("core-{tid}.img"), magic::CORE)
    }

    /// What the process `pid` shares with others, and its namespaces.
    pub fn ids(&self, pid: u32) -> Result<Ids> {
        self.one(&format!("ids-{pid}.img"), magic::IDS)
    }

    /// The address space of the process `pid`.
    pub fn mm(&self, pid: u32) -> Result<Mm> {
        self.one(&format!("mm-{pid}.img"), magic::MM)
    }

    /// The names of the images of all address spaces.
    pub(super) fn address_spaces(&self) -> Result<Vec<String>> {
        Ok(self.numbered("mm-", 10)?.into_iter().map(|(_, name)| name).collect())
    }

    /// Working directory and root of the process `pid`.
    pub fn fs(&self, pid: u32) -> Result<Fs> {
        self.one(&format!("fs-{pid}.img"), magic::FS)
    }

    /// The descriptors of a table of descriptors: [`Ids::files`].
    pub fn fdinfo(&self, files_id: u32) -> Result<Vec<Fd>> {
        self.all(&format!("fdinfo-{files_id}.img"), magic::FDINFO)
    }

    /// Which pages of the process `pid` are in which pages file.
    pub fn pagemap(&self, pid: u32) -> Result<Pagemap> {
        self.pagemap_of(&format!("pagemap-{pid}.img"))
    }

    /// The same for each segment of shared memory, by its number.
    pub fn shmem_pagemaps(&self) -> Result<Vec<(u64, Pagemap)>> {
        let mut maps = Vec::new();
        for (number, name) in self.numbered("pagemap-shmem-", 10)? {
            maps.push((number, self.pagemap_of(&name)?));
        }
        Ok(maps)
    }

    /// Everything that has a descriptor, or is mapped, or is a working directory.
    pub fn files(&self) -> Result<Vec<FileEntry>> {
        let path = self.dir.join("files.img");
        let frames: Vec<FileFrame> = self.all("files.img", magic::FILES)?;
        frames.into_iter().map(|frame| file_entry(&path, frame)).collect()
    }

    /// Paths of the regular files that processes have open by a descriptor. Mapped libraries are not among them: nobody writes to those.
    pub fn open_regular_files(&self) -> Result<Vec<PathBuf>> {
        let mut open = BTreeSet::new();
        for process in self.pstree()? {
            // A zombie has no descriptors, and no image that would list them.
            let Ok(ids) = self.ids(process.pid) else { continue };
            open.extend(self.fdinfo(ids.files)?.into_iter().map(|fd| fd.id));
        }
        let files = self.files()?;
        let regular = |file: &FileEntry| match &file.kind {
            FileKind::Reg(regular) => Some(regular.path().to_owned()),
            _ => None,
        };
        Ok(files.iter().filter(|file| open.contains(&file.id)).filter_map(regular).collect())
    }

    /// The mounts of each mount namespace, by its number.
    pub fn mountpoints(&self) -> Result<Vec<(u32, Vec<Mountpoint>)>> {
        let mut namespaces = Vec::new();
        for (number, name) in self.numbered("mountpoints-", 10)? {
            let mounts: Vec<Mountpoint> = self.all(&name, magic::MNTS)?;
            for mount in &mounts {
                let texts = [&mount.root, &mount.mountpoint, &mount.source, &mount.options];
                let more = [&mount.fsname, &mount.ext_key].into_iter().flatten();
                for text in texts.into_iter().chain(more) {
                    no_nul(&self.dir.join(&name), text)?;
                }
            }
            namespaces.push((narrow(&self.dir.join(&name), number)?, mounts));
        }
        Ok(namespaces)
    }

    /// Deleted files whose content is in the images.
    pub fn ghosts(&self) -> Result<Vec<Ghost>> {
        let mut ghosts = Vec::new();
        for (number, name) in self.numbered("ghost-file-", 16)? {
            let path = self.dir.join(&name);
            let head = match &self.held {
                Some(_) => self.read(&name, u64::MAX)?,
                None => read_head(&path, MAX_IMAGE)?,
            };
            let mut entries = Entries::new(&path, &head, magic::GHOST_FILE)?;
            let file: GhostFile =
                entries.next_message()?.ok_or_else(|| CriuError::image(&path, "is empty"))?;
            ghosts.push(Ghost { id: narrow(&path, number)?, file });
        }
        Ok(ghosts)
    }

    /// Files whose name was gone.
    pub fn remaps(&self) -> Result<Vec<Remap>> {
        self.all_or_none("remap-fpath.img", magic::REMAP_FPATH)
    }

    /// The memfds.
    pub fn memfds(&self) -> Result<Vec<MemfdInode>> {
        self.all_or_none("memfd.img", magic::MEMFD_INODE)
    }

    /// The terminals.
    pub fn ttys(&self) -> Result<Vec<TtyInfo>> {
        self.all_or_none("tty-info.img", magic::TTY_INFO)
    }

    /// The seccomp filters.
    pub fn seccomp(&self) -> Result<Option<Seccomp>> {
        Ok(self.all_or_none("seccomp.img", magic::SECCOMP)?.pop())
    }

    /// The user namespaces, by their number.
    pub fn user_namespaces(&self) -> Result<Vec<(u32, UserNamespace)>> {
        let mut namespaces = Vec::new();
        for (number, name) in self.numbered("userns-", 10)? {
            namespaces.push((narrow(&self.dir.join(&name), number)?, self.one(&name, magic::USERNS)?));
        }
        Ok(namespaces)
    }

    /// What the dump took; from a directory only.
    pub fn stats_dump(&self) -> Result<DumpStats> {
        read_stats(&self.dir.join("stats-dump"))
    }

    /// The whole file `name`, if it is not larger than that.
    fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let path = self.dir.join(name);
        match &self.held {
            None => read_whole(&path, limit),
            Some(held) => held
                .get(name)
                .cloned()
                .ok_or_else(|| CriuError::io("open", path)(io::ErrorKind::NotFound.into())),
        }
    }

    fn has(&self, name: &str) -> Result<bool> {
        match &self.held {
            None => {
                let path = self.dir.join(name);
                path.try_exists().map_err(CriuError::io("look for", path))
            }
            Some(held) => Ok(held.contains_key(name)),
        }
    }

    fn one<M: Message + Default>(&self, name: &str, magic: u32) -> Result<M> {
        let bytes = self.read(name, MAX_IMAGE)?;
        one(&self.dir.join(name), &bytes, magic)
    }

    fn all<M: Message + Default>(&self, name: &str, magic: u32) -> Result<Vec<M>> {
        let bytes = self.read(name, MAX_IMAGE)?;
        all(&self.dir.join(name), &bytes, magic)
    }

    fn all_or_none<M: Message + Default>(&self, name: &str, magic: u32) -> Result<Vec<M>> {
        if self.has(name)? { self.all(name, magic) } else { Ok(Vec::new()) }
    }

    fn pagemap_of(&self, name: &str) -> Result<Pagemap> {
        let bytes = self.read(name, MAX_PAGEMAP)?;
        pagemap(&self.dir.join(name), &bytes)
    }

    /// Files named `prefix`, a number and `.img`, by the number.
    fn numbered(&self, prefix: &str, radix: u32) -> Result<Vec<(u64, String)>> {
        let mut found = Vec::new();
        for name in self.names()? {
            let Some(name) = name.to_str() else { continue };
            let Some(digits) = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".img")) else {
                continue;
            };
            if let Ok(number) = u64::from_str_radix(digits, radix) {
                found.push((number, name.to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The statistics file at `path`, which CRIU writes to its working directory.
pub(crate) fn read_stats(path: &Path) -> Result<DumpStats> {
    let bytes = read_whole(path, MAX_IMAGE)?;
    let stats: Stats = one(path, &bytes, magic::STATS)?;
    stats.dump.ok_or_else(|| CriuError::image(path, "has no figures of a dump"))
}

/// Reads the image `bytes` of a file called `name` to its end, and says how many entries it has. Files that hold no messages, or
/// of a sort that is not read here, have none.
pub fn check(name: &str, bytes: &[u8]) -> Result<usize> {
    let path = Path::new(name);
    let stem = name.strip_suffix(".img").unwrap_or(name);
    match stem {
        "inventory" => count::<Inventory>(path, bytes, magic::INVENTORY),
        "pstree" => count::<PstreeEntry>(path, bytes, magic::PSTREE),
        "files" => {
            let frames: Vec<FileFrame> = all(path, bytes, magic::FILES)?;
            let entries: Vec<FileEntry> =
                frames.into_iter().map(|frame| file_entry(path, frame)).collect::<Result<_>>()?;
            Ok(entries.len())
        }
        "remap-fpath" => count::<Remap>(path, bytes, magic::REMAP_FPATH),
        "memfd" => count::<MemfdInode>(path, bytes, magic::MEMFD_INODE),
        "tty-info" => count::<TtyInfo>(path, bytes, magic::TTY_INFO),
        "seccomp" => count::<Seccomp>(path, bytes, magic::SECCOMP),
        "stats-dump" => count::<Stats>(path, bytes, magic::STATS),
        _ if stem.starts_with("core-") => count::<Core>(path, bytes, magic::CORE),
        _ if stem.starts_with("ids-") => count::<Ids>(path, bytes, magic::IDS),
        _ if stem.starts_with("mm-") => count::<Mm>(path, bytes, magic::MM),
        _ if stem.starts_with("fs-") => count::<Fs>(path, bytes, magic::FS),
        _ if stem.starts_with("fdinfo-") => count::<Fd>(path, bytes, magic::FDINFO),
        _ if stem.starts_with("pagemap-") => Ok(pagemap(path, bytes)?.entries.len()),
        _ if stem.starts_with("mountpoints-") => count::<Mountpoint>(path, bytes, magic::MNTS),
        _ if stem.starts_with("userns-") => count::<UserNamespace>(path, bytes, magic::USERNS),
        _ if stem.starts_with("ghost-file-") => {
            Entries::new(path, bytes, magic::GHOST_FILE)?.next_message::<GhostFile>()?;
            Ok(1)
        }
        _ => Ok(0),
    }
}

fn count<M: Message + Default>(path: &Path, bytes: &[u8], magic: u32) -> Result<usize> {
    Ok(all::<M>(path, bytes, magic)?.len())
}

/// The frame's own number decides, as it does for CRIU; a part that is missing, or a second part, is refused.
fn file_entry(path: &Path, frame: FileFrame) -> Result<FileEntry> {
    let FileFrame { kind, id, reg, inet, namespace, unix, fifo, pipe, tty, memfd, pidfd } = frame;
    let missing = || CriuError::image(path, format!("file {id} of sort {kind} lacks its description"));
    let kind = match FileSort::try_from(kind) {
        Ok(FileSort::Reg) => {
            let reg = reg.ok_or_else(missing)?;
            no_nul(path, &reg.name)?;
            if reg.id != id {
                return Err(CriuError::image(path, format!("file {id} is called {} inside", reg.id)));
            }
            FileKind::Reg(reg)
        }
        Ok(FileSort::Pipe) => FileKind::Pipe(pipe.ok_or_else(missing)?),
        Ok(FileSort::Fifo) => FileKind::Fifo(fifo.ok_or_else(missing)?),
        Ok(FileSort::InetSocket) => FileKind::Inet(inet.ok_or_else(missing)?),
        Ok(FileSort::UnixSocket) => {
            let unix = unix.ok_or_else(missing)?;
            if let Some(dir) = &unix.name_dir {
                no_nul(path, dir)?;
            }
            FileKind::Unix(unix)
        }
        Ok(FileSort::Tty) => FileKind::Tty(tty.ok_or_else(missing)?),
        Ok(FileSort::Namespace) => FileKind::Namespace(namespace.ok_or_else(missing)?),
        Ok(FileSort::ExternalFile) => FileKind::External,
        Ok(FileSort::Memfd) => FileKind::Memfd(memfd.ok_or_else(missing)?),
        Ok(FileSort::Pidfd) => FileKind::Pidfd(pidfd.ok_or_else(missing)?),
        _ => FileKind::Other(kind),
    };
    Ok(FileEntry { id, kind })
}

fn no_nul(path: &Path, text: &[u8]) -> Result<()> {
    if text.contains(&0) {
        let shown = std::ffi::OsStr::from_bytes(text).to_string_lossy().into_owned();
        return Err(CriuError::image(path, format!("the name {shown:?} has a NUL byte in it")));
    }
    Ok(())
}

fn narrow(path: &Path, number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| CriuError::image(path, "has a number in its name that is too large"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entries::image_of;
    use super::super::{PagemapEntry, PagemapHead, RegFile, Rlimit, Rlimits, TaskCore};
    use super::*;

    fn refusal(result: Result<usize>) -> String {
        let error = result.unwrap_err();
        assert_eq!(error.code(), "IJ-K020");
        error.to_string()
    }

    #[test]
    fn what_is_cut_short_or_of_another_sort_is_refused() {
        let entry = PstreeEntry { pid: 1, threads: vec![1, 2], ..PstreeEntry::default() };
        let image = image_of(magic::PSTREE, &[entry.encode_to_vec()]);
        assert_eq!(check("pstree.img", &image).unwrap(), 1);
        for end in (1..image.len()).filter(|end| *end != 8) {
            let text = refusal(check("pstree.img", &image[..end]));
            assert!(text.contains("middle of an entry"), "{end}: {text}");
        }
        assert!(refusal(check("inventory.img", &image)).contains("starts with"));
        let two = image_of(magic::CORE, &[Vec::new(), Vec::new()]);
        let error = one::<Core>(Path::new("core-1.img"), &two, magic::CORE).unwrap_err();
        assert!(error.to_string().contains("2 entries"), "{error}");
    }

    #[test]
    fn a_length_is_believed_only_as_far_as_there_are_bytes() {
        let mut image = image_of(magic::FILES, &[]);
        image.extend(u32::MAX.to_le_bytes());
        image.extend([1, 2, 3]);
        assert!(refusal(check("files.img", &image)).contains("middle of an entry"));
    }

    #[test]
    fn names_that_criu_would_read_otherwise_are_refused() {
        let frame = |name: &[u8], inner: u32| {
            let reg = RegFile { id: inner, name: name.to_vec(), ..RegFile::default() };
            let frame =
                FileFrame { kind: FileSort::Reg.into(), id: 3, reg: Some(reg), ..FileFrame::default() };
            image_of(magic::FILES, &[frame.encode_to_vec()])
        };
        assert_eq!(check("files.img", &frame(b"/x\xff", 3)).unwrap(), 1);
        assert!(refusal(check("files.img", &frame(b"/home/me/x\0/../../root", 3))).contains("NUL"));
        assert!(refusal(check("files.img", &frame(b"/x", 4))).contains("inside"));
        let bare = FileFrame { kind: FileSort::Reg.into(), id: 3, ..FileFrame::default() };
        assert!(
            refusal(check("files.img", &image_of(magic::FILES, &[bare.encode_to_vec()]))).contains("lacks")
        );
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::write(&real, image_of(magic::INVENTORY, &[vec![8, 2]])).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("inventory.img")).unwrap();
        assert_eq!(Images::open(dir.path()).unwrap_err().code(), "IJ-K001");
        fs::remove_file(dir.path().join("inventory.img")).unwrap();
        fs::rename(&real, dir.path().join("inventory.img")).unwrap();
        assert_eq!(Images::open(dir.path()).unwrap().inventory().unwrap().img_version, 2);
    }

    proptest! {
        #[test]
        fn a_process_comes_back_as_it_went(
            comm in proptest::collection::vec(any::<u8>(), 0..16),
            limits in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..16),
            loginuid in any::<Option<u32>>(),
        ) {
            let limits = limits.into_iter().map(|(current, max)| Rlimit { current, max }).collect();
            let task = TaskCore { comm, rlimits: Some(Rlimits { limits }), loginuid, ..TaskCore::default() };
            let core = Core { mtype: 1, task: Some(task), ..Core::default() };
            let image = image_of(magic::CORE, &[core.encode_to_vec()]);
            prop_assert_eq!(one::<Core>(Path::new("x"), &image, magic::CORE).unwrap(), core);
        }

        #[test]
        fn a_pagemap_comes_back_as_it_went(
            pages_id in any::<u32>(),
            runs in proptest::collection::vec((any::<u64>(), any::<u32>(), any::<Option<u64>>()), 0..50),
        ) {
            let runs: Vec<PagemapEntry> = runs
                .into_iter()
                .map(|(vaddr, compat_nr_pages, nr_pages)| PagemapEntry {
                    vaddr, compat_nr_pages, nr_pages, ..PagemapEntry::default()
                })
                .collect();
            let mut entries = vec![PagemapHead { pages_id }.encode_to_vec()];
            entries.extend(runs.iter().map(Message::encode_to_vec));
            let read = pagemap(Path::new("x"), &image_of(magic::PAGEMAP, &entries)).unwrap();
            prop_assert_eq!(read, Pagemap { pages_id, entries: runs });
        }

        #[test]
        fn no_bytes_make_a_reader_panic(
            sort in 0_usize..NAMES.len(),
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            let (name, magic) = NAMES[sort];
            let _ = check(name, &bytes);
            let _ = check(name, &image_of(magic, &[bytes]));
        }
    }

    const NAMES: &[(&str, u32)] = &[
        ("inventory.img", magic::INVENTORY),
        ("pstree.img", magic::PSTREE),
        ("files.img", magic::FILES),
        ("core-1.img", magic::CORE),
        ("ids-1.img", magic::IDS),
        ("mm-1.img", magic::MM),
        ("fs-1.img", magic::FS),
        ("fdinfo-2.img", magic::FDINFO),
        ("pagemap-1.img", magic::PAGEMAP),
        ("pagemap-shmem-1.img", magic::PAGEMAP),
        ("mountpoints-12.img", magic::MNTS),
        ("userns-12.img", magic::USERNS),
        ("ghost-file-a.img", magic::GHOST_FILE),
        ("remap-fpath.img", magic::REMAP_FPATH),
        ("memfd.img", magic::MEMFD_INODE),
        ("tty-info.img", magic::TTY_INFO),
        ("seccomp.img", magic::SECCOMP),
        ("stats-dump", magic::STATS),
    ];
}
