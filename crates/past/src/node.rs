//! What a name leads to, and what a directory lists.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cas_core::{ObjectId, Store};
use fuser::FileType;
use manifest::stored::FromStore;
use manifest::tree::Time;
use manifest::{Entry, ManifestObject, Node as Kind, Tree};

use crate::content::Content;
use crate::error::Result;
use crate::index::{FRESH, Known};
use crate::inodes::number;
use crate::shown::{Recent, Shown};

/// How long the kernel may believe what never changes.
const FOR_LONG: Duration = Duration::from_secs(24 * 3600);

/// Something that has a name here.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) what: What,
    pub(crate) facts: Facts,
}

/// What it is.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Root,
    Snapshots,
    Threads,
    Thread(String),
    Tags,
    Snapshot(ObjectId),
    Memory(ObjectId),
    Process(ObjectId, u32),
    /// A directory of a snapshot, and the number of the snapshot's own.
    Tree(ObjectId, u64),
    File(Content),
    Link(Vec<u8>),
    Other,
}

/// What `stat` says of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) mode: u16,
    pub(crate) size: u64,
    pub(crate) changed: SystemTime,
    pub(crate) links: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) device: u32,
    /// How long it is good.
    pub(crate) stays: Duration,
}

/// One line of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) kind: FileType,
    pub(crate) name: Vec<u8>,
}

/// A store, seen as directories.
pub(crate) struct Past {
    pub(crate) store: Arc<Store>,
    known: Known,
    recent: Recent,
    owner: (u32, u32),
    began: SystemTime,
}

