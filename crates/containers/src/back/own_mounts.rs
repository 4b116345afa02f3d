//! What runc mounts for a restore, and that it is gone with it.
//!
//! `runc restore` mounts the container's root directory a second time, at `criu-root` in its own state directory, and its volumes below the root
//! directory; at its end it unmounts them. One that is killed in between leaves them mounted, and the next removal of the container
//! (`runc delete`, which empties the state directory) goes through the mount and removes the container's files. containerd's shim and podman
//! ask for that removal by themselves, at once. So nobody can come afterwards and put it right.
//!
//! So a runc that restores has a mount namespace of its own, and what it mounts goes away with it, however it ends. Changes that the machine makes reach
//! it, and its own reach nobody (`slave`). The container's own mount namespace is made by CRIU then, as always. runc is started by others below
//! containerd and podman: they are told of a program in its place, which does that for `restore` and is runc for everything else.
//!
//! What a runc of somebody else's has left is unmounted before any removal ([`remove_mounts`]).

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use base::io_error;

use super::error::{BackError, Result};
use super::second_root::{as_listed, mounts, unmount_second_root};
use crate::container::ContainerId;

/// A program to be used in the place of this runc: `program` is a path, or a name that is looked for where the program is started.
pub(super) fn in_place_of(program: &Path, programs: &Path) -> Result<PathBuf> {
    let normal = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    };
    let below: PathBuf = program.components().filter_map(normal).collect();
    let path = programs.join("runc-with-own-mounts").join(below);
    let directory = path.parent().unwrap_or(programs);
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    let quoted = quoted(program);
    let text = [
        "#!/bin/sh\n# What is mounted for a restore is gone with whoever mounted it.\nfor word; do\n    \
         [ \"$word\" = restore ] && exec unshare --mount --propagation slave -- "
            .as_bytes(),
        &quoted,
        b" \"$@\"\ndone\nexec ",
        &quoted,
        b" \"$@\"\n",
    ];
    write_program(&path, &text.concat())?;
    Ok(path)
}

/// A word for a shell. It is bytes: a path that is no text would name another file as soon as it is made one.
pub(super) fn quoted(path: &Path) -> Vec<u8> {
    let mut word = vec![b'\''];
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' => word.extend_from_slice(br"'\''"),
            other => word.push(*other),
        }
    }
    word.push(b'\'');
    word
}

/// Writes a program, which somebody may be running as it was.
pub(super) fn write_program(path: &Path, text: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!("{name}.{}", std::process::id()));
    let written = File::options().write(true).create(true).truncate(true).mode(0o700).open(&new);
    written.and_then(|mut file| file.write_all(text)).map_err(io_error("write", &new))?;
    Ok(fs::rename(&new, path).map_err(io_error("rename", &new))?)
}

/// Sees that nothing is mounted in the state directory of a container that is about to be removed.
pub(super) fn remove_mounts(state: &Path, id: &ContainerId) -> Result<()> {
    match unmount_left(state)? {
        None => Ok(()),
        Some(mounted) => Err(BackError::Refused {
            action: "the removal",
            container: id.to_string(),
            said: format!(
                "`{}` is mounted, and would be emptied by it; unmount that first, and try again",
                mounted.display()
            ),
        }),
    }
}

/// Unmounts what a restore has left in the state directory of a container; the path of what could not be unmounted, or is none of a
/// restore's. Whoever is told one must not have the directory removed.
fn unmount_left(state: &Path) -> Result<Option<PathBuf>> {
    let Ok(state) = fs::canonicalize(state) else { return Ok(None) };
    // Why it could not be unmounted matters less than that it is still there.
    let _left = unmount_second_root(&state);
    mounted_below(&state)
}

/// The outermost mount below a directory.
fn mounted_below(directory: &Path) -> Result<Option<PathBuf>> {
    let directory = as_listed(directory);
    let is_below = |target: &PathBuf| target.starts_with(&directory) && *target != directory;
    Ok(mounts()?.into_iter().filter(is_below).min_by_key(|target| target.as_os_str().len()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_is_in_the_place_of_runc_and_only_a_restore_has_mounts_of_its_own() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("it's here");
        fs::create_dir(&bin).unwrap();
        for (name, said) in [("runc", "runc"), ("unshare", "unshare")] {
            write_program(&bin.join(name), format!("#!/bin/sh\necho {said} \"$@\"\n").as_bytes()).unwrap();
        }
        let ask = |program: &Path, words: &[&str]| {
            let path = format!("{}:/bin:/usr/bin", bin.display());
            let done = Command::new(program).args(words).env("PATH", path).output().unwrap();
            String::from_utf8(done.stdout).unwrap()
        };
        for real in [PathBuf::from("runc"), bin.join("runc")] {
            let program = in_place_of(&real, home.path()).unwrap();
            assert_eq!(in_place_of(&real, home.path()).unwrap(), program);
            assert_eq!(ask(&program, &["--root", "/x y", "state", "c1"]), "runc --root /x y state c1\n");
            let told = ask(&program, &["--root", "/x y", "restore", "c1"]);
            let expected =
                format!("unshare --mount --propagation slave -- {} --root /x y restore c1\n", real.display());
            assert_eq!(told, expected);
        }
    }

    #[test]
    fn a_program_whose_path_is_no_text_is_the_one_that_is_run() {
        let home = tempfile::tempdir().unwrap();
        let real = home.path().join(OsStr::from_bytes(b"it's \xff here"));
        // What it would be called if it were made text.
        let other = home.path().join("it's \u{fffd} here");
        for (program, said) in [(&real, "the real one"), (&other, "another one")] {
            write_program(program, format!("#!/bin/sh\necho {said}\n").as_bytes()).unwrap();
        }
        let done = Command::new(in_place_of(&real, home.path()).unwrap()).arg("state").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "the real one\n");
    }

    #[test]
    fn a_state_directory_without_mounts_may_be_removed() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("criu-root")).unwrap();
        assert_eq!(unmount_left(home.path()).unwrap(), None);
        assert_eq!(unmount_left(&home.path().join("gone")).unwrap(), None);
    }

    #[test]
    fn what_is_mounted_somewhere_else_stands_in_the_way() {
        // Of a directory of the kernel's there is always a mount below.
        assert!(unmount_left(Path::new("/")).unwrap().is_some());
        assert_eq!(mounted_below(Path::new("/nowhere")).unwrap(), None);
    }
}
