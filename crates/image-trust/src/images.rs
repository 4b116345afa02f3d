//! All images of a dump, read and sorted; whatever is not listed here is refused.
//!
//! CRIU opens its images by name. A name in the directory that ends in `.img` and is not in [`kind`] is something that CRIU
//! may read and we do not: a fault. So are links (`parent` would chain another directory) and directories. Files with other
//! names (logs, statistics) are never opened by a restore and do not matter.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::Path;

use base::io_error;

use crate::error::Result;
use crate::schema;
use crate::wire::{Message, Schema};

/// How what follows the magic numbers is laid out.
#[derive(Clone, Copy)]
enum Layout {
    /// Messages, one after another.
    Messages(&'static Schema),
    /// One message, then data of the session's own.
    Head(&'static Schema),
    /// Messages, each followed by as many bytes of data as this field says.
    Tailed(&'static Schema, u32),
    /// Semaphore sets with their values, queues with their messages, segments with their content.
    Semaphores,
    Queues,
    Segments,
    /// No messages: memory.
    Raw,
    /// Messages that nobody acts upon: a container's network, which its runtime makes.
    Unread,
}

/// What images are of, which decides which of them there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// A tree without namespaces of its own.
    Session,
    /// A container, with namespaces that its runtime has made.
    Container,
}

/// A message of its own with the stem of its file, in the order of reading.
pub(crate) struct Images {
    messages: BTreeMap<String, Vec<Message>>,
    /// What could not be understood.
    pub(crate) faults: Vec<String>,
}

/// An entry is small. The largest that CRIU writes is the mm of a process with 65,530 mappings, about 3 MiB.
const LARGEST_ENTRY: u64 = 64 << 20;

const COMMON_MAGIC: u32 = 0x5456_4319;
const INVENTORY_MAGIC: u32 = 0x5831_3116;

/// What an image with this stem is: its magic number and layout.
fn kind(stem: &str) -> Option<(u32, Layout)> {
    use Layout::{Head, Messages, Queues, Raw, Segments, Semaphores, Tailed};
    let whole = match stem {
        "inventory" => Some((INVENTORY_MAGIC, Messages(&schema::INVENTORY))),
        "pstree" => Some((0x5027_3030, Messages(&schema::PSTREE))),
        "files" => Some((0x5630_3138, Messages(&schema::FILE))),
        "remap-fpath" => Some((0x5913_3954, Messages(&schema::REMAP))),
        "memfd" => Some((0x4845_3499, Messages(&schema::MEMFD_INODE))),
        "tty-info" => Some((0x5945_3036, Messages(&schema::TTY_INFO))),
        "tty-data" => Some((0x5941_3026, Messages(&schema::TTY_DATA))),
        "cgroup" => Some((0x5938_3330, Messages(&schema::CGROUP))),
        "seccomp" => Some((0x6441_3049, Messages(&schema::SECCOMP))),
        "filelocks" => Some((0x5432_3616, Messages(&schema::FILE_LOCK))),
        "pipes-data" => Some((0x5645_3709, Tailed(&schema::PIPE_DATA, 2))),
        "fifo-data" => Some((0x5933_3054, Tailed(&schema::PIPE_DATA, 2))),
        "sk-queues" => Some((0x5626_4026, Tailed(&schema::PACKET, 2))),
        _ => None,
    };
    if whole.is_some() {
        return whole;
    }
    let (name, number) = stem.rsplit_once('-')?;
    let decimal = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = number.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(match name {
        "ghost-file" if hexadecimal => (0x5258_3605, Head(&schema::GHOST)),
        "tcp-stream" if hexadecimal => (0x5146_5506, Head(&schema::TCP_STREAM)),
        _ if !decimal => return None,
        "core" => (0x5505_3847, Messages(&schema::CORE)),
        "ids" => (0x5443_2030, Messages(&schema::KOBJ_IDS)),
        "mm" => (0x5749_2820, Messages(&schema::MM)),
        "fs" => (0x5140_3912, Messages(&schema::FS)),
        "fdinfo" => (0x5621_3732, Messages(&schema::FDINFO)),
        "pagemap" | "pagemap-shmem" => (0x5608_4025, Messages(&schema::PAGEMAP)),
        "pages" => (0, Raw),
        "mountpoints" => (0x5556_3928, Messages(&schema::MOUNT)),
        "netns" => (0x5593_3752, Messages(&schema::NETNS)),
        "pidns" => (0x6115_7326, Messages(&schema::PIDNS)),
        "utsns" => (0x5447_3203, Messages(&schema::UTSNS)),
        "timens" => (0x4311_4433, Messages(&schema::TIMENS)),
        "ipcns-var" => (0x5311_5007, Messages(&schema::IPC_VAR)),
        "ipcns-shm" => (0x4628_3044, Segments),
        "ipcns-sem" => (0x5957_3019, Semaphores),
        "ipcns-msg" => (0x5545_3737, Queues),
        _ => return None,
    })
}

/// What only containers have: namespaces, and what was in the file systems in memory that are theirs.
fn kind_in_container(stem: &str) -> Option<(u32, Layout)> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let archive = stem.strip_suffix(".tar.gz").unwrap_or_default();
    let in_memory = archive.strip_prefix("tmpfs-dev-").or_else(|| archive.strip_prefix("tmpfs-"));
    if in_memory.is_some_and(is_number) {
        return Some((0, Layout::Raw));
    }
    let (name, _) = stem.rsplit_once('-').filter(|(_, number)| is_number(number))?;
    Some(match name {
        "netns" => (0x5593_3752, Layout::Unread),
        "netdev" => (0x5737_3951, Layout::Unread),
        "userns" => (0x5547_4906, Layout::Unread),
        "ifaddr" | "route" | "route6" | "rule" | "iptables" | "ip6tables" | "nftables" => (0, Layout::Raw),
        _ => return None,
    })
}

impl Images {
    /// Reads everything in `dir`. What is wrong with the images is in `faults`; only a directory that cannot be read at all
    /// is an error.
    pub(crate) fn read(dir: &Path, of: Of) -> Result<Self> {
        let mut images = Self { messages: BTreeMap::new(), faults: Vec::new() };
        for entry in fs::read_dir(dir).map_err(io_error("read", dir))? {
            let entry = entry.map_err(io_error("read", dir))?;
            let path = entry.path();
            let kind_of_file = entry.file_type().map_err(io_error("examine", &path))?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                images.faults.push(format!("{} is no image of CRIU's", path.display()));
                continue;
            };
            if !kind_of_file.is_file() {
                images.faults.push(format!("{name} is not a plain file"));
                continue;
            }
            let Some(stem) = name.strip_suffix(".img") else { continue };
            let found = match of {
                Of::Session => kind(stem),
                Of::Container => kind_in_container(stem).or_else(|| kind(stem)),
            };
            let Some((magic, layout)) = found else {
                images.faults.push(format!("{name} is a kind of image that no session of ours has"));
                continue;
            };
            if matches!(layout, Layout::Raw) {
                continue;
            }
            match read_messages(&path, magic, layout) {
                Ok(messages) => {
                    images.messages.insert(stem.to_owned(), messages);
                }
                Err(fault) => images.faults.push(format!("{name}: {fault}")),
            }
        }
        Ok(images)
    }

