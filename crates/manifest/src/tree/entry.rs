//! One entry of a directory.

use std::borrow::Cow;
use std::fmt;

use cas_core::ObjectId;
use serde::{Deserialize, Serialize};

use crate::TREE;
use crate::error::ManifestError;
use crate::reference::{BlobRef, ObjectRef};
use crate::wire::{self, ByteText, Extra};

/// The name of an entry: any bytes that name something *in* a directory. Never empty, `.` or `..`, without `/` and NUL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "ByteText", into = "ByteText")]
pub struct FileName(ByteText);

impl FileName {
    /// Checks a name.
    pub fn new(name: impl Into<Vec<u8>>) -> Result<Self, ManifestError> {
        Self::try_from(ByteText::new(name))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The name, with what is not UTF-8 replaced: for people only.
    pub fn to_string_lossy(&self) -> Cow<'_, str> {
        self.0.to_string_lossy()
    }
}

impl TryFrom<ByteText> for FileName {
    type Error = ManifestError;

    fn try_from(name: ByteText) -> Result<Self, ManifestError> {
        let bytes = name.as_bytes();
        if matches!(bytes, b"" | b"." | b"..") || bytes.contains(&b'/') || bytes.contains(&0) {
            return Err(ManifestError::invalid("tree", format!("{name:?} is not a file name")));
        }
        Ok(Self(name))
    }
}

impl From<FileName> for ByteText {
    fn from(name: FileName) -> Self {
        name.0
    }
}

impl fmt::Debug for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A time of a file: seconds since 1970, possibly negative, and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Time {
    /// Whole seconds.
    #[serde(rename = "s", with = "wire::int")]
    pub seconds: i64,
    /// The rest, below 10^9.
    #[serde(rename = "ns")]
    pub nanoseconds: u32,
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xattr {
    /// With its name space: `user.comment`.
    pub name: ByteText,
    /// Any bytes.
    pub value: ByteText,
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    /// A regular file.
    File {
        /// Its length.
        size: u64,
        /// Its content; absent if it was not captured, and then the snapshot's workspace section says why.
        content: Option<BlobRef>,
    },
    /// A directory.
    Dir {
        /// What is in it.
        tree: ObjectId,
    },
    /// A symbolic link.
    Symlink {
        /// Where it points, as it was written.
        target: ByteText,
    },
    /// A named pipe.
    Fifo,
    /// A unix socket.
    Socket,
    /// A character device.
    Char {
        /// Driver.
        major: u32,
        /// Device.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Driver.
        major: u32,
        /// Device.
        minor: u32,
    },
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "WireEntry", into = "WireEntry")]
pub struct Entry {
    /// Its name.
    pub name: FileName,
    /// What it is.
    pub node: Node,
    /// Permission bits, at most 0o7777.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of last change of content.
    pub mtime: Time,
    /// Inode number, by which names of one file are found to be links and a restore can tell what it replaces.
    pub ino: Option<u64>,
    /// Time of last change of content or attributes, by which the next snapshot can tell that nothing changed.
    pub ctime: Option<Time>,
    /// Number of names.
    pub nlink: Option<u64>,
    /// Extended attributes, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// Fields of a newer version.
    pub extra: Extra,
}

