//! Checkpoint archives of containers, for `export` and `import`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Result;
use cas_core::refs::RefChange;
use cas_core::{ObjectId, Store, StoreError};
use checkpoint_archive::{Compression, Limits};
use history::{ArchiveForm, ArchiveIn, ArchiveOut, Written};
use manifest::{ByteText, Thread};
use serde::Serialize;

use super::debug::author;
use super::export::to_new_file;
use super::import::{change, warn_unnamed};
use crate::args::{CheckpointForm, ImportArgs};
use crate::context::{Context, directory_of};
use crate::format;
use crate::objects::of_history;

/// The thread of a commit that was given none.
const IMPORTED: &str = "imported";

#[derive(Serialize)]
struct ArchiveExported {
    message_type: &'static str,
    commit: String,
    file: ByteText,
    form: &'static str,
    members: u64,
    content_bytes: u64,
}

/// Writes a snapshot as an archive.
pub(super) fn export(
    context: &Context,
    store: &Store,
    id: ObjectId,
    file: &Path,
    form: CheckpointForm,
) -> Result<()> {
    let stdout = file == Path::new("-");
    let (form, word) = match form {
        CheckpointForm::Archive => (ArchiveForm::Archive, "archive"),
        CheckpointForm::Image => (ArchiveForm::Image, "image"),
    };
    let job = ArchiveOut {
        store,
        form,
        compression: Compression::of_name(file.as_os_str().as_bytes()),
        beside: if stdout { store.root() } else { directory_of(file) },
        progress: &context.meter,
    };
    let write = |out: &mut dyn Write| job.write(&id, out).map_err(of_history);
    let written = if stdout {
        let mut out = io::BufWriter::with_capacity(1 << 20, io::stdout());
        let written = write(&mut out)?;
        out.flush().map_err(StoreError::io("write to", "stdout"))?;
        written
    } else {
        to_new_file(file, write)?
    };
    let Written { members, bytes, warnings } = written;
    if !stdout {
        let done = ArchiveExported {
            message_type: "archive_exported",
            commit: id.to_string(),
            file: format::json_path(file),
            form: word,
            members,
            content_bytes: bytes,
        };
        let line = format!(
            "wrote commit {} to {}: {} with {}",
            id.short(),
            file.display(),
            format::plural(members, "member"),
            format::size(bytes)
        );
        context.printer.data(&done, &[line])?;
    }
    for warning in warnings {
        context.printer.warning(warning);
    }
    if store.format().encrypted {
        context.printer.warning("the store is encrypted, the archive is not");
    }
    Ok(())
}

#[derive(Serialize)]
struct ArchiveImported<'a> {
    message_type: &'static str,
    commit: String,
    #[serde(rename = "ref")]
    name: Option<&'a str>,
    engine: &'a str,
    container: &'a str,
    image: &'a str,
    never_applied: &'a BTreeMap<String, u32>,
    left_out: &'a [String],
    new_objects: u64,
    new_stored_bytes: u64,
}

/// Reads an archive.
pub(super) fn import(
    context: &Context,
    args: &ImportArgs,
    store: &std::sync::Arc<Store>,
    name: Option<&str>,
    input: &mut dyn Read,
) -> Result<()> {
    let transaction = store.write(&[])?;
    let job = ArchiveIn {
        transaction: &transaction,
        beside: store.root(),
        limits: Limits { bytes: args.at_most, ..Limits::default() },
        progress: &context.meter,
    };
    let arrived = job.read(input).map_err(of_history)?;
    let said = &arrived.said;
    let message = format!("from an archive of {}: container {}", said.engine, named(&said.container));
    let thread = Thread::new(args.thread.as_deref().unwrap_or(IMPORTED))?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let id = arrived.commit(&transaction, author(host), thread, &message).map_err(of_history)?;
    transaction.flush()?;
    let changes: Vec<RefChange> = match name {
        Some(name) => change(store, name, id)?.into_iter().collect(),
        None => Vec::new(),
    };
    let stats = transaction.commit(&changes)?;
    let done = ArchiveImported {
        message_type: "archive_imported",
        commit: id.to_string(),
        name,
        engine: &said.engine,
        container: &said.container,
        image: &said.image,
        never_applied: &said.never_applied,
        left_out: &said.left_out,
        new_objects: stats.new_objects,
        new_stored_bytes: stats.new_stored,
    };
    let mut lines = vec![format!(
        "read container {} of {} as commit {}: {} new, {} stored",
        format::safe(named(&said.container)),
        said.engine,
        id.short(),
        format::plural(stats.new_objects, "object"),
        format::size(stats.new_stored)
    )];
    if !said.never_applied.is_empty() {
        let sorts: Vec<String> =
            said.never_applied.iter().map(|(sort, count)| format!("{count} {sort}")).collect();
        lines.push(format!("kept to look at, never applied: {}", sorts.join(", ")));
    }
    context.printer.data(&done, &lines)?;
    for left_out in &said.left_out {
        context.printer.note(&format!("not taken: {}", format::safe(left_out)));
    }
    warn_unnamed(context, name, &id);
    Ok(())
}

fn named(name: &str) -> &str {
    if name.is_empty() { "without a name" } else { name }
}
