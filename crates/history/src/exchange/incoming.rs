//! An archive of others becomes a snapshot.
//!
//! It is read once, as it comes. Images are laid out in a directory of our own, because the trust check and the store both want to see all of
//! them; files go straight into the store. Nothing that is stored leads anywhere before the last check has passed: who reads a hostile archive
//! has a few unnamed objects more, which the next gc deletes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::progress::Progress;
use cas_core::{ObjectId, WriteTransaction};
use checkpoint_archive::{
    ArchiveError, Claim, Found, Limits, Member, Take, check_memory_files, read_archive, read_files,
};
use image_store::ingest_images;
use image_trust::faults_of_container;
use jiff::Timestamp;
use manifest::snapshot::{ArchiveFacts, ArchiveSection};
use manifest::stored;
use manifest::{Author, BlobRef, Commit, CommitReason, Extra, Figures, Snapshot, Thread, TypedSection};
use serde_json::json;

use super::spool::{BlobFiles, Spool, create};
use super::trees;
use crate::error::{HistoryError, Result};

/// Texts about a container that are longer are no names.
const LONGEST: usize = 200;

/// How an archive is read.
pub struct ArchiveIn<'a> {
    /// The store that it goes into.
    pub transaction: &'a WriteTransaction,
    /// Where a directory can be made for as long as it takes.
    pub beside: &'a Path,
    /// How much of it is taken.
    pub limits: Limits,
    /// How far it is.
    pub progress: &'a dyn Progress,
}

/// An archive that is in the store now, and that nothing leads to yet.
#[derive(Debug)]
pub struct Arrived {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// What the archive says about itself.
    pub said: ArchiveFacts,
    /// What it asks for, and never gets.
    pub never_applied: Vec<Claim>,
    pub(super) figures: Figures,
}

impl ArchiveIn<'_> {
    /// Reads an archive in either form.
    pub fn read(&self, input: &mut dyn Read) -> Result<Arrived> {
        let spool = Spool::new(self.beside)?;
        let images = spool.directory("images")?;
        let mut blobs = BlobFiles::new(spool.directory("blobs")?);
        let mut taker = Taker {
            to: self,
            images: &images,
            section: ArchiveSection::default(),
            failed: None,
            deleted: Vec::new(),
        };
        let found = match read_archive(input, &self.limits, &mut blobs, &mut taker) {
            Ok(found) => found,
            Err(error) => return Err(taker.failed.unwrap_or_else(|| error.into())),
        };
        self.check_images(&images, &found)?;
        let Taker { mut section, deleted, .. } = taker;
        let claims = found.claims();
        section.said = facts(&found, &claims, &section.said.left_out);
        if !deleted.is_empty() {
            let all: Vec<String> = found.deleted.iter().cloned().chain(deleted).collect();
            section.members.insert(Member::Deleted.to_string(), self.json(&json!(all))?);
        }
        if !claims.is_empty() {
            let list = claims.iter().map(
                |claim| json!({ "what": claim.kind.as_str(), "place": claim.place, "text": claim.text }),
            );
            section.claims = Some(self.json(&list.collect())?);
        }
        let ingested = ingest_images(self.transaction, &images, None, None, self.progress)?;
        let sections =
            vec![ingested.memory.to_section()?, ingested.criu.to_section()?, section.to_section()?];
        let figures = Figures {
            new_bytes: Some(ingested.stats.new_bytes),
            memory_bytes: Some(ingested.stats.memory_bytes),
            ..Figures::default()
        };
        Ok(Arrived { snapshot: Snapshot::new(sections)?, said: section.said, never_applied: claims, figures })
    }

    /// The trust check, and a look into the tar files that CRIU itself would unpack.
    fn check_images(&self, images: &Path, found: &Found) -> Result<()> {
        let findings = faults_of_container(images).map_err(|error| match error {
            image_trust::TrustError::Io(error) => HistoryError::Io(error),
            other => ArchiveError::Untrusted { findings: vec![other.to_string()] }.into(),
        })?;
        if !findings.is_empty() {
            return Err(ArchiveError::Untrusted { findings }.into());
        }
        for member in found.members.keys() {
            if let Member::Image(name) = member
                && name.ends_with(".tar.gz.img")
            {
                let path = images.join(name);
                let file = File::open(&path).map_err(io_error("open", &path))?;
                check_memory_files(file, &self.limits)?;
            }
        }
        Ok(())
    }

    fn json(&self, value: &serde_json::Value) -> Result<BlobRef> {
        Ok(self.transaction.put_blob(&mut value.to_string().as_bytes(), self.progress)?.into())
    }
}

