//! The files that CRIU will open again: programs, libraries, data that is mapped, files that are open, directories that somebody is in.
//!
//! A restored process has only those pages of a library in its snapshot that it wrote to; the rest is read from the file again. So it must be
//! the same file. CRIU refuses one of another size or with another build id, but in the middle of a restore, and names the first one. Here all are
//! looked at, and told together.
//!
//! What comes with the snapshot is not looked at: the workspace, files that were captured, what a box makes anew, our own programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use checkpoint_criu::images::{FileKind, RegFile};
use doctor::Finding;
use image_store::{Result, images_in_memory};
use memchr::memmem;
use workspace::lies_at;

use crate::{Asked, fail};

/// Where build ids are: mostly among the first bytes, and CRIU looks no further than the last.
const FIRST: usize = 8 << 10;
const FURTHEST: u64 = 1 << 20;
/// So many are named.
const NAMED: usize = 4;
/// The kind of a file in its mode.
const KIND: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const REGULAR: u32 = 0o100_000;

/// What was found of one file.
enum Seen {
    /// It is not there, and this is the first directory that is not, or the file itself.
    Absent(PathBuf),
    /// It is there, and another.
    Other(&'static str),
    Unreadable,
}

/// Looks at all of them.
pub(crate) fn look(asked: &Asked<'_>) -> Result<Vec<Finding>> {
    let images =
        images_in_memory(asked.store, asked.commit, asked.snapshot, &["files.img", "remap-fpath.img"])?;
    // A snapshot without processes has none.
    let Ok(files) = images.files() else { return Ok(Vec::new()) };
    // What was deleted while it was open is in the images.
    let deleted: BTreeSet<u32> =
        images.remaps().unwrap_or_default().iter().map(|remap| remap.original_id).collect();
    let brought = session_record::carried(asked.snapshot);
    let mut found = Found::default();
    for file in &files {
        let FileKind::Reg(file) = &file.kind else { continue };
        let path = file.path();
        let comes_with_it = path.starts_with(&asked.record.workspace)
            || session_record::MADE_ANEW.iter().any(|place| path.starts_with(place))
            || asked.files.content(path).is_some()
            || brought.iter().any(|ours| ours == path);
        if !path.is_absolute() || comes_with_it || file.external == Some(true) || deleted.contains(&file.id) {
            continue;
        }
        let copy =
            asked.record.outside_copies.iter().find(|(old, _)| old == path).map(|(_, copy)| copy.clone());
        let here = copy.unwrap_or_else(|| lies_at(&asked.record.mapped, path));
        found.add(path, seen(&here, file));
    }
    Ok(found.findings())
}

/// What is wrong with a file, if anything is.
fn seen(here: &Path, wanted: &RegFile) -> Option<Seen> {
    let facts = match fs::metadata(here) {
        Ok(facts) => facts,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Some(Seen::Absent(first_absent(here)));
        }
        Err(_) => return Some(Seen::Unreadable),
    };
    match wanted.mode.map(|mode| mode & KIND) {
        Some(DIRECTORY) => (!facts.is_dir()).then_some(Seen::Other("no directory")),
        Some(REGULAR) if !facts.is_file() => Some(Seen::Other("no plain file")),
        Some(REGULAR) => match wanted.size {
            Some(size) if size != facts.len() => Some(Seen::Other("of another size")),
            Some(_) if !wanted.build_id.is_empty() => match has_build_id(here, &wanted.build_id) {
                Ok(true) => None,
                Ok(false) => Some(Seen::Other("of another build")),
                Err(_) => Some(Seen::Unreadable),
            },
            _ => None,
        },
        // Sockets and named pipes are made anew.
        _ => None,
    }
}

/// The first part of a path that does not exist.
fn first_absent(path: &Path) -> PathBuf {
    let above: Vec<&Path> = path.ancestors().collect();
    above.into_iter().rev().find(|part| !part.exists()).unwrap_or(path).to_owned()
}

/// Whether a file has this build id. Such an id is a hash, so that its bytes are there is enough, and nothing of somebody's file is parsed.
fn has_build_id(path: &Path, words: &[u32]) -> std::io::Result<bool> {
    let id: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    // CRIU fills the last word up with zeros.
    let id =
        id.strip_suffix(&[0, 0, 0]).or(id.strip_suffix(&[0, 0])).or(id.strip_suffix(&[0])).unwrap_or(&id);
    let mut file = File::open(path)?;
    let mut bytes = vec![0; FIRST];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    let is_in = |bytes: &[u8]| memmem::find(bytes, id).is_some();
    if is_in(&bytes) {
        return Ok(true);
    }
    file.take(FURTHEST).read_to_end(&mut bytes)?;
    Ok(is_in(&bytes))
}

/// What was found of all.
#[derive(Default)]
struct Found {
    /// By the first directory that is not there.
    absent: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    other: BTreeMap<&'static str, BTreeSet<PathBuf>>,
    unreadable: BTreeSet<PathBuf>,
}

impl Found {
    fn add(&mut self, path: &Path, seen: Option<Seen>) {
        let set = match seen {
            None => return,
            Some(Seen::Absent(first)) => self.absent.entry(first).or_default(),
            Some(Seen::Other(how)) => self.other.entry(how).or_default(),
            Some(Seen::Unreadable) => &mut self.unreadable,
        };
        set.insert(path.to_owned());
    }

    fn findings(self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (first, files) in &self.absent {
            let (item, evidence) = match files.contains(first) {
                true => (
                    "file-missing",
                    format!("`{}` is not here, and a process has it in use", first.display()),
                ),
                false => (
                    "directory-missing",
                    format!(
                        "`{}` is not here, and processes use {} in it: {}",
                        first.display(),
                        count(files),
                        names(files)
                    ),
                ),
            };
            findings.push(fail(item, evidence, "mount, copy or install it here as it was there, or say where it lies: `--map OLD=NEW`, for `infinijup check` and `infinijup branch`"));
        }
        for (how, files) in &self.other {
            let (verb, of) = (if files.len() == 1 { "is" } else { "are" }, names(files));
            let evidence = format!("{} that processes use {verb} {how} here: {of}", count(files));
            let fix = "install the versions that the snapshot was taken with: the same packages, the same Python environment";
            findings.push(fail("file-other", evidence, fix));
        }
        if !self.unreadable.is_empty() {
            let evidence = format!(
                "you may not read {} that processes have in use: {}",
                count(&self.unreadable),
                names(&self.unreadable)
            );
            findings.push(fail("file-unreadable", evidence, "have the rights changed, as they were there"));
        }
        findings
    }
}

fn count(files: &BTreeSet<PathBuf>) -> String {
    match files.len() {
        1 => "a file".to_owned(),
        number => format!("{number} files"),
    }
}

fn names(files: &BTreeSet<PathBuf>) -> String {
    let mut names: Vec<String> =
        files.iter().take(NAMED).map(|path| format!("`{}`", path.display())).collect();
    if files.len() > NAMED {
        names.push(format!("and {} more", files.len() - NAMED));
    }
    names.join(", ")
}
