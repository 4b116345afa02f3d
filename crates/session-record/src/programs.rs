//! Our own files in the memory of a session: the program that its box runs from, and the library that its commands load.
//!
//! Processes have them mapped, at a path in the state directory of the daemon that started them. On another machine, or after that directory
//! was removed, they are not there, and another version of them will not do. So a snapshot carries them: once for all snapshots, since
//! equal bytes are stored once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::progress::Silent;
use cas_core::{Store, WriteTransaction};
use history::HistoryError;
use manifest::snapshot::RootTarget;
use manifest::{BlobRef, Root, Section, Snapshot, TypedSection};
use sandbox::KEEPNAME_FILE;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::place::make;
use crate::record::Record;
use crate::section::SessionSection;

/// The program's name.
const BOX: &str = "infinijup-box";
/// What their roots are called in the section, before the name.
const ROOT: &str = "program:";
/// The attribute that says where they were.
const ATTRIBUTE: &str = "programs";
/// None is larger.
const LIMIT: u64 = 256 << 20;

#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Where {
    directory: PathBuf,
    /// Permissions, by name: a restore compares them.
    modes: BTreeMap<String, u32>,
}

/// Those of a snapshot.
#[derive(Debug)]
pub(crate) struct Programs {
    directory: PathBuf,
    files: Vec<(String, u32, BlobRef)>,
}

/// Adds them to the section of a session that runs. What the parent has of them already is not read again.
pub(crate) fn add(
    section: &mut Section,
    record: &Record,
    parent: Option<&Snapshot>,
    into: &WriteTransaction,
) -> Result<()> {
    let exe = record.init.and_then(|init| fs::read_link(format!("/proc/{}/exe", init.pid)).ok());
    let Some(exe) = exe.filter(|exe| exe.file_name().is_some_and(|name| name == BOX)) else { return Ok(()) };
    let Some(directory) = exe.parent().filter(|directory| directory.to_str().is_some()) else {
        return Ok(());
    };
    let mut place = Where { directory: directory.to_owned(), modes: BTreeMap::new() };
    let mut found = Vec::new();
    for name in [BOX, KEEPNAME_FILE] {
        let path = directory.join(name);
        // One that is not there was not there when the session began, or nobody can bring it back now.
        let Ok(facts) = fs::metadata(&path) else { continue };
        place.modes.insert(name.to_owned(), facts.permissions().mode() & 0o7777);
        found.push((name, path));
    }
    let known = parent.and_then(|parent| parent.section(SessionSection::NAME));
    let known = known.filter(|known| read(known).is_some_and(|known| known == place));
    for (name, path) in found {
        let root = format!("{ROOT}{name}");
        if let Some(root) = known.and_then(|known| known.root(&root)) {
            section.roots.push(root.clone());
            continue;
        }
        let mut file = File::open(&path).map_err(io_error("open", &path))?;
        let blob = into.put_blob(&mut file, &Silent).map_err(HistoryError::from)?;
        section.roots.push(Root::blob(root, blob.into()));
    }
    let place = serde_json::to_value(place).unwrap_or(Value::Null);
    section.attributes.insert(ATTRIBUTE.to_owned(), place);
    Ok(())
}

fn read(section: &Section) -> Option<Where> {
    serde_json::from_value(section.attributes.get(ATTRIBUTE)?.clone()).ok()
}

/// Where the files of ours were that a snapshot carries.
pub fn carried(snapshot: &Snapshot) -> Vec<PathBuf> {
    let programs = snapshot.section(SessionSection::NAME).and_then(Programs::of);
    programs.map_or_else(Vec::new, |found| {
        found.files.iter().map(|(name, ..)| found.directory.join(name)).collect()
    })
}

impl Programs {
    /// What a snapshot has of them.
    pub(crate) fn of(section: &Section) -> Option<Self> {
        let place = read(section).filter(|place| place.directory.is_absolute())?;
        let file = |(name, mode): (&String, &u32)| match section.root(&format!("{ROOT}{name}"))?.target {
            RootTarget::Blob(blob) if [BOX, KEEPNAME_FILE].contains(&name.as_str()) && blob.len <= LIMIT => {
                Some((name.clone(), *mode & 0o777, blob))
            }
            _ => None,
        };
        let files = place.modes.iter().filter_map(file).collect();
        Some(Self { directory: place.directory, files })
    }

    /// Writes those that are not where they were into a directory of the new session's: the old path of each, and the new one.
    pub(crate) fn bring(&self, store: &Store, to: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
        let mut brought = Vec::new();
        for (name, mode, blob) in &self.files {
            let old = self.directory.join(name);
            if fs::metadata(&old).is_ok_and(|facts| facts.len() == blob.len) {
                continue;
            }
            make(to)?;
            let new = to.join(name);
            let mut file = File::create(&new).map_err(io_error("create", &new))?;
            store.read_blob(&(*blob).into(), &mut file, &Silent).map_err(HistoryError::from)?;
            fs::set_permissions(&new, fs::Permissions::from_mode(*mode))
                .map_err(io_error("set the mode of", &new))?;
            brought.push((old, new));
        }
        Ok(brought)
    }
}
