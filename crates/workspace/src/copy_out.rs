//! Files of a snapshot are copied into a directory of the user's. Nothing that is there is touched: a name that is taken gets a number.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use base::io_error;
use cas_core::Store;
use manifest::{BlobRef, Entry};
use sandbox::User;

use super::access::{Bases, open_directory, reason};
use super::listing::{Listing, content};
use super::put_back::{fill, finish};
use super::{Base, Spot};
use crate::error::Result;

/// So many names are tried before one is given up.
const NAMES: u32 = 1000;

/// What is to be copied.
#[derive(Clone, Copy, Debug)]
pub struct CopyOut<'a> {
    /// Where the snapshot is.
    pub store: &'a Store,
    /// Whose rights decide.
    pub user: &'a User,
    /// The snapshot's files.
    pub from: &'a Listing,
    /// Those that are wanted, as the session saw them; all if there are none.
    pub paths: &'a [PathBuf],
    /// A directory that is there.
    pub into: &'a Path,
}

/// What was copied.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CopiedOut {
    /// Each file, and where it is now.
    pub written: Vec<(PathBuf, PathBuf)>,
    /// What could not be copied, and why.
    pub skipped: Vec<(PathBuf, String)>,
}

impl CopyOut<'_> {
    /// Copies.
    pub fn run(&self) -> Result<CopiedOut> {
        let target = sandbox::as_user(self.user, || open_directory(self.into))?
            .and_then(Bases::with_workspace)
            .map_err(io_error("open", self.into))?;
        let mut done = CopiedOut::default();
        for path in self.paths.iter().filter(|path| self.from.content(path).is_none()) {
            done.skipped.push((path.clone(), "the snapshot does not have it".to_owned()));
        }
        let wanted = |path: &Path| self.paths.is_empty() || self.paths.iter().any(|wanted| wanted == path);
        let files: Vec<(&Path, &Entry, BlobRef)> = self
            .from
            .files()
            .filter(|(path, _)| wanted(path))
            .filter_map(|(path, entry)| Some((path, entry, content(entry)?)))
            .collect();
        let above = common_directory(files.iter().map(|(path, ..)| *path));
        for (path, entry, content) in files {
            let below = path.strip_prefix(&above).unwrap_or(path);
            match sandbox::as_user(self.user, || free_file(&target, below))? {
                Ok((file, below)) => {
                    fill(self.store, &file, content, path)?;
                    // The copy is whole without its mode and time.
                    let _as_it_is = sandbox::as_user(self.user, || finish(&file, entry, false))?;
                    done.written.push((path.to_owned(), self.into.join(below)));
                }
                Err(error) => done.skipped.push((path.to_owned(), reason(&error))),
            }
        }
        Ok(done)
    }
}

/// The directory that all of them are in.
fn common_directory<'a>(mut paths: impl Iterator<Item = &'a Path>) -> PathBuf {
    let Some(first) = paths.next().and_then(Path::parent) else { return PathBuf::from("/") };
    let mut common = first.to_owned();
    for path in paths {
        while !path.starts_with(&common) && common.pop() {}
    }
    common
}

/// A new file at a path below the directory, or beside that if it is taken. On the user's thread.
fn free_file(target: &Bases, below: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1..=NAMES {
        let spot = Spot { base: Base::Workspace, below: numbered(below, number) };
        target.make_parents(&spot, |_| 0o700)?;
        match target.create_file(&spot) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (file, spot.below)),
        }
    }
    Err(io::Error::other("there are too many of its name"))
}

/// `data.csv`, `data (2).csv`, `data (3).csv` …
fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return path.to_owned();
    }
    let mut name = OsString::from(path.file_stem().unwrap_or_default());
    name.push(format!(" ({number})"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::Home;

    #[test]
    fn files_of_a_snapshot_come_out_and_nothing_is_overwritten() {
        let home = Home::new();
        let (one, two) = (home.write("work/a/one.csv", "1"), home.write("work/a/b/two", "2"));
        let from = home.capture_tree();
        fs::remove_file(&one).unwrap();
        let mine = home.write("elsewhere/one.csv", "mine");
        let into = home.path("elsewhere");
        let copy = |paths: &[PathBuf]| {
            CopyOut { store: &home.store, user: &home.user, from: &from, paths, into: &into }.run().unwrap()
        };
        let done = copy(&[]);
        let written = [(two, into.join("b/two")), (one.clone(), into.join("one (2).csv"))];
        assert_eq!((done.written.as_slice(), done.skipped.as_slice()), (written.as_slice(), [].as_slice()));
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
        assert_eq!(fs::read_to_string(into.join("one (2).csv")).unwrap(), "1");
        let done = copy(&[one.clone(), home.path("work/none")]);
        assert_eq!(done.written, [(one, into.join("one (3).csv"))]);
        assert_eq!(done.skipped.len(), 1);
    }

    #[test]
    fn names_get_a_number_before_their_ending() {
        for (name, said) in [("a/data.csv", "a/data (2).csv"), ("noend", "noend (2)"), (".env", ".env (2)")] {
            assert_eq!(numbered(Path::new(name), 2), Path::new(said));
        }
        assert_eq!(common_directory([Path::new("/a/b/c"), Path::new("/a/d")].into_iter()), Path::new("/a"));
        assert_eq!(common_directory([Path::new("/a/b/c")].into_iter()), Path::new("/a/b"));
    }
}