    /// The messages of the image with this stem.
    pub(crate) fn of(&self, stem: &str) -> &[Message] {
        self.messages.get(stem).map(Vec::as_slice).unwrap_or_default()
    }

    /// The first message of the image with this stem.
    pub(crate) fn first(&self, stem: &str) -> Option<&Message> {
        self.of(stem).first()
    }

    /// All images called `name-NUMBER`, with the number's text.
    pub(crate) fn numbered<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, &'a [Message])> {
        self.messages.iter().filter_map(move |(stem, messages)| {
            let (own, number) = stem.rsplit_once('-')?;
            (own == name).then_some((number, messages.as_slice()))
        })
    }
}

fn read_messages(path: &Path, magic: u32, layout: Layout) -> std::result::Result<Vec<Message>, String> {
    let tell = |error: io::Error| error.to_string();
    let mut input = Input::open(path).map_err(tell)?;
    let mut found = input.word()?;
    if found == COMMON_MAGIC && magic != INVENTORY_MAGIC {
        found = input.word()?;
    }
    if found != magic {
        return Err("not what its name says".to_owned());
    }
    let mut messages = Vec::new();
    match layout {
        Layout::Raw | Layout::Unread => {}
        Layout::Head(schema) => messages.push(input.message(schema)?.ok_or("empty")?),
        Layout::Messages(schema) => {
            while let Some(message) = input.message(schema)? {
                messages.push(message);
            }
        }
        Layout::Tailed(schema, field) => {
            while let Some(message) = input.message(schema)? {
                input.skip(message.number(field).unwrap_or(0))?;
                messages.push(message);
            }
        }
        Layout::Semaphores => {
            while let Some(message) = input.message(&schema::IPC_SEM)? {
                input.skip((message.number(2).unwrap_or(0) * 2).next_multiple_of(8))?;
                messages.push(message);
            }
        }
        Layout::Queues => {
            while let Some(message) = input.message(&schema::IPC_MSG)? {
                for _ in 0..message.number(3).unwrap_or(0) {
                    let one = input.message(&schema::IPC_MESSAGE)?.ok_or("cut short")?;
                    input.skip(one.number(2).unwrap_or(0).next_multiple_of(8))?;
                }
                messages.push(message);
            }
        }
        Layout::Segments => {
            while let Some(message) = input.message(&schema::IPC_SHM)? {
                if message.number(3) != Some(1) {
                    let size = message.number(2).unwrap_or(0);
                    input.skip(size.checked_next_multiple_of(4).ok_or("an impossible size")?)?;
                }
                messages.push(message);
            }
        }
    }
    Ok(messages)
}

