//! `export`

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Result;
use cas_core::archive::{Follow, Moved};
use cas_core::fsio::{self, Disk, DiskFile, LocalDisk};
use cas_core::{ObjectId, Store, StoreError};
use manifest::ByteText;
use serde::Serialize;

use super::{checkpoint_archive, target};
use crate::args::ExportArgs;
use crate::context::{Context, directory_of};
use crate::format;
use crate::objects::{ManifestReferences, of_history};
use crate::revision;

#[derive(Serialize)]
struct Exported {
    message_type: &'static str,
    commit: String,
    file: ByteText,
    history: bool,
    objects: u64,
    content_bytes: u64,
}

pub(crate) fn run(context: &Context, args: &ExportArgs) -> Result<()> {
    let store = target::open(context)?;
    let id = revision::resolve(&store, Some(&args.revision))?;
    if args.criu_images {
        return images(context, &store, id, &args.file);
    }
    if let Some(form) = args.checkpoint_image {
        return checkpoint_archive::export(context, &store, id, &args.file, form);
    }
    let follow = if args.history { Follow::All } else { Follow::Strong };
    let job = Job { context, store: &store, id, follow };
    if args.file == Path::new("-") {
        job.to_stdout()?;
        return Ok(());
    }
    let moved = to_new_file(&args.file, |out| job.write(out))?;
    let done = Exported {
        message_type: "exported",
        commit: id.to_string(),
        file: format::json_path(&args.file),
        history: args.history,
        objects: moved.objects,
        content_bytes: moved.bytes,
    };
    let line = format!(
        "wrote commit {} to {}: {} with {} of content",
        id.short(),
        args.file.display(),
        format::plural(moved.objects, "object"),
        format::size(moved.bytes)
    );
    context.printer.data(&done, &[line])?;
    if store.format().encrypted {
        context.printer.warning("the store is encrypted, the file is not");
    }
    Ok(())
}

#[derive(Serialize)]
struct ExportedImages {
    message_type: &'static str,
    commit: String,
    directory: ByteText,
}

/// CRIU's images instead of a file of ours.
fn images(context: &Context, store: &Store, id: ObjectId, directory: &Path) -> Result<()> {
    history::write_images(store, &id, directory, &context.meter).map_err(of_history)?;
    let done = ExportedImages {
        message_type: "images_exported",
        commit: id.to_string(),
        directory: format::json_path(directory),
    };
    let line = format!("wrote the processes of commit {} to {}", id.short(), directory.display());
    context.printer.data(&done, &[line])?;
    if store.format().encrypted {
        context.printer.warning("the store is encrypted, the images are not");
    }
    Ok(())
}

struct Job<'a> {
    context: &'a Context,
    store: &'a Store,
    id: ObjectId,
    follow: Follow,
}

impl Job<'_> {
    fn write(&self, out: &mut dyn Write) -> Result<Moved> {
        let references = ManifestReferences::ending_at_gaps();
        Ok(self.store.export(&self.id, self.follow, &references, out, &self.context.meter)?)
    }

    fn to_stdout(&self) -> Result<()> {
        let mut out = BufWriter::new(io::stdout());
        self.write(&mut out)?;
        out.flush().map_err(StoreError::io("write to", "stdout"))?;
        Ok(())
    }
}

/// The file appears whole or not at all, and never in the place of another.
pub(super) fn to_new_file<T>(path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    if path.symlink_metadata().is_ok() {
        return Err(StoreError::io("create", path)(rustix::io::Errno::EXIST.into()).into());
    }
    let directory = directory_of(path);
    let temporary = directory.join(format!(".infinijup-export-{}", fsio::random_name()?));
    let written = through(&temporary, path, write);
    if written.is_err() {
        // It may be gone or was never made.
        let _ = LocalDisk.remove(&temporary);
    }
    let written = written?;
    LocalDisk.sync_dir(directory).map_err(StoreError::io("sync directory", directory))?;
    Ok(written)
}

fn through<T>(temporary: &Path, path: &Path, write: impl FnOnce(&mut dyn Write) -> Result<T>) -> Result<T> {
    let file = LocalDisk.create(temporary).map_err(StoreError::io("create", temporary))?;
    let mut out = BufWriter::with_capacity(1 << 20, Out(file));
    let written = write(&mut out)?;
    let mut file = out.into_inner().map_err(|error| StoreError::io("write", path)(error.into_error()))?;
    file.0.sync().map_err(StoreError::io("sync", path))?;
    drop(file);
    LocalDisk.rename_new(temporary, path).map_err(StoreError::io("create", path))?;
    Ok(written)
}

struct Out(Box<dyn DiskFile>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