impl Entry {
    /// An entry with all attributes zero or absent.
    pub fn new(name: FileName, node: Node) -> Self {
        Self {
            name,
            node,
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: Time::default(),
            ino: None,
            ctime: None,
            nlink: None,
            xattrs: Vec::new(),
            extra: Extra::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.mode > 0o7777 {
            return Err("mode has more than permission bits");
        }
        if [Some(self.mtime), self.ctime].iter().flatten().any(|time| time.nanoseconds >= 1_000_000_000) {
            return Err("a time has 10^9 nanoseconds or more");
        }
        if self.xattrs.windows(2).any(|pair| matches!(pair, [one, other] if one.name >= other.name)) {
            return Err("extended attributes are not sorted, or one is there twice");
        }
        if self
            .xattrs
            .iter()
            .any(|xattr| xattr.name.as_bytes().is_empty() || xattr.name.as_bytes().contains(&0))
        {
            return Err("an extended attribute has no proper name");
        }
        match &self.node {
            Node::File { size, content: Some(content) } if *size != content.len => {
                Err("size is not that of the content")
            }
            Node::Symlink { target } if target.as_bytes().is_empty() || target.as_bytes().contains(&0) => {
                Err("a link's target is empty or has a NUL")
            }
            _ => Ok(()),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    File,
    Dir,
    Symlink,
    Fifo,
    Socket,
    Char,
    Block,
}

/// An entry as it is in JSON: flat, with the members of every type.
#[derive(Serialize, Deserialize)]
struct WireEntry {
    name: FileName,
    #[serde(rename = "type")]
    kind: Type,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: Time,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content: Option<BlobRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tree: Option<ObjectRef<{ TREE.0 }>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<ByteText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    major: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    minor: Option<u32>,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    ino: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ctime: Option<Time>,
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    nlink: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    xattrs: Vec<Xattr>,
    #[serde(flatten)]
    extra: Extra,
}

impl From<Entry> for WireEntry {
    fn from(entry: Entry) -> Self {
        let mut wire = Self {
            name: entry.name,
            kind: Type::Fifo,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            size: None,
            content: None,
            tree: None,
            target: None,
            major: None,
            minor: None,
            ino: entry.ino,
            ctime: entry.ctime,
            nlink: entry.nlink,
            xattrs: entry.xattrs,
            extra: entry.extra,
        };
        match entry.node {
            Node::File { size, content } => {
                (wire.kind, wire.size, wire.content) = (Type::File, Some(size), content)
            }
            Node::Dir { tree } => (wire.kind, wire.tree) = (Type::Dir, Some(ObjectRef(tree))),
            Node::Symlink { target } => (wire.kind, wire.target) = (Type::Symlink, Some(target)),
            Node::Fifo => wire.kind = Type::Fifo,
            Node::Socket => wire.kind = Type::Socket,
            Node::Char { major, minor } => {
                (wire.kind, wire.major, wire.minor) = (Type::Char, Some(major), Some(minor));
            }
            Node::Block { major, minor } => {
                (wire.kind, wire.major, wire.minor) = (Type::Block, Some(major), Some(minor));
            }
        }
        wire
    }
}

impl TryFrom<WireEntry> for Entry {
    type Error = String;

    fn try_from(wire: WireEntry) -> Result<Self, String> {
        let device = wire.major.zip(wire.minor);
        let parts = (wire.size, wire.content, wire.tree, wire.target);
        let node = match (wire.kind, parts, device) {
            (Type::File, (Some(size), content, None, None), None) => Node::File { size, content },
            (Type::Dir, (None, None, Some(tree), None), None) => Node::Dir { tree: tree.0 },
            (Type::Symlink, (None, None, None, Some(target)), None) => Node::Symlink { target },
            (Type::Fifo, (None, None, None, None), None) => Node::Fifo,
            (Type::Socket, (None, None, None, None), None) => Node::Socket,
            (Type::Char, (None, None, None, None), Some((major, minor))) => Node::Char { major, minor },
            (Type::Block, (None, None, None, None), Some((major, minor))) => Node::Block { major, minor },
            _ => return Err(format!("what entry {:?} has does not fit its type", wire.name)),
        };
        Ok(Self {
            name: wire.name,
            node,
            mode: wire.mode,
            uid: wire.uid,
            gid: wire.gid,
            mtime: wire.mtime,
            ino: wire.ino,
            ctime: wire.ctime,
            nlink: wire.nlink,
            xattrs: wire.xattrs,
            extra: wire.extra,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::ManifestObject;
    use crate::tree::Tree;
    use cas_core::Kind;

    fn fault(change: impl FnOnce(&mut Entry)) -> String {
        let blob = BlobRef { id: ObjectId::from_bytes([1; 32]), kind: Kind::CHUNK, len: 3 };
        let node = Node::File { size: 3, content: Some(blob) };
        let mut entry = Entry::new(FileName::new("f").unwrap(), node);
        Tree::new(vec![entry.clone()]).unwrap().encode().unwrap();
        change(&mut entry);
        Tree::new(vec![entry]).unwrap_err().to_string()
    }

    #[test]
    fn each_rule_for_entries_refuses() {
        let xattr = |name: &str| Xattr { name: name.into(), value: ByteText::new([0xff]) };
        assert!(fault(|entry| entry.mode = 0o100_644).contains("permission bits"));
        assert!(fault(|entry| entry.mtime.nanoseconds = 1_000_000_000).contains("nanoseconds"));
        assert!(
            fault(|entry| entry.ctime = Some(Time { seconds: 0, nanoseconds: u32::MAX }))
                .contains("nanoseconds")
        );
        assert!(fault(|entry| entry.xattrs = vec![xattr("b"), xattr("a")]).contains("not sorted"));
        assert!(fault(|entry| entry.xattrs = vec![xattr("a"), xattr("a")]).contains("twice"));
        assert!(fault(|entry| entry.xattrs = vec![xattr("")]).contains("proper name"));
        assert!(fault(|entry| entry.node = Node::Symlink { target: "".into() }).contains("target"));
        assert!(
            fault(|entry| {
                if let Node::File { size, .. } = &mut entry.node {
                    *size = 4;
                }
            })
            .contains("size")
        );
    }
}