struct Input {
    file: BufReader<File>,
    left: u64,
}

impl Input {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let left = file.metadata()?.len();
        Ok(Self { file: BufReader::new(file), left })
    }

    fn bytes(&mut self, length: u64) -> std::result::Result<Vec<u8>, String> {
        self.left = self.left.checked_sub(length).ok_or("cut short")?;
        let mut bytes = vec![0; usize::try_from(length).map_err(|_| "too large")?];
        self.file.read_exact(&mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn word(&mut self) -> std::result::Result<u32, String> {
        let bytes = self.bytes(4)?;
        Ok(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u32::from(*byte)))
    }

    fn message(&mut self, schema: &'static Schema) -> std::result::Result<Option<Message>, String> {
        if self.left == 0 {
            return Ok(None);
        }
        let length = u64::from(self.word()?);
        if length > LARGEST_ENTRY {
            return Err("an entry is too large".to_owned());
        }
        let bytes = self.bytes(length)?;
        Message::read(schema, &bytes).map(Some)
    }

    fn skip(&mut self, length: u64) -> std::result::Result<(), String> {
        self.left = self.left.checked_sub(length).ok_or("cut short")?;
        let by = i64::try_from(length).map_err(|_| "too large")?;
        self.file.seek_relative(by).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_criu_may_open_are_known_or_refused() {
        for known in ["core-1", "ghost-file-1f", "pagemap-shmem-7", "ipcns-var-11", "pages-3"] {
            assert!(kind(known).is_some(), "{known}");
        }
        for unknown in [
            "creds-1",
            "reg-files",
            "userns-7",
            "fanotify",
            "tunfile",
            "bpfmap-file",
            "iptables-9",
            "core-x",
            "core",
        ] {
            assert!(kind(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn a_container_has_more_sorts_of_images_and_not_any() {
        for known in [
            "userns-7",
            "netns-9",
            "netdev-9",
            "iptables-9",
            "route6-9",
            "tmpfs-dev-73.tar.gz",
            "tmpfs-4.tar.gz",
        ] {
            assert!(kind_in_container(known).is_some(), "{known}");
        }
        for unknown in
            ["tmpfs-dev-73", "tmpfs-x.tar.gz", "userns", "fanotify-1", "binfmt-misc", "core-1", "autofs-3"]
        {
            assert!(kind_in_container(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn a_link_and_an_unknown_image_are_faults() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("parent")).unwrap();
        fs::write(dir.path().join("userns-7.img"), b"").unwrap();
        fs::write(dir.path().join("dump.log"), b"").unwrap();
        let images = Images::read(dir.path(), Of::Session).unwrap();
        assert_eq!(images.faults.len(), 2, "{:?}", images.faults);
    }

    #[test]
    fn an_image_that_says_it_is_another_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = COMMON_MAGIC.to_le_bytes().to_vec();
        bytes.extend(0x5505_3847_u32.to_le_bytes());
        fs::write(dir.path().join("pstree.img"), &bytes).unwrap();
        fs::write(dir.path().join("files.img"), b"short").unwrap();
        let images = Images::read(dir.path(), Of::Session).unwrap();
        assert!(
            images.faults.iter().any(|fault| fault.contains("not what its name says")),
            "{:?}",
            images.faults
        );
        assert_eq!(images.faults.len(), 2, "{:?}", images.faults);
    }
}