impl Past {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { store, known: Known::default(), recent: Recent::default(), owner, began: SystemTime::now() }
    }

    pub(crate) fn root(&self) -> Node {
        self.made(1, What::Root, self.began, FOR_LONG)
    }

    /// What a name in a directory leads to.
    pub(crate) fn child(&self, of: &Node, name: &[u8]) -> Result<Option<Node>> {
        let Ok(text) = std::str::from_utf8(name) else {
            return match &of.what {
                What::Tree(tree, top) => self.entry(of, tree, *top, name),
                _ => Ok(None),
            };
        };
        let number = number(of.facts.number, name);
        let index = || self.known.now(&self.store);
        let list = |what| Ok(Some(self.made(number, what, self.began, FRESH)));
        let link = |target: String| Ok(Some(self.link(number, target)));
        match &of.what {
            What::Root => match text {
                "snapshots" => list(What::Snapshots),
                "threads" => list(What::Threads),
                "tags" => list(What::Tags),
                _ => Ok(None),
            },
            What::Snapshots => match index()?.snapshots.get(text) {
                Some(id) => {
                    let taken = self.recent.get(&self.store, *id)?.commit.time.into();
                    Ok(Some(self.made(number, What::Snapshot(*id), taken, FRESH)))
                }
                None => Ok(None),
            },
            What::Threads if index()?.threads.contains_key(text) => list(What::Thread(text.to_owned())),
            What::Thread(thread) => match index()?.threads.get(thread) {
                Some(names) if names.contains(text) => link(format!("../../snapshots/{text}")),
                _ => Ok(None),
            },
            What::Tags => match index()?.tags.get(text) {
                Some(directory) => link(format!("../snapshots/{directory}")),
                None => Ok(None),
            },
            What::Snapshot(id) => self.part(number, *id, text),
            What::Memory(id) => self.space(number, *id, text),
            What::Process(id, pid) => self.mapping(number, *id, *pid, text),
            What::Tree(tree, top) => self.entry(of, tree, *top, name),
            What::Threads | What::File(_) | What::Link(_) | What::Other => Ok(None),
        }
    }

    /// What a directory has.
    pub(crate) fn lines(&self, of: &Node) -> Result<Vec<Line>> {
        let line = |name: &str, kind| Line {
            number: number(of.facts.number, name.as_bytes()),
            kind,
            name: name.into(),
        };
        let index = || self.known.now(&self.store);
        let directory = |name: &str| line(name, FileType::Directory);
        Ok(match &of.what {
            What::Root => ["snapshots", "tags", "threads"].map(directory).into(),
            What::Snapshots => index()?.snapshots.keys().map(|name| directory(name)).collect(),
            What::Threads => index()?.threads.keys().map(|name| directory(name)).collect(),
            What::Thread(thread) => {
                let index = index()?;
                let names = index.threads.get(thread).into_iter().flatten();
                names.map(|name| line(name, FileType::Symlink)).collect()
            }
            What::Tags => index()?.tags.keys().map(|name| line(name, FileType::Symlink)).collect(),
            What::Snapshot(id) => {
                let shown = self.recent.get(&self.store, *id)?;
                parts(&shown).into_iter().map(|(name, kind)| line(name, kind)).collect()
            }
            What::Memory(id) => {
                let shown = self.recent.get(&self.store, *id)?;
                let processes = shown.processes(&self.store)?;
                let mut lines: Vec<Line> =
                    processes.iter().map(|process| directory(&process.pid.to_string())).collect();
                lines.extend(shown.shared_memory().map(|(name, ..)| line(name, FileType::RegularFile)));
                lines
            }
            What::Process(id, pid) => {
                let processes = self.recent.get(&self.store, *id)?.processes(&self.store)?;
                let found = processes.iter().find(|process| process.pid == *pid);
                let mappings = found.into_iter().flat_map(|process| &process.mappings);
                mappings.map(|range| line(&range_name(*range), FileType::RegularFile)).collect()
            }
            What::Tree(tree, top) => {
                let tree = Tree::load(&FromStore(&self.store), tree)?;
                let line = |entry: &Entry| Line {
                    number: number_of(entry, of.facts.number, *top),
                    kind: kind(&entry.node),
                    name: entry.name.as_bytes().into(),
                };
                tree.entries().iter().map(line).collect()
            }
            What::File(_) | What::Link(_) | What::Other => Vec::new(),
        })
    }

    /// A part of a snapshot.
    fn part(&self, number: u64, id: ObjectId, name: &str) -> Result<Option<Node>> {
        let shown = self.recent.get(&self.store, id)?;
        if !parts(&shown).iter().any(|(part, _)| *part == name) {
            return Ok(None);
        }
        let taken = SystemTime::from(shown.commit.time);
        let tree = |tree| self.made(number, What::Tree(tree, number), taken, FOR_LONG);
        let file = |content, size| self.file(number, content, size, taken);
        Ok(match name {
            "workspace" => shown.workspace.map(tree),
            "outside" => shown.outside.map(tree),
            "notebook.ipynb" => shown.notebook.map(|blob| file(Content::Blob(blob), blob.len)),
            "variables.json" => shown.variables.map(|blob| file(Content::Blob(blob), blob.len)),
            "processes.json" => {
                let text = shown.processes_text(&self.store)?;
                let size = text.len() as u64;
                Some(file(Content::Text(text), size))
            }
            _ => Some(self.made(number, What::Memory(id), taken, FOR_LONG)),
        })
    }

    /// A process's memory, or memory that several have.
    fn space(&self, number: u64, id: ObjectId, name: &str) -> Result<Option<Node>> {
        let shown = self.recent.get(&self.store, id)?;
        let taken = SystemTime::from(shown.commit.time);
        if let Some((_, map, bytes)) = shown.shared_memory().find(|(shared, ..)| *shared == name) {
            return Ok(Some(self.file(number, Content::Memory(map, 0), bytes, taken)));
        }
        let Ok(pid) = name.parse::<u32>() else { return Ok(None) };
        let is_there =
            pid.to_string() == name && shown.processes(&self.store)?.iter().any(|process| process.pid == pid);
        Ok(is_there.then(|| self.made(number, What::Process(id, pid), taken, FOR_LONG)))
    }

    fn mapping(&self, number: u64, id: ObjectId, pid: u32, name: &str) -> Result<Option<Node>> {
        let shown = self.recent.get(&self.store, id)?;
        let processes = shown.processes(&self.store)?;
        let process = processes.iter().find(|process| process.pid == pid);
        let mut mappings = process.into_iter().flat_map(|process| &process.mappings);
        let found = mappings.find(|range| range_name(**range) == name);
        let (Some((start, end)), Some(map)) = (found, shown.memory_of(pid)) else { return Ok(None) };
        let taken = SystemTime::from(shown.commit.time);
        Ok(Some(self.file(number, Content::Memory(map, *start), end.saturating_sub(*start), taken)))
    }

    /// An entry of a directory that was captured.
    fn entry(&self, of: &Node, tree: &ObjectId, top: u64, name: &[u8]) -> Result<Option<Node>> {
        let tree = Tree::load(&FromStore(&self.store), tree)?;
        let Some(entry) = tree.get(name) else { return Ok(None) };
        let (what, size, device) = match &entry.node {
            Kind::File { size, content: Some(content) } => (What::File(Content::Blob(*content)), *size, 0),
            Kind::File { size, content: None } => (What::File(Content::NotCaptured), *size, 0),
            Kind::Dir { tree } => (What::Tree(*tree, top), 0, 0),
            Kind::Symlink { target } => {
                let target = target.as_bytes().to_vec();
                let size = target.len() as u64;
                (What::Link(target), size, 0)
            }
            Kind::Char { major, minor } | Kind::Block { major, minor } => {
                let device = rustix::fs::makedev(*major, *minor);
                (What::Other, 0, u32::try_from(device).unwrap_or(0))
            }
            Kind::Fifo | Kind::Socket => (What::Other, 0, 0),
        };
        let facts = Facts {
            number: number_of(entry, of.facts.number, top),
            kind: kind(&entry.node),
            mode: u16::try_from(entry.mode).unwrap_or(0),
            size,
            changed: match entry.node {
                // Nobody writes down when a directory was changed: all are as old as the snapshot.
                Kind::Dir { .. } if entry.mtime == Time::default() => of.facts.changed,
                _ => system_time(entry.mtime),
            },
            links: if is_linked(entry) { u32::try_from(entry.nlink.unwrap_or(1)).unwrap_or(1) } else { 1 },
            owner: (entry.uid, entry.gid),
            device,
            stays: FOR_LONG,
        };
        Ok(Some(Node { what, facts }))
    }

    /// A directory of ours.
    fn made(&self, number: u64, what: What, changed: SystemTime, stays: Duration) -> Node {
        let kind = FileType::Directory;
        let owner = self.owner;
        let facts = Facts { number, kind, mode: 0o555, size: 0, changed, links: 2, owner, device: 0, stays };
        Node { what, facts }
    }

    fn file(&self, number: u64, content: Content, size: u64, changed: SystemTime) -> Node {
        let (kind, owner, stays) = (FileType::RegularFile, self.owner, FOR_LONG);
        let facts = Facts { number, kind, mode: 0o444, size, changed, links: 1, owner, device: 0, stays };
        Node { what: What::File(content), facts }
    }

    fn link(&self, number: u64, target: String) -> Node {
        let (kind, size, changed) = (FileType::Symlink, target.len() as u64, self.began);
        let (owner, stays) = (self.owner, FRESH);
        let facts = Facts { number, kind, mode: 0o777, size, changed, links: 1, owner, device: 0, stays };
        Node { what: What::Link(target.into_bytes()), facts }
    }
}