impl Arrived {
    /// Makes a commit of it, which nothing leads to yet, on a thread that need not be there. The id is that of the commit.
    pub fn commit(
        &self,
        transaction: &WriteTransaction,
        author: Author,
        thread: Thread,
        message: &str,
    ) -> Result<ObjectId> {
        let snapshot = stored::save(&self.snapshot, transaction)?;
        let commit = Commit {
            snapshot,
            parents: Vec::new(),
            thread,
            author,
            time: Timestamp::now(),
            order: None,
            message: message.to_owned(),
            label: None,
            reason: CommitReason::Manual,
            tags: BTreeSet::new(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            session: None,
            cell: None,
            figures: Some(Figures { bytes: Some(self.snapshot.bytes()), ..self.figures.clone() }),
            has_notebook: false,
            has_variables: false,
            extra: Extra::default(),
        };
        Ok(stored::save(&commit, transaction)?)
    }
}

/// What the archive says, cut to what can be shown.
fn facts(found: &Found, claims: &[Claim], left_out: &[String]) -> ArchiveFacts {
    let text = |key: &str| {
        found.config_text(key).chars().filter(|c| !c.is_control()).take(LONGEST).collect::<String>()
    };
    let first =
        |keys: &[&str]| keys.iter().map(|key| text(key)).find(|text| !text.is_empty()).unwrap_or_default();
    let mut never_applied: BTreeMap<String, u32> = BTreeMap::new();
    for claim in claims {
        *never_applied.entry(claim.kind.as_str().to_owned()).or_default() += 1;
    }
    ArchiveFacts {
        engine: found.engine().to_owned(),
        container: text("name"),
        container_id: text("id"),
        image: first(&["rootfsImageName", "rootfsImage"]),
        image_id: first(&["rootfsImageID", "rootfsImageRef"]),
        runtime: text("runtime"),
        annotations: found.annotations.clone(),
        never_applied,
        left_out: found.left_out.iter().chain(left_out).take(LONGEST).cloned().collect(),
    }
}

struct Taker<'a> {
    to: &'a ArchiveIn<'a>,
    images: &'a PathBuf,
    section: ArchiveSection,
    /// Files of the image that layers mark as removed.
    deleted: Vec<String>,
    /// Why something could not be kept.
    failed: Option<HistoryError>,
}

impl Take for Taker<'_> {
    fn take(&mut self, member: &Member, _: u64, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let kept = match member {
            Member::Image(name) => keep_image(&self.images.join(name), content).map_err(HistoryError::from),
            files if files.is_files() => self.files(files, content),
            _ => self.blob(content).map(|blob| {
                self.section.members.insert(member.to_string(), blob);
            }),
        };
        kept.map_err(|error| match error {
            HistoryError::Archive(error) => error,
            other => {
                self.failed = Some(other);
                ArchiveError::NotKept
            }
        })
    }
}

impl Taker<'_> {
    fn blob(&self, content: &mut dyn Read) -> Result<BlobRef> {
        Ok(self.to.transaction.put_blob(content, self.to.progress)?.into())
    }

    fn files(&mut self, member: &Member, content: &mut dyn Read) -> Result<()> {
        let mut failed = None;
        let read = read_files(content, &self.to.limits, &mut |_, content| {
            self.blob(content).map_err(|error| {
                failed = Some(error);
                ArchiveError::NotKept
            })
        });
        let files = match read {
            Ok(files) => files,
            Err(ArchiveError::NotKept) => return Err(failed.unwrap_or(ArchiveError::NotKept.into())),
            Err(error) => return Err(error.into()),
        };
        let tree = trees::save(self.to.transaction, &files.root)?;
        self.section.files.insert(member.to_string(), (tree, files.bytes));
        self.section.said.left_out.extend(files.left_out);
        let from_root = files.deleted.iter().map(|path| format!("/{}", String::from_utf8_lossy(path)));
        self.deleted.extend(from_root);
        Ok(())
    }
}

fn keep_image(path: &Path, content: &mut dyn Read) -> Result<(), base::IoError> {
    let mut file = create(path)?;
    io::copy(content, &mut file).map_err(io_error("write", path))?;
    Ok(())
}
