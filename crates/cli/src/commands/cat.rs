//! `cat`

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use anyhow::Result;
use cas_core::blob::{Blob, List};
use cas_core::memory::{MapRoot, MemoryReader};
use cas_core::{Kind, ObjectId, Store, StoreError};
use manifest::{
    BlobRef, COMMIT, Commit, HEADER_LEN, ManifestObject, MapRef, Node, Root, RootTarget, SNAPSHOT, Section,
    Snapshot, TREE, Tree,
};

use super::target;
use crate::args::CatArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::objects::FromStore;
use crate::revision;

/// Memory is written in pieces of this size.
const PIECE: usize = 1 << 20;
/// No address space is larger.
const LAST_ADDRESS: u64 = 1 << 57;

pub(crate) fn run(context: &Context, args: &CatArgs) -> Result<()> {
    let store = target::open(context)?;
    let cat = Cat { context, store: &store, args };
    let what = args.what.as_bytes();
    match what.iter().position(|byte| *byte == b':') {
        Some(colon) => cat.part(OsStr::from_bytes(&what[..colon]), &what[colon + 1..]),
        None => cat.object(&args.what),
    }
}

struct Cat<'a> {
    context: &'a Context,
    store: &'a Arc<Store>,
    args: &'a CatArgs,
}

