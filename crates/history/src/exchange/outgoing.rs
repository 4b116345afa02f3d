//! A snapshot becomes an archive that podman and checkpointctl read.
//!
//! What came out of an archive goes back as it was: its members byte for byte, its images, its files. Of a snapshot of our own the two
//! files that describe a container are made from what the snapshot knows; its files are the container's writable layer.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::progress::{Progress, Task};
use cas_core::{ObjectId, Store};
use checkpoint_archive::{
    ArchiveError, ArchiveWriter, Compression, Described, ImageWriter, Member, annotations,
};
use image_store::lay_out;
use manifest::snapshot::{
    ArchiveSection, CriuSection, GpuSection, HostSection, OutsideSection, WorkspaceSection,
};
use manifest::stored::FromStore;
use manifest::{Commit, ManifestObject, Section, Snapshot};
use serde_json::{Value, json};

use super::spool::{Spool, create};
use super::trees::Packing;
use crate::error::{HistoryError, Result};

/// Among the images of a container that was taken here: what it was made from, for people and for archives.
const SPECIFICATION: &str = "infinijup-specification.json";

/// Which form an archive has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArchiveForm {
    /// A tar file, for `podman container restore --import` and checkpointctl.
    Archive,
    /// An OCI image in a tar file, for `podman load`, registries and `podman container restore IMAGE`.
    Image,
}

/// How an archive is written.
pub struct ArchiveOut<'a> {
    /// The store that the snapshot is in.
    pub store: &'a Store,
    /// Which form.
    pub form: ArchiveForm,
    /// How the tar file, or the layer of the image, is compressed.
    pub compression: Compression,
    /// Where a directory can be made for as long as it takes.
    pub beside: &'a Path,
    /// How far it is.
    pub progress: &'a dyn Progress,
}

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Members of the archive.
    pub members: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What whoever uses it should know.
    pub warnings: Vec<&'static str>,
}

impl ArchiveOut<'_> {
    /// Writes the archive of a commit to `out`, which the caller makes durable.
    pub fn write(&self, id: &ObjectId, out: &mut dyn Write) -> Result<Written> {
        let source = FromStore(self.store);
        let commit = Commit::load(&source, id)?;
        let snapshot = Snapshot::load(&source, &commit.snapshot)?;
        if snapshot.get::<CriuSection>()?.is_none_or(|criu| criu.images.is_empty()) {
            return Err(ArchiveError::NoProcesses { commit: id.short() }.into());
        }
        let spool = Spool::new(self.beside)?;
        let images = spool.directory("images")?;
        lay_out(self.store, &id.short(), &snapshot, &images, self.progress)?;
        let described = described(id, &commit, &snapshot)?;
        self.progress.begin(Task::Transfer, None);
        let contents = Contents {
            out: self,
            commit: &commit,
            snapshot: &snapshot,
            spool: &spool,
            described: &described,
        };
        let written = match self.form {
            ArchiveForm::Archive => {
                let archive = ArchiveWriter::new(out, self.compression, commit.time.as_second());
                contents.write(archive.map_err(failed)?, &images).map(|(_, _, written)| written)
            }
            ArchiveForm::Image => self.image(id, &contents, &images, out),
        };
        self.progress.end(Task::Transfer);
        let mut written = written?;
        if described.image.is_empty() {
            written
                .warnings
                .push("it was no container: checkpointctl reads it, but no engine can restore it");
        }
        if snapshot.get::<GpuSection>()?.is_some_and(|gpu| gpu.is_beside()) {
            written.warnings.push("memory of GPUs is not in it: archives have no place for that");
        }
        Ok(written)
    }

    fn image(
        &self,
        id: &ObjectId,
        contents: &Contents<'_>,
        images: &Path,
        out: &mut dyn Write,
    ) -> Result<Written> {
        let path = contents.spool.path("layer");
        let time = contents.commit.time.as_second();
        let file = BufWriter::with_capacity(1 << 20, create(&path)?);
        let archive = ArchiveWriter::layer(file, self.compression, time).map_err(failed)?;
        let (file, layer, written) = contents.write(archive, images)?;
        drop(file.into_inner().map_err(|error| failed(error.into_error()))?);
        let said = annotations(contents.described, env!("CARGO_PKG_VERSION"));
        let image = ImageWriter {
            name: &format!("localhost/infinijup-checkpoint:{}", id.short()),
            architecture: architecture(&contents.described.architecture),
            created: &contents.described.checkpointed,
            annotations: &said,
        };
        let mut content = BufReader::new(File::open(&path).map_err(io_error("open", &path))?);
        image.write(out, &layer, &mut content).map_err(failed)?;
        Ok(written)
    }
}

fn failed(error: io::Error) -> HistoryError {
    io_error("write", "the archive")(error).into()
}