/// The parts that a snapshot has.
fn parts(shown: &Shown) -> Vec<(&'static str, FileType)> {
    let (directory, file) = (FileType::Directory, FileType::RegularFile);
    let all = [
        ("memory", directory, shown.has_processes),
        ("notebook.ipynb", file, shown.notebook.is_some()),
        ("outside", directory, shown.outside.is_some()),
        ("processes.json", file, shown.has_processes),
        ("variables.json", file, shown.variables.is_some()),
        ("workspace", directory, shown.workspace.is_some()),
    ];
    all.into_iter().filter(|(.., is_there)| *is_there).map(|(name, kind, _)| (name, kind)).collect()
}

fn range_name((start, end): (u64, u64)) -> String {
    format!("{start:x}-{end:x}")
}

fn kind(node: &Kind) -> FileType {
    match node {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Dir { .. } => FileType::Directory,
        Kind::Symlink { .. } => FileType::Symlink,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
        Kind::Char { .. } => FileType::CharDevice,
        Kind::Block { .. } => FileType::BlockDevice,
    }
}

/// Names of one file have one number, as they had.
fn number_of(entry: &Entry, parent: u64, top: u64) -> u64 {
    match entry.ino {
        Some(ino) if is_linked(entry) => number(top, &[b"/", &ino.to_le_bytes()[..]].concat()),
        _ => number(parent, entry.name.as_bytes()),
    }
}

fn is_linked(entry: &Entry) -> bool {
    let is_file = matches!(entry.node, Kind::File { content: Some(_), .. });
    is_file && entry.ino.is_some() && entry.nlink.is_some_and(|links| links > 1)
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = match time.seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(seconds),
        false => SystemTime::UNIX_EPOCH.checked_add(seconds),
    };
    let exact = whole.and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanoseconds.into())));
    exact.unwrap_or(SystemTime::UNIX_EPOCH)
}