impl Cat<'_> {
    /// `REV:SECTION/NAME`
    fn part(&self, revision: &OsStr, path: &[u8]) -> Result<()> {
        let name = revision.to_string_lossy();
        let id = revision::resolve(self.store, Some(&name))?;
        let commit = Commit::load(&FromStore(self.store), &id)?;
        let snapshot = Snapshot::load(&FromStore(self.store), &commit.snapshot)?;
        let missing = || CliError::NotInSnapshot {
            what: format::safe_bytes(path),
            revision: name.clone().into_owned(),
        };
        let slash = path.iter().position(|byte| *byte == b'/');
        let (section, rest) = slash.map_or((path, &[][..]), |at| (&path[..at], &path[at + 1..]));
        let section =
            std::str::from_utf8(section).ok().and_then(|name| snapshot.section(name)).ok_or_else(missing)?;
        let (root, below) = find_root(section, rest).ok_or_else(missing)?;
        match root.target {
            RootTarget::Blob(_) | RootTarget::Memory(_) if !below.is_empty() => Err(missing().into()),
            RootTarget::Blob(blob) => self.blob(&blob),
            RootTarget::Memory(map) => self.memory(&map, &missing),
            RootTarget::Tree(tree) => self.file(tree, below, &missing),
            RootTarget::Object(kind, id) => self.raw(kind, &id),
        }
    }

    fn file(&self, mut tree: ObjectId, path: &[u8], missing: &dyn Fn() -> CliError) -> Result<()> {
        let wrong = |what: &str| CliError::Usage { what: format!("`{}` {what}", format::safe_bytes(path)) };
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            let directory = Tree::load(&FromStore(self.store), &tree)?;
            let entry = directory.get(name).ok_or_else(missing)?;
            match &entry.node {
                Node::Dir { tree: below } => tree = *below,
                _ if names.peek().is_some() => return Err(missing().into()),
                Node::File { content: Some(content), .. } => return self.blob(content),
                Node::File { content: None, .. } => {
                    return Err(wrong("was there, but its content was not captured").into());
                }
                Node::Symlink { target } => {
                    let target = format::safe_bytes(target.as_bytes());
                    return Err(wrong(&format!("is a symbolic link to `{target}`")).into());
                }
                _ => return Err(wrong("is neither a file nor a directory").into()),
            }
        }
        let what = if path.is_empty() {
            "the workspace".to_owned()
        } else {
            format!("`{}`", format::safe_bytes(path))
        };
        let what = format!("{what} is a directory: `infinijup show REV --files` lists what is in it");
        Err(CliError::Usage { what }.into())
    }

    fn blob(&self, blob: &BlobRef) -> Result<()> {
        self.no_address()?;
        if self.args.raw {
            return self.raw(blob.kind, &blob.id);
        }
        self.write(&Blob { id: blob.id, kind: blob.kind, len: blob.len })
    }

    fn write(&self, blob: &Blob) -> Result<()> {
        let mut reader = self.store.open_blob(blob)?;
        while let Some(chunk) = reader.next_chunk()? {
            self.context.printer.bytes(chunk)?;
        }
        Ok(())
    }

    fn memory(&self, map: &MapRef, missing: &dyn Fn() -> CliError) -> Result<()> {
        let (Some(address), Some(length)) = (self.args.address, self.args.length) else {
            if self.args.raw {
                return self.raw(Kind::MAP_NODE, &map.id);
            }
            let what = "this is memory: say which part with --address and --length".into();
            return Err(CliError::Usage { what }.into());
        };
        let absent = || match missing() {
            CliError::NotInSnapshot { what, revision } => {
                CliError::NotInSnapshot { what: format!("{what} at {address:#x}+{length:#x}"), revision }
            }
            other => other,
        };
        if address.checked_add(length).is_none_or(|end| end > LAST_ADDRESS) {
            return Err(absent().into());
        }
        let mut reader = MemoryReader::new(self.store.clone(), MapRoot { id: map.id, pages: map.pages })?;
        let mut buffer = Vec::new();
        let mut at = address;
        while at < address + length {
            let left = address + length - at;
            buffer.resize(usize::try_from(left).unwrap_or(PIECE).min(PIECE), 0);
            reader.read(at, &mut buffer).map_err(|error| match error {
                // All that was asked of the map is a range.
                StoreError::Invalid { .. } => anyhow::Error::from(absent()),
                other => other.into(),
            })?;
            self.context.printer.bytes(&buffer)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// Any object by its id.
    fn object(&self, what: &OsStr) -> Result<()> {
        self.no_address()?;
        let text = what.to_string_lossy();
        if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let what =
                format!("`{text}` is no object's id: for a part of a snapshot, write REV:SECTION/NAME");
            return Err(CliError::Usage { what }.into());
        }
        let (id, kind) = revision::object(self.store, &text)?;
        match kind {
            _ if self.args.raw => self.raw(kind, &id),
            Kind::CHUNK_LIST => {
                let list = List::parse(&self.store.get(kind, &id)?)
                    .map_err(|detail| StoreError::Malformed { id, detail })?;
                let len = list.items.iter().map(|item| item.len).sum();
                self.write(&Blob { id, kind, len })
            }
            TREE | SNAPSHOT | COMMIT => {
                let content = self.store.get(kind, &id)?;
                self.context.printer.bytes(content.get(HEADER_LEN..).unwrap_or_default())?;
                Ok(self.context.printer.bytes(b"\n")?)
            }
            _ => self.raw(kind, &id),
        }
    }

    fn raw(&self, kind: Kind, id: &ObjectId) -> Result<()> {
        Ok(self.context.printer.bytes(&self.store.get(kind, id)?)?)
    }

    fn no_address(&self) -> Result<()> {
        match self.args.address {
            None => Ok(()),
            Some(_) => {
                Err(CliError::Usage { what: "--address is for memory, and this is none".into() }.into())
            }
        }
    }
}

/// The root that a path begins with, and the rest of the path. Names of roots may contain slashes, so the longest name
/// counts. In a section with a single directory its name may be left out: `workspace/data.csv`.
fn find_root<'a, 'b>(section: &'a Section, path: &'b [u8]) -> Option<(&'a Root, &'b [u8])> {
    let below = |root: &Root| match path.strip_prefix(root.name.as_bytes())? {
        [] => Some(&path[path.len()..]),
        [b'/', rest @ ..] => Some(rest),
        _ => None,
    };
    let named = section.roots.iter().filter_map(|root| Some((root, below(root)?)));
    if let Some(found) = named.max_by_key(|(root, _)| root.name.len()) {
        return Some(found);
    }
    match &section.roots[..] {
        [root @ Root { target: RootTarget::Tree(_), .. }] => Some((root, path)),
        _ => None,
    }
}
