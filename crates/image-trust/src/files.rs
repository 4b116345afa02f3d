//! What the restored processes would hold: open files, mappings, sockets, ghosts.
//!
//! Everything with a path becomes a [`Wanted`], to be tried as the user ([`crate::reach`]). Everything else is checked here:
//! kinds of descriptors that no session has are refused by the schema, the rest must be something that the user could
//! have made without being root.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sandbox::User;

use crate::Findings;
use crate::images::Images;
use crate::paths::{is_plain, path};
use crate::people::{is_alarm, is_group};
use crate::reach::{Need, Wanted};
use crate::wire::Message;

/// Type of a descriptor, the field that describes it, and in there the fields with its owner and its socket options.
pub(crate) const KINDS: [(u64, u32, u32, u32); 14] = [
    (1, REG, 5, 0),
    (2, 18, 4, 0),
    (3, FIFO, 0, 0),
    (4, INET, 13, 14),
    (5, UNIX, 9, 10),
    (6, 8, 3, 0),
    (7, 9, 3, 0),
    (8, 13, 4, 0),
    (9, 10, 3, 0),
    (11, TTY, 4, 0),
    (13, NETLINK, 11, 12),
    (17, TIMERFD, 3, 0),
    (18, 20, 4, 0),
    (20, 22, 5, 0),
];
pub(crate) const REG: u32 = 3;
const INET: u32 = 4;
const NETLINK: u32 = 7;
const TIMERFD: u32 = 12;
pub(crate) const UNIX: u32 = 16;
const FIFO: u32 = 17;
const TTY: u32 = 19;

const O_ACCMODE: u64 = 0o3;
const O_CREAT_EXCL_TRUNC: u64 = 0o100 | 0o200 | 0o1000;
const O_PATH: u64 = 0o10_000_000;

const FILE_PRIVATE: u64 = 1 << 6;
const FILE_SHARED: u64 = 1 << 7;
pub(crate) const VSYSCALL: u64 = 1 << 2;
const MEMFD: u64 = 1 << 14;
/// Mappings of packet sockets, uprobes, plugins, and what CRIU itself cannot restore.
pub(crate) const UNWANTED_MAPPINGS: u64 = 1 << 11 | 1 << 17 | 1 << 27 | 1 << 31;

/// How an id of a file is used.
#[derive(Clone, Copy, Default)]
struct Use {
    opened: bool,
    mapped: bool,
    mapped_for_writing: bool,
    code: bool,
    executable: bool,
    directory: bool,
    linked_from: Option<u64>,
}

/// Checks what is held and says which paths are to be tried.
pub(crate) fn check(images: &Images, user: &User, findings: &mut Findings) -> Vec<Wanted> {
    let mut checker = Checker { images, user, findings, wanted: BTreeSet::new() };
    let uses = checker.uses();
    let remaps = checker.remaps();
    let mut ids = BTreeSet::new();
    for entry in images.of("files") {
        let id = entry.number(2).unwrap_or(0);
        if !ids.insert(id) {
            checker.findings.add(format!("file {id} is there twice"));
        }
        checker.entry(entry, id, uses.get(&id).copied().unwrap_or_default(), remaps.get(&id));
    }
    checker.inodes();
    checker.wanted.into_iter().collect()
}

/// What became of a file whose name is gone.
enum Remap {
    Ghost,
    Linked,
    Process,
}

struct Checker<'a> {
    images: &'a Images,
    user: &'a User,
    findings: &'a mut Findings,
    wanted: BTreeSet<Wanted>,
}

