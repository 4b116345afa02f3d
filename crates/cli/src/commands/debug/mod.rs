//! `debug commit`: a snapshot of given files.

mod memory;
mod tree;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cas_core::memory::MapRoot;
use cas_core::progress::{Progress, Task};
use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, Store, StoreError, WriteTransaction};
use jiff::Timestamp;
use manifest::host::{HostFingerprint, probe};
use manifest::snapshot::{
    AddressSpace, CriuSection, HostSection, LabelSection, MemorySection, NotebookSection, WorkspacePolicy,
    WorkspaceSection,
};
use manifest::{
    Author, BlobRef, ByteText, Commit, CommitReason, Extra, ManifestObject, MapRef, Section, Snapshot,
    Thread, TypedSection,
};
use serde::Serialize;

use super::target::Target;
use crate::args::CommitArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::objects::{self, FromStore};
use crate::revision;

/// The one process that memory is of.
const SPACE: &str = "pid:1";

#[derive(Serialize)]
struct Committed<'a> {
    message_type: &'static str,
    commit: String,
    snapshot: String,
    thread: &'a str,
    new_objects: u64,
    new_content_bytes: u64,
    new_stored_bytes: u64,
}

pub(crate) fn run(context: &Context, args: &CommitArgs) -> Result<()> {
    let target = Target::of(context)?;
    if target.is_daemons() {
        let what = "snapshots of your own making do not belong into the daemon's store: name one in a folder with --store";
        return Err(CliError::Usage { what: what.to_owned() }.into());
    }
    let store = target.open(context)?;
    let thread = Thread::new(args.thread.as_str())?;
    let current = store.refs().get(&thread.ref_path())?;
    let parent = match (&args.from, current) {
        (Some(_), Some(_)) => {
            let what = format!("thread `{thread}` exists: --from is for a new one");
            return Err(CliError::Usage { what }.into());
        }
        (Some(from), None) => Some(revision::resolve(&store, Some(from))?),
        (None, current) => current,
    };
    let transaction = store.write(parent.as_slice())?;
    let before = match &parent {
        Some(id) => Some(Commit::load(&FromStore(&store), id)?),
        None => None,
    };
    let host = probe::probe(probe::Given::default())?;
    let sections =
        Sections { context, args, transaction: &transaction, store: &store, before: before.as_ref() };
    let snapshot = Snapshot::new(sections.all(&host)?)?;
    let snapshot = objects::save(&snapshot, &transaction)?;
    let mut commit = Commit {
        snapshot,
        parents: parent.into_iter().collect(),
        thread: thread.clone(),
        author: author(host.hostname),
        time: Timestamp::now(),
        order: None,
        message: args.message.clone(),
        label: args.label.clone(),
        reason: if args.from.is_some() { CommitReason::Branch } else { CommitReason::Manual },
        tags: BTreeSet::new(),
        tool: env!("CARGO_PKG_VERSION").to_owned(),
        session: None,
        cell: None,
        figures: None,
        has_notebook: false,
        has_variables: false,
        extra: Extra::default(),
    };
    commit.order_after(before.as_ref());
    let id = objects::save(&commit, &transaction)?;
    let expected = current.map_or(Expected::Absent, Expected::At);
    let stats = transaction.commit(&[RefChange { name: thread.ref_path(), expected, new: Some(id) }])?;
    let done = Committed {
        message_type: "committed",
        commit: id.to_string(),
        snapshot: snapshot.to_string(),
        thread: thread.as_str(),
        new_objects: stats.new_objects,
        new_content_bytes: stats.new_plain,
        new_stored_bytes: stats.new_stored,
    };
    let line = format!(
        "commit {} on {thread}: {} new, {} stored",
        id.short(),
        format::plural(stats.new_objects, "object"),
        format::size(stats.new_stored)
    );
    context.printer.data(&done, &[line])?;
    Ok(())
}

struct Sections<'a> {
    context: &'a Context,
    args: &'a CommitArgs,
    transaction: &'a WriteTransaction,
    store: &'a Store,
    before: Option<&'a Commit>,
}

