//! What would be lost with a branch's directory: files that were made or changed in it and that no snapshot has.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::SystemTime;

use base::io_error;
use sandbox::User;

use super::access::{Bases, Facts, open_directory};
use super::authors::time;
use super::capture::workspace_of;
use super::listing::{Listing, content};
use super::patterns::Patterns;
use super::walk::{Skipped, walk};
use super::{Base, Places};
use crate::error::Result;

/// A file that only its directory has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LooseFile {
    /// As the session sees it.
    pub path: PathBuf,
    /// How large it is.
    pub bytes: u64,
}

/// The files of a workspace, and of the copies outside of it, that have changed since they were made for the branch, and that `head`, its newest
/// snapshot, does not have as they are.
pub fn loose_files(user: &User, places: &Places, made: SystemTime, head: &Listing) -> Result<Vec<LooseFile>> {
    let (root, made) = (workspace_of(places), time(made));
    let is_loose = |path: &PathBuf, facts: &Facts| {
        let is_kept = |entry| content(entry).is_some() && facts.unchanged_since(entry);
        facts.is_file() && facts.ctime > made && !head.entries.get(path).is_some_and(is_kept)
    };
    let found = sandbox::as_user(user, || -> io::Result<Vec<LooseFile>> {
        let bases = Bases::open(places)?;
        let mut seen = Vec::new();
        if let Ok(handle) = bases.get(Base::Workspace) {
            let walked = walk(handle, &Patterns::everything(), &places.skipped())?;
            seen.extend(walked.seen.into_iter().map(|seen| (root.join(seen.path), seen.facts)));
        }
        for (inside, here) in places.mapped.iter().filter(|(_, here)| places.is_copy(here)) {
            // A copy of our own, which goes with the branch.
            if let Ok(handle) = open_directory(here) {
                let walked = walk(handle.as_fd(), &Patterns::everything(), &Skipped::default())?;
                seen.extend(walked.seen.into_iter().map(|seen| (inside.join(seen.path), seen.facts)));
            }
        }
        for (original, _) in &places.moved {
            if let Some(Ok(Some(facts))) = places.spot(original).map(|spot| bases.facts(&spot)) {
                seen.push((original.clone(), facts));
            }
        }
        seen.retain(|(path, facts)| is_loose(path, facts));
        Ok(seen.into_iter().map(|(path, facts)| LooseFile { path, bytes: facts.size }).collect())
    })?;
    Ok(found.map_err(io_error("look through", &root))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Home, age};

    #[test]
    fn what_was_written_since_and_is_in_no_snapshot_is_loose() {
        let home = Home::new();
        let copied = home.write("work/copied", "from the original");
        age(&copied);
        let made = SystemTime::now();
        // The clock of file systems lags behind by up to a tick.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let kept = home.write("work/kept", "in the snapshot");
        age(&kept);
        let head = home.capture_tree();
        let loose = |head: &Listing| loose_files(&home.user, &home.places, made, head).unwrap();
        assert_eq!(loose(&head), []);
        let new = home.write("work/dir/new", "12345");
        home.write("work/copied", "changed");
        let names: Vec<_> = loose(&head).into_iter().map(|file| (file.path, file.bytes)).collect();
        assert_eq!(names, [(copied, 7), (new, 5)]);
        assert_eq!(loose(&Listing::default()).len(), 3, "without a snapshot all that was written");
    }
}
