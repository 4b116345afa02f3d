//! crun by itself, asked to make a container from images, and to remove one.
//!
//! Its commands have the words of runc's. What is different, seen with crun 1.28 and CRIU 4.2:
//!
//! - Masked files and directories have their own path as the name in the images, and crun says what lies there (`surroundings`).
//! - `crun restore` has CRIU put the processes into the cgroups that the images name; CRIU would call them by the specification's name if the
//!   images had more of them, but then it restores what the kernel does not let it write. So the images have the names alone, and a
//!   container in whose cgroup others were made, or whose cgroup is to be another one, is refused ([`Crun::accepts`],
//!   [`Crun::goes_back_into`]).
//! - One that was killed in the middle leaves mounts, and perhaps processes that nobody knows of (`crun_left`).
//! - It tells CRIU whether connections come back closed, by a word of its own.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::claimed::Claimed;
use super::crun_left::{end_nobodys, remove_cgroups, unmount_root};
use super::crun_state;
use super::error::{BackError, Result};
use super::restoring::Restore;
use super::runc::Runc;
use super::runc_state::RuncState;
use crate::command::{Said, ask};
use crate::container::ContainerId;
use crate::specification::Specification;

/// How long it may take to say which version it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first version that closes connections.
const LEAST: (u32, u32) = (1, 23);

/// A container of crun's, and how crun is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Crun<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its state directory.
    pub root: &'a Path,
    /// The container.
    pub id: &'a ContainerId,
    /// Where its specification is.
    pub bundle: &'a Path,
}

impl Crun<'_> {
    /// What it has written down about the container; an error if it could not restore that.
    pub(super) fn state(&self) -> Result<RuncState> {
        let said = match ask("crun", self.program, &["--version"], PATIENCE)? {
            Said::Answer(text) => String::from_utf8_lossy(&text).into_owned(),
            Said::Refused(why) => return Err(self.refused(&why)),
        };
        if let Some(why) = too_little(&said) {
            return Err(self.refused(&why));
        }
        crun_state::read(self.root, self.id)
    }

    /// Refuses images that crun would not restore, though the specification allows them.
    pub(super) fn accepts(&self, claimed: &Claimed) -> Result<()> {
        match claimed.cgroups {
            0 | 1 => Ok(()),
            several => Err(self.refused(&format!(
                "its processes are in {several} different cgroups, and crun's restore makes one"
            ))),
        }
    }

    /// Refuses to make it again in another cgroup than that which the images name.
    pub(super) fn goes_back_into(&self, then: &Specification, now: &Specification) -> Result<()> {
        let (before, after) = (then.cgroups_path(), now.cgroups_path());
        if before == after {
            return Ok(());
        }
        let word = |path: Option<&str>| path.unwrap_or("none of its own").to_owned();
        Err(self.refused(&format!(
            "its specification names the cgroup {} now, and it comes from {}, into which crun's restore would put it",
            word(after),
            word(before)
        )))
    }

    pub(super) fn restore(&self, wanted: &Restore<'_>, started: impl FnOnce(&Child)) -> Result<i32> {
        unmount_root(self.bundle)?;
        let made = self.as_runc().restore_with(wanted, &["--tcp-close"], started);
        if made.is_err() {
            // It was ended in the middle, or gave up.
            self.take_away_what_is_left()?;
        }
        made
    }

    pub(super) fn delete(&self, force: bool) -> Result<()> {
        if force {
            end_nobodys(self.root, self.bundle, self.id)?;
        }
        self.as_runc().delete(force)?;
        if force {
            self.take_away_what_is_left()?;
        }
        Ok(())
    }

    fn take_away_what_is_left(&self) -> Result<()> {
        end_nobodys(self.root, self.bundle, self.id)?;
        remove_cgroups(self.root, self.bundle, self.id)?;
        unmount_root(self.bundle)
    }

    const fn as_runc(&self) -> Runc<'_> {
        Runc { program: self.program, root: self.root, id: self.id }
    }

    pub(super) fn refused(&self, why: &str) -> BackError {
        BackError::NotThisSort { container: self.id.to_string(), why: why.to_owned() }
    }
}

/// What this crun lacks, by what it says of itself.
fn too_little(said: &str) -> Option<String> {
    let version = said.lines().find_map(|line| line.strip_prefix("crun version "))?.trim();
    let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
    let (major, minor) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if (major, minor) < LEAST {
        return Some(format!(
            "crun {version} cannot say that connections come back closed; {}.{} can",
            LEAST.0, LEAST.1
        ));
    }
    (!said.split_whitespace().any(|word| word == "+CRIU"))
        .then(|| format!("crun {version} was built without CRIU"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crun_that_can_do_too_little_is_told_by_its_own_words() {
        let said = "crun version 1.28\ncommit: 54f16ff\nrundir: /run/crun\nspec: 1.0.0\n+SYSTEMD +CAP +SECCOMP +EBPF +CRIU +JSON_C\n";
        assert_eq!(too_little(said), None);
        assert_eq!(too_little(&said.replace("1.28", "2.0-dirty")), None);
        assert!(too_little(&said.replace("1.28", "1.22.1")).unwrap().contains("1.23"));
        assert!(too_little(&said.replace("+CRIU ", "")).unwrap().contains("without CRIU"));
    }

    #[test]
    fn only_one_cgroup_and_the_same_one_is_accepted() {
        let id = ContainerId::new("c1").unwrap();
        let crun = Crun {
            program: Path::new("/nowhere"),
            root: Path::new("/nowhere"),
            id: &id,
            bundle: Path::new("/"),
        };
        crun.accepts(&Claimed { cgroups: 1, ..Claimed::default() }).unwrap();
        let error = crun.accepts(&Claimed { cgroups: 2, ..Claimed::default() }).unwrap_err();
        assert_eq!(error.code(), "IJ-O040");
        let at = |path: &str| {
            Specification::parse(format!(r#"{{"linux": {{"cgroupsPath": "{path}"}}}}"#).as_bytes()).unwrap()
        };
        crun.goes_back_into(&at("/a/b"), &at("/a/b")).unwrap();
        let error = crun.goes_back_into(&at("/a/b"), &at("/a/c")).unwrap_err().to_string();
        assert!(error.contains("/a/b") && error.contains("/a/c"), "{error}");
        assert_eq!(
            crun.goes_back_into(&at("/a/b"), &Specification::default()).unwrap_err().code(),
            "IJ-O040"
        );
    }
}