impl Checker<'_> {
    fn uses(&mut self) -> BTreeMap<u64, Use> {
        let mut uses: BTreeMap<u64, Use> = BTreeMap::new();
        for info in self.images.numbered("fdinfo").flat_map(|(_, infos)| infos) {
            uses.entry(info.number(1).unwrap_or(0)).or_default().opened = true;
        }
        let lowest =
            fs::read_to_string("/proc/sys/vm/mmap_min_addr").ok().and_then(|text| text.trim().parse().ok());
        let lowest: u64 = lowest.unwrap_or(65536);
        for (pid, mm) in self.images.numbered("mm").filter_map(|(pid, mms)| Some((pid, mms.first()?))) {
            let exe = uses.entry(mm.number(12).unwrap_or(0)).or_default();
            (exe.code, exe.executable, exe.mapped) = (true, true, true);
            for vma in mm.inners(14) {
                let (start, status) = (vma.number(1).unwrap_or(0), vma.number(7).unwrap_or(0));
                if start < lowest && status & VSYSCALL == 0 {
                    self.findings.add(format!("process {pid} maps memory at {start:#x}, below {lowest:#x}"));
                }
                if status & UNWANTED_MAPPINGS != 0 {
                    self.findings
                        .add(format!("process {pid} has a mapping of an unknown kind at {start:#x}"));
                }
                if status & (FILE_PRIVATE | FILE_SHARED) == 0 || status & MEMFD != 0 {
                    continue;
                }
                let prot = vma.number(5).unwrap_or(0);
                let one = uses.entry(vma.number(4).unwrap_or(0)).or_default();
                one.mapped = true;
                one.code |= prot & 4 != 0;
                let flags = vma.number(10).unwrap_or(0);
                one.mapped_for_writing |=
                    flags & O_ACCMODE != 0 || (status & FILE_SHARED != 0 && prot & 2 != 0);
                if flags & O_CREAT_EXCL_TRUNC != 0 {
                    self.findings.add(format!("process {pid} would create a file to map it"));
                }
            }
        }
        for (pid, fs) in self.images.numbered("fs").filter_map(|(pid, all)| Some((pid, all.first()?))) {
            let (cwd, root) = (fs.number(1).unwrap_or(0), fs.number(2).unwrap_or(0));
            uses.entry(cwd).or_default().directory = true;
            uses.entry(root).or_default().directory = true;
            let name = self.images.of("files").iter().find(|entry| entry.number(2) == Some(root));
            if name.and_then(|entry| entry.inner(REG)).map(|reg| reg.bytes(6)) != Some(b"/") {
                self.findings.add(format!("process {pid} has another root directory"));
            }
        }
        for remap in self.images.of("remap-fpath").iter().filter(|remap| remap.number(3).unwrap_or(0) == 0) {
            uses.entry(remap.number(2).unwrap_or(0)).or_default().linked_from = remap.number(1);
        }
        uses
    }

    fn remaps(&mut self) -> BTreeMap<u64, Remap> {
        let mut remaps = BTreeMap::new();
        for remap in self.images.of("remap-fpath") {
            let (id, to) = (remap.number(1).unwrap_or(0), remap.number(2).unwrap_or(0));
            let what = match remap.number(3).unwrap_or(0) {
                0 => Remap::Linked,
                1 => {
                    if self.images.first(&format!("ghost-file-{to:x}")).is_none() {
                        self.findings.add(format!("file {id} is a ghost without content"));
                    }
                    Remap::Ghost
                }
                2 => Remap::Process,
                kind => {
                    self.findings.add(format!("file {id} is replaced in an unknown way ({kind})"));
                    continue;
                }
            };
            if remaps.insert(id, what).is_some() {
                self.findings.add(format!("file {id} is replaced twice"));
            }
        }
        remaps
    }

    fn entry(&mut self, entry: &Message, id: u64, used: Use, remap: Option<&Remap>) {
        let kind = entry.number(1).unwrap_or(0);
        let Some((_, field, owner, options)) = KINDS.iter().find(|(number, ..)| *number == kind) else {
            self.findings.add(format!("file {id} is of a kind ({kind}) that no session has"));
            return;
        };
        let mut present = entry.present().filter(|number| *number > 2);
        let (Some(only), None, Some(own)) = (present.next(), present.next(), entry.inner(*field)) else {
            self.findings.add(format!("file {id} is not of one kind"));
            return;
        };
        if only != *field || own.number(1) != Some(id) {
            self.findings.add(format!("file {id} is described as something else"));
        }
        if let Some(owner) = own.inner(*owner) {
            self.owner(owner, id);
        }
        if let Some(options) = own.inner(*options) {
            self.socket_options(options, id);
        }
        match *field {
            REG => self.regular(own, used, remap),
            INET => self.inet(own, id),
            UNIX => self.unix(own, id),
            NETLINK if ![0, 4, 15, 16].contains(&own.number(3).unwrap_or(u64::MAX)) => {
                self.findings
                    .add(format!("file {id} is a netlink socket of protocol {}", own.number(3).unwrap_or(0)));
            }
            TIMERFD if is_alarm(own.number(4)) => {
                self.findings.add(format!("file {id} is a timer that wakes the machine"));
            }
            _ => {}
        }
    }

    /// Whom a file tells by signal, and with whose rights.
    fn owner(&mut self, owner: &Message, id: u64) {
        let told = owner.number(5).unwrap_or(0) != 0;
        let own = [1, 2].into_iter().all(|field| owner.number(field) == Some(self.user.uid.into()));
        if told && !own {
            self.findings.add(format!("file {id} sends signals with the rights of somebody else"));
        }
    }

    fn regular(&mut self, reg: &Message, used: Use, remap: Option<&Remap>) {
        let inside = path(reg.bytes(6));
        let (flags, name) = (reg.number(2).unwrap_or(0), inside.display().to_string());
        if !is_plain(&inside) {
            self.findings.add(format!("`{name}` is not a plain path"));
            return;
        }
        if reg.number(9).unwrap_or(0) != 0 {
            self.findings.add(format!("`{name}` is to be opened by somebody else"));
        }
        if flags & O_CREAT_EXCL_TRUNC != 0 {
            self.findings.add(format!("`{name}` would be created or emptied"));
        }
        let looked_at_only = flags & O_PATH != 0;
        let only_directory = used.directory && !used.opened && !used.mapped;
        let mode = flags & O_ACCMODE;
        let need = Need {
            read: !looked_at_only && !only_directory && (mode != 1 || used.mapped),
            write: !looked_at_only && (mode != 0 || used.mapped_for_writing),
            execute: used.directory || used.executable,
            code: used.code,
            make: false,
        };
        match remap {
            Some(Remap::Ghost | Remap::Linked) => self.want(&inside, Need { make: true, ..Need::default() }),
            Some(Remap::Process) if !inside.starts_with("/proc") => {
                self.findings.add(format!("`{name}` is not a file of a process"));
            }
            _ => self.want(&inside, need),
        }
        // the second name of a file whose first is gone: CRIU links it to the first and takes it away
        if let Some(original) = used.linked_from {
            let flags = self.regular_file(original).and_then(|reg| reg.number(2)).unwrap_or(2);
            let write = flags & O_ACCMODE != 0;
            self.want(&inside, Need { read: true, write, make: true, ..need });
        }
    }

    fn regular_file(&self, id: u64) -> Option<&Message> {
        self.images
            .of("files")
            .iter()
            .find(|entry| entry.number(2) == Some(id))
            .and_then(|entry| entry.inner(REG))
    }

    /// Notes that this path is needed.
    fn want(&mut self, inside: &Path, need: Need) {
        let below = inside.strip_prefix("/").unwrap_or(inside).to_owned();
        self.wanted.insert(Wanted { inside: inside.to_owned(), base: "/".into(), below, need });
    }

    fn inet(&mut self, socket: &Message, id: u64) {
        let (kind, protocol) = (socket.number(4).unwrap_or(0), socket.number(5).unwrap_or(u64::MAX));
        if ![2, 10].contains(&socket.number(3).unwrap_or(0))
            || !matches!((kind, protocol), (1, 6) | (2, 17 | 136))
        {
            self.findings.add(format!("file {id} is a socket of type {kind}, protocol {protocol}"));
        }
        let port = socket.number(7).unwrap_or(0);
        if (1..1024).contains(&port) {
            self.findings.add(format!("file {id} is a socket on the reserved port {port}"));
        }
    }

    fn socket_options(&mut self, options: &Message, id: u64) {
        const LARGEST_BUFFER: u64 = 64 << 20;
        if options.number(10).unwrap_or(0) != 0 || options.number(8).unwrap_or(0) > 6 {
            self.findings
                .add(format!("file {id} is a socket with a mark or priority that only root can set"));
        }
        if !matches!(options.bytes(15), b"" | b"lo") {
            self.findings.add(format!("file {id} is a socket bound to a device"));
        }
        if [1, 2].into_iter().any(|field| options.number(field).unwrap_or(0) > LARGEST_BUFFER) {
            self.findings.add(format!("file {id} is a socket with a buffer that only root can have"));
        }
    }

    fn unix(&mut self, socket: &Message, id: u64) {
        if socket.number(6).unwrap_or(0) != 0 {
            self.findings.add(format!("file {id} is a socket whose other end is outside of the session"));
        }
        if ![1, 2, 5].contains(&socket.number(3).unwrap_or(0)) {
            self.findings.add(format!("file {id} is a unix socket of an unknown type"));
        }
        if let Some(perms) = socket.inner(13) {
            let (mode, uid, gid) = (perms.number(1), perms.number(2), perms.number(3));
            if mode.unwrap_or(0) & 0o6000 != 0
                || uid != Some(self.user.uid.into())
                || !is_group(self.user, gid.unwrap_or(u64::MAX))
            {
                self.findings.add(format!("file {id} is a socket that belongs to somebody else"));
            }
        }
        let name = socket.bytes(11);
        let name = name.strip_suffix(b"\0").unwrap_or(name);
        if name.is_empty() || name.starts_with(b"\0") {
            return;
        }
        let inside = path(socket.bytes(14)).join(path(name));
        if name.contains(&0) || !is_plain(&inside) {
            self.findings.add(format!("file {id} is a socket without a plain path"));
            return;
        }
        self.want(&inside, Need { make: true, ..Need::default() });
    }

    /// What CRIU makes with an owner and a mode of its own: ghosts, memfds, terminals.
    fn inodes(&mut self) {
        for (number, ghost) in
            self.images.numbered("ghost-file").filter_map(|(n, all)| Some((n, all.first()?)))
        {
            let mode = ghost.number(3).unwrap_or(0);
            let kind = mode & 0o170_000;
            if mode & 0o6000 != 0 {
                self.findings.add(format!("ghost file {number} is a set-user-id or set-group-id program"));
            }
            if ![0o100_000, 0o040_000, 0o010_000, 0o120_000].contains(&kind) {
                self.findings.add(format!("ghost file {number} is a device"));
            }
            if ghost.number(1) != Some(self.user.uid.into())
                || !is_group(self.user, ghost.number(2).unwrap_or(u64::MAX))
            {
                self.findings.add(format!("ghost file {number} belongs to somebody else"));
            }
        }
        for memory in self.images.of("memfd") {
            let name = String::from_utf8_lossy(memory.bytes(1)).into_owned();
            if memory.number(2) != Some(self.user.uid.into())
                || !is_group(self.user, memory.number(3).unwrap_or(u64::MAX))
                || memory.number(9).unwrap_or(0) & 0o6000 != 0
            {
                self.findings.add(format!("shared memory `{name}` belongs to somebody else"));
            }
        }
        for terminal in self.images.of("tty-info") {
            let id = terminal.number(1).unwrap_or(0);
            let owner = terminal.number(14).unwrap_or(0);
            // a pseudo-terminal, or /dev/tty, which stands for the former
            if ![1, 4].contains(&terminal.number(2).unwrap_or(0))
                || ![0, u64::from(self.user.uid)].contains(&owner)
            {
                self.findings.add(format!("terminal {id} is not one of the session's own"));
            }
        }
        for map in self
            .images
            .numbered("pagemap")
            .chain(self.images.numbered("pagemap-shmem"))
            .flat_map(|(_, all)| all)
        {
            if map.number(3).unwrap_or(0) != 0 || map.number(4).unwrap_or(0) & 1 != 0 {
                self.findings.add("memory is to be taken from another dump");
                break;
            }
        }
    }
}