impl Sections<'_> {
    fn all(&self, host: &HostFingerprint) -> Result<Vec<Section>> {
        let mut sections = vec![HostSection { fingerprint: host.clone() }.to_section()?];
        if !self.args.memory.is_empty() {
            sections.push(self.memory()?);
        }
        self.context.meter.begin(Task::IngestFiles, None);
        let files = self.files();
        self.context.meter.end(Task::IngestFiles);
        sections.extend(files?);
        if let Some(label) = &self.args.label {
            let view = LabelSection { label: label.clone(), ..LabelSection::default() };
            sections.push(view.to_section()?);
        }
        Ok(sections)
    }

    fn memory(&self) -> Result<Section> {
        let source = memory::open(&self.args.memory)?;
        let parent = self.parent_memory()?;
        let (map, _) = self.transaction.put_memory(&source, parent.as_ref(), &self.context.meter)?;
        let map = MapRef { id: map.id, pages: map.pages };
        let bytes = source.regions().iter().map(|region| region.len).sum();
        let space = AddressSpace { name: SPACE.to_owned(), map, bytes };
        Ok(MemorySection { spaces: vec![space] }.to_section()?)
    }

    /// The same process in the snapshot before, so that pages that did not change are shared.
    fn parent_memory(&self) -> Result<Option<MapRoot>> {
        let Some(before) = self.before else { return Ok(None) };
        let snapshot = Snapshot::load(&FromStore(self.store), &before.snapshot)?;
        let spaces = snapshot.get::<MemorySection>()?.map(|section| section.spaces).unwrap_or_default();
        let space = spaces.iter().find(|space| space.name == SPACE);
        Ok(space.map(|space| MapRoot { id: space.map.id, pages: space.map.pages }))
    }

    fn files(&self) -> Result<Vec<Section>> {
        let mut sections = Vec::new();
        let mut criu = CriuSection::default();
        for text in &self.args.blob {
            let (name, path) = split(text, b'=')
                .and_then(|(name, path)| Some((name.to_str()?, Path::new(path))))
                .ok_or_else(|| wrong(text, "NAME=PATH"))?;
            let blob = self.blob(path)?;
            if !name.ends_with(".ipynb") {
                criu.images.insert(name.to_owned(), blob);
                continue;
            }
            let kernel_name = "python3".to_owned();
            let view = NotebookSection { path: name.into(), content: blob, kernel_name, cell: None };
            sections.push(view.to_section()?);
        }
        if !criu.images.is_empty() {
            sections.push(criu.to_section()?);
        }
        if let Some(directory) = &self.args.tree {
            sections.push(self.workspace(directory)?);
        }
        Ok(sections)
    }

    fn workspace(&self, directory: &Path) -> Result<Section> {
        let directory = directory.canonicalize().map_err(StoreError::io("open", directory))?;
        let found = tree::store(self.transaction, &directory, &self.context.meter)?;
        let view = WorkspaceSection {
            policy: WorkspacePolicy::Tree,
            root: ByteText::new(directory.as_os_str().as_bytes()),
            tree: Some((found.tree, found.bytes)),
            not_captured: found.not_captured,
            open: None,
        };
        Ok(view.to_section()?)
    }

    fn blob(&self, path: &Path) -> Result<BlobRef> {
        put_file(self.transaction, path, &self.context.meter)
    }
}

fn put_file(transaction: &WriteTransaction, path: &Path, progress: &dyn Progress) -> Result<BlobRef> {
    let mut file = File::open(path).map_err(StoreError::io("open", path))?;
    let blob = transaction.put_blob(&mut file, progress)?;
    Ok(BlobRef { id: blob.id, kind: blob.kind, len: blob.len })
}

/// Splits at the first of these bytes.
fn split(text: &OsStr, at: u8) -> Option<(&OsStr, &OsStr)> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == at)?;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

fn wrong(text: &OsString, form: &str) -> CliError {
    CliError::Usage {
        what: format!("`{}` does not have the form {form}", format::safe_bytes(text.as_bytes())),
    }
}

/// Whoever runs this.
pub(super) fn author(host: String) -> Author {
    let uid = rustix::process::getuid().as_raw();
    let name = name_of(uid).or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| uid.to_string());
    Author { name, uid, host, extra: Extra::default() }
}

fn name_of(uid: u32) -> Option<String> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().map(|line| line.split(':'));
    fields.find_map(|mut line| {
        let name = line.next()?;
        (line.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

/// What was stored of a directory.
struct Stored {
    tree: ObjectId,
    bytes: u64,
    not_captured: Vec<manifest::snapshot::NotCaptured>,
}
