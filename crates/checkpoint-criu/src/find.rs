//! Where CRIU is.
//!
//! 1. What the caller or `$INFINIJUP_CRIU` names decides alone: when it is not there, no other place is tried.
//! 2. A CRIU of the machine's own, in a directory of `$PATH` or in `/usr/sbin`, which is not in the path of ordinary users. It is
//!    updated with the machine, so it is preferred, but only if it is new enough: Debian 12 has 3.17.
//! 3. `infinijup-criu` beside the running program, where `pip install "infinijup[criu]"` puts it.
//! 4. Where `scripts/install-criu.sh` puts it.
//!
//! If nothing else is there, an old one of the machine's is taken after all: whoever probes it is told its place and its version.
//!
//! CRIU is started inside of a session's box. That has the machine's files, but a `/dev`, a `/proc` and a `/run` of its own, so a CRIU below
//! one of these could not be started there, and is passed over.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{CriuError, Result};

/// The oldest version whose RPC and image format we rely on.
pub(crate) const OLDEST: (i32, i32, i32) = (4, 2, 0);
pub(crate) const OLDEST_SHOWN: &str = "4.2";

const BESIDE_US: &str = "infinijup-criu";
const FROM_SCRIPT: &str = "/opt/infinijup/criu/bin/criu";
const NOT_IN_A_BOX: [&str; 3] = ["/dev", "/proc", "/run"];

/// Where to look.
#[derive(Default)]
pub(crate) struct Places {
    /// Decides alone.
    pub(crate) named: Option<PathBuf>,
    /// Only if it is new enough.
    of_the_machine: Vec<PathBuf>,
    ours: Vec<PathBuf>,
}

impl Places {
    pub(crate) fn usual() -> Self {
        let named = std::env::var_os("INFINIJUP_CRIU").filter(|value| !value.is_empty()).map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { named, of_the_machine: of_the_machine(&path), ours: ours(std::env::current_exe().ok()) }
    }

    /// The first one that will do. `version` says which version one is, if it can be asked.
    pub(crate) fn choose(self, version: impl Fn(&Path) -> Option<(i32, i32, i32)>) -> Result<PathBuf> {
        if let Some(path) = self.named {
            return if is_program(&path) { Ok(path) } else { Err(not_found(vec![path])) };
        }
        let usable = |path: &&PathBuf| is_program(path) && in_a_box(path);
        let new_enough = |path: &&PathBuf| version(path).is_some_and(|version| version >= OLDEST);
        let of_the_machine = || self.of_the_machine.iter().filter(usable);
        of_the_machine()
            .find(new_enough)
            .or_else(|| self.ours.iter().find(usable))
            .or_else(|| of_the_machine().next())
            .cloned()
            .ok_or_else(|| not_found(self.of_the_machine.into_iter().chain(self.ours).collect()))
    }
}

fn of_the_machine(path: &OsStr) -> Vec<PathBuf> {
    let mut places = Vec::new();
    for directory in std::env::split_paths(path).chain([PathBuf::from("/usr/sbin")]) {
        let place = directory.join("criu");
        // A relative directory means another place with every change of the working directory.
        if directory.is_absolute() && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn ours(running: Option<PathBuf>) -> Vec<PathBuf> {
    let beside = running.as_deref().and_then(Path::parent).map(|directory| directory.join(BESIDE_US));
    beside.into_iter().chain([PathBuf::from(FROM_SCRIPT)]).collect()
}

fn not_found(looked_at_paths: Vec<PathBuf>) -> CriuError {
    CriuError::NotFound { looked_at_paths }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn in_a_box(path: &Path) -> bool {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    !NOT_IN_A_BOX.iter().any(|hidden| path.starts_with(hidden) || real.starts_with(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Programs that say which version they are by the name of their directory.
    fn programs(names: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &&str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let paths = names.iter().map(make).collect();
        (dir, paths)
    }

    fn version(path: &Path) -> Option<(i32, i32, i32)> {
        let name = path.parent()?.file_name()?.to_str()?;
        let mut numbers = name.split('.').map(|number| number.parse().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    }

    fn chosen(of_the_machine: &[PathBuf], ours: &[PathBuf]) -> PathBuf {
        let places = Places { named: None, of_the_machine: of_the_machine.into(), ours: ours.into() };
        places.choose(version).unwrap()
    }

    #[test]
    fn what_is_named_decides_alone() {
        let (_dir, paths) = programs(&["3.0.0/criu", "4.2.1/criu"]);
        let named = |path: &Path| Places {
            named: Some(path.to_owned()),
            of_the_machine: vec![paths[1].clone()],
            ours: Vec::new(),
        };
        assert_eq!(named(&paths[0]).choose(version).unwrap(), paths[0], "also an old one");
        let error = named(Path::new("/nowhere/criu")).choose(version).unwrap_err();
        assert_eq!(error.to_string(), "no criu program at `/nowhere/criu`");
    }

    #[test]
    fn the_machines_own_is_preferred_if_it_is_new_enough() {
        let (_dir, paths) = programs(&[
            "4.1.0/criu",
            "4.2.0/criu",
            "4.3.0/criu",
            "mute/criu",
            "venv/infinijup-criu",
            "opt/criu",
        ]);
        let [old, least, newer, mute, wheel, script] = paths.try_into().unwrap();
        let ours = [wheel.clone(), script.clone()];
        assert_eq!(
            chosen(&[least.clone(), newer.clone()], &ours),
            least,
            "the first of the path, as a shell would"
        );
        assert_eq!(chosen(&[old.clone(), mute.clone(), newer.clone()], &ours), newer);
        assert_eq!(chosen(&[old.clone(), mute], &ours), wheel);
        assert_eq!(chosen(&[], &[PathBuf::from("/nowhere/infinijup-criu"), script.clone()]), script);
        assert_eq!(chosen(std::slice::from_ref(&old), &[]), old, "its age is told by who probes it");
    }

    #[test]
    fn what_a_box_cannot_see_is_passed_over() {
        let (dir, paths) = programs(&["4.2.1/criu"]);
        let link = dir.path().join("criu");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        assert!(in_a_box(&paths[0]) && !in_a_box(&link));
        for hidden in ["/run/user/1000/venv/bin/infinijup-criu", "/proc/self/exe", "/dev/shm/criu"] {
            assert!(!in_a_box(Path::new(hidden)), "{hidden}");
        }
        assert!(in_a_box(Path::new("/running/criu")));
    }

    #[test]
    fn ordinary_users_find_what_only_root_has_in_the_path() {
        let places = of_the_machine(OsStr::new("/usr/local/bin:relative::/usr/bin:/usr/bin"));
        let expected = ["/usr/local/bin/criu", "/usr/bin/criu", "/usr/sbin/criu"].map(PathBuf::from);
        assert_eq!(places, expected);
        let beside = ours(Some(PathBuf::from("/home/mara/venv/bin/infinijupd")));
        assert_eq!(beside, ["/home/mara/venv/bin/infinijup-criu", FROM_SCRIPT].map(PathBuf::from));
    }

    #[test]
    fn all_places_are_named_where_there_is_none() {
        let places = Places {
            named: None,
            of_the_machine: vec![PathBuf::from("/nowhere/criu")],
            ours: vec![PathBuf::from("/nowhere/infinijup-criu")],
        };
        let error = places.choose(version).unwrap_err();
        assert_eq!(error.to_string(), "no criu program at `/nowhere/criu`, `/nowhere/infinijup-criu`");
        assert!(error.hint().unwrap().contains("infinijup[criu]"), "{error:?}");
    }
}