/// As images call it.
fn architecture(machine: &str) -> &str {
    match machine {
        "" | "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

struct Contents<'a> {
    out: &'a ArchiveOut<'a>,
    commit: &'a Commit,
    snapshot: &'a Snapshot,
    spool: &'a Spool,
    described: &'a Described,
}

impl Contents<'_> {
    fn write<W: Write>(
        &self,
        mut archive: ArchiveWriter<W>,
        images: &Path,
    ) -> Result<(W, checkpoint_archive::Layer, Written)> {
        let mut written = Written::default();
        let mut put = |member: &Member, size: u64, content: &mut dyn io::Read| -> Result<()> {
            archive.member(member, size, content).map_err(failed)?;
            self.out.progress.advance(Task::Transfer, size);
            written.members += 1;
            written.bytes += size;
            Ok(())
        };
        let came = self.snapshot.get::<ArchiveSection>()?;
        let files = match &came {
            Some(came) => {
                for (path, blob) in &came.members {
                    let Some(member) = Member::named(path) else { continue };
                    put(&member, blob.len, &mut self.out.store.open_blob(&(*blob).into())?)?;
                }
                self.files_that_came(came)?
            }
            None => {
                let config = self.described.config().to_string().into_bytes();
                for (member, bytes) in [(Member::Config, config), (Member::Spec, self.specification(images)?)]
                {
                    put(&member, bytes.len() as u64, &mut bytes.as_slice())?;
                }
                let (layer, deleted) = self.own_files()?;
                if !deleted.is_empty() {
                    let bytes = json!(deleted).to_string().into_bytes();
                    put(&Member::Deleted, bytes.len() as u64, &mut bytes.as_slice())?;
                }
                layer.into_iter().map(|path| (Member::Layer, path)).collect()
            }
        };
        for (member, path) in files {
            put_file(&mut put, &member, &path)?;
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(images).map_err(io_error("list", images))? {
            names.push(entry.map_err(io_error("list", images))?.file_name());
        }
        names.sort();
        for name in names {
            let path = images.join(&name);
            let member = name.to_str().and_then(Member::image);
            let bad = || HistoryError::BadSnapshot {
                commit: self.commit.snapshot.short(),
                detail: format!("{name:?} is not the name of an image"),
            };
            put_file(&mut put, &member.ok_or_else(bad)?, &path)?;
            // What is in the archive need not lie on the disk as well.
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
        let (out, layer) = archive.finish().map_err(failed)?;
        Ok((out, layer, written))
    }

    /// That of the container, which is no image of CRIU's; of what was none, one that asks for nothing.
    fn specification(&self, images: &Path) -> Result<Vec<u8>> {
        let path = images.join(SPECIFICATION);
        match fs::read(&path) {
            Ok(bytes) => {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(self.described.spec().to_string().into_bytes())
            }
            Err(error) => Err(io_error("read", path)(error).into()),
        }
    }

    /// The tar files that were in an archive, made again.
    fn files_that_came(&self, came: &ArchiveSection) -> Result<Vec<(Member, PathBuf)>> {
        let mut made = Vec::new();
        for (number, (path, (tree, _))) in came.files.iter().enumerate() {
            let Some(member) = Member::named(path).filter(Member::is_files) else { continue };
            let to = self.spool.path(&format!("files-{number}"));
            let out = BufWriter::with_capacity(1 << 18, create(&to)?);
            let mut packing = Packing::new(self.out.store, out, self.out.progress);
            packing.tree(b"", tree)?;
            packing.finish()?.flush().map_err(failed)?;
            made.push((member, to));
        }
        Ok(made)
    }

    /// Files of a snapshot of ours, where its processes see them; and those that overlayfs has marked as removed.
    fn own_files(&self) -> Result<(Option<PathBuf>, Vec<String>)> {
        let mut trees = Vec::new();
        if let Some(workspace) = self.snapshot.get::<WorkspaceSection>()?
            && let Some((tree, _)) = workspace.tree
        {
            trees.push((workspace.root.as_bytes().to_vec(), tree));
        }
        if let Some((tree, _)) = self.snapshot.get::<OutsideSection>()?.and_then(|outside| outside.tree) {
            trees.push((b"/".to_vec(), tree));
        }
        let to = self.spool.path("layer.tar");
        let out = BufWriter::with_capacity(1 << 18, create(&to)?);
        let mut packing = Packing::new(self.out.store, out, self.out.progress);
        for (root, tree) in trees {
            let below = Path::new(std::ffi::OsStr::from_bytes(&root));
            let below = below.strip_prefix("/").unwrap_or(below).as_os_str().as_bytes();
            packing.tree(below, &tree)?;
        }
        let (entries, deleted) = (packing.entries, std::mem::take(&mut packing.deleted));
        packing.finish()?.flush().map_err(failed)?;
        Ok(((entries > 0).then_some(to), deleted))
    }
}

fn put_file(
    put: &mut dyn FnMut(&Member, u64, &mut dyn io::Read) -> Result<()>,
    member: &Member,
    path: &Path,
) -> Result<()> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let size = file.metadata().map_err(io_error("look at", path))?.len();
    put(member, size, &mut BufReader::with_capacity(1 << 18, file))
}

/// What is known of the container that a snapshot is of, or of the session.
fn described(id: &ObjectId, commit: &Commit, snapshot: &Snapshot) -> Result<Described> {
    let host = snapshot.get::<HostSection>()?.map(|host| host.fingerprint).unwrap_or_default();
    let base = Described {
        id: id.to_string(),
        name: commit.thread.as_str().replace(['/', ' '], "-"),
        checkpointed: commit.time.to_string(),
        criu: host.criu_version.unwrap_or_default(),
        architecture: host.architecture,
        kernel: host.kernel_release,
        ..Described::default()
    };
    if let Some(came) = snapshot.get::<ArchiveSection>()? {
        let said = came.said;
        return Ok(Described {
            id: said.container_id,
            name: said.container,
            image: said.image,
            image_id: said.image_id,
            runtime: said.runtime,
            engine: said.engine,
            ..base
        });
    }
    let session = snapshot.section("session");
    let Some(container) = session.and_then(|session: &Section| session.attributes.get("container")) else {
        return Ok(base);
    };
    let text =
        |pointer: &str| container.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let engine = text("/runtime/kind");
    let runtime = if matches!(engine.as_str(), "runc" | "crun") { engine.clone() } else { "runc".to_owned() };
    let name = Some(text("/name")).filter(|name| !name.is_empty()).unwrap_or_else(|| text("/id"));
    Ok(Described {
        id: text("/id"),
        name,
        image: text("/image/name"),
        image_id: text("/image/digest").trim_start_matches("sha256:").to_owned(),
        runtime,
        engine,
        ..base
    })
}
