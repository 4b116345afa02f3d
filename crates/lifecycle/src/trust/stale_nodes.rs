//! GPU nodes of another boot, taken out of the archive of a session's `/dev`.
//!
//! The number of `nvidia-uvm` is handed out when the driver is loaded, so a session that slept through a reboot can have the node of a
//! device that is something else by now. Such a node must never be made, and the check of the archives refuses it. But the session is
//! an honest one, and needs nothing of it: no process that was taken off its GPU has a device open, and the nodes that it is
//! to have now are made before it runs. So what does not fit this machine is left out of the plain images first. The images in
//! the store are as they were.
//!
//! Only plain nodes with a name of the driver's, directly in `/dev`, are left out. All else is left to the check.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use sandbox::{DeviceNode, User};

use super::archive::{BLOCK, Member, padded};

/// A `/dev` is small; what is larger is the content of somebody's shared memory.
const LARGEST: u64 = 4 << 20;

/// Leaves them out of the images in `dir`. An archive that cannot be read is left as it is, for the check to refuse.
pub(super) fn drop_from(dir: &Path, user: &User, devices: &[DeviceNode]) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let is_archive = name.starts_with("tmpfs-dev-") && name.ends_with(".img");
        // what was not finished is no image
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if !is_archive || fs::symlink_metadata(&path)?.len() > LARGEST {
            continue;
        }
        if let Some(rest) = unpacked(&path, user)?.and_then(|bytes| without_stale(&bytes, devices)) {
            pack(&new, &rest, user)?;
            fs::rename(&new, &path)?;
        }
    }
    Ok(())
}

/// `gzip` with nothing but the user's rights: it reads what may be crafted.
fn gzip(user: &User) -> Command {
    let mut command = Command::new("gzip");
    command.stderr(Stdio::null());
    if rustix::process::geteuid().is_root() {
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// The tar in it; `None` if it is not what it should be.
fn unpacked(archive: &Path, user: &User) -> io::Result<Option<Vec<u8>>> {
    let mut child = gzip(user).arg("-dc").stdin(File::open(archive)?).stdout(Stdio::piped()).spawn()?;
    let mut bytes = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(LARGEST + 1).read_to_end(&mut bytes)?;
    }
    let whole = bytes.len() as u64 <= LARGEST;
    if !whole {
        child.kill()?;
    }
    Ok((child.wait()?.success() && whole).then_some(bytes))
}

fn pack(new: &Path, bytes: &[u8], user: &User) -> io::Result<()> {
    let file = File::options().write(true).create_new(true).mode(0o600).open(new)?;
    let mut child = gzip(user).arg("-c").stdin(Stdio::piped()).stdout(file).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(bytes)?;
    }
    if child.wait()?.success() { Ok(()) } else { Err(io::Error::other("gzip failed")) }
}

/// The archive without nodes that do not fit this machine; `None` if there are none, or if it is not understood.
fn without_stale(bytes: &[u8], devices: &[DeviceNode]) -> Option<Vec<u8>> {
    let (mut kept, mut rest, mut changed) = (Vec::with_capacity(bytes.len()), bytes, false);
    let mut has_long_name = false;
    loop {
        let header: &[u8; BLOCK] = rest.first_chunk()?;
        if header.iter().all(|byte| *byte == 0) {
            kept.extend_from_slice(rest);
            return changed.then_some(kept);
        }
        let member = Member::read(header).ok()?;
        // a sparse file has further headers; no device does
        if member.kind == b'S' {
            return None;
        }
        let length = BLOCK.checked_add(usize::try_from(padded(member.size)).ok()?)?;
        let (whole, after) = rest.split_at_checked(length)?;
        let name: PathBuf = member.name.components().filter(|part| *part != Component::CurDir).collect();
        let is_node = member.kind == b'3' && name.to_str().is_some_and(DeviceNode::is_known);
        if is_node && !has_long_name && !member.is_one_of(&name, devices) {
            changed = true;
        } else {
            kept.extend_from_slice(whole);
        }
        has_long_name = matches!(member.kind, b'L' | b'K');
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::super::archive;
    use super::*;

    fn me() -> User {
        User::by_uid(rustix::process::getuid().as_raw()).unwrap()
    }

    /// Packs a directory as CRIU does.
    fn packed(content: &Path, archive: &Path) {
        let done = Command::new("tar")
            .args(["--create", "--gzip", "--sparse", "--numeric-owner", "--format=gnu", "--directory"])
            .arg(content)
            .arg("--file")
            .arg(archive)
            .arg(".")
            .status();
        assert!(done.unwrap().success());
    }

    fn node(directory: &Path, name: &str, major: u32, minor: u32) {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, directory.join(name), FileType::CharacterDevice, mode, makedev(major, minor)).unwrap();
    }

    #[test]
    fn a_node_of_before_the_reboot_is_left_out_and_the_rest_stays() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (content, images) = (dir.path().join("content"), dir.path().join("images"));
        fs::create_dir(&content).unwrap();
        fs::create_dir(&images).unwrap();
        node(&content, "null", 1, 3);
        node(&content, "nvidia0", 195, 0);
        node(&content, "nvidia-uvm", 507, 0);
        fs::write(content.join("n".repeat(200)), vec![7; 5000]).unwrap();
        std::os::unix::fs::symlink("pts/ptmx", content.join("ptmx")).unwrap();
        let archive = images.join("tmpfs-dev-77.tar.gz.img");
        packed(&content, &archive);
        fs::write(images.join("tmpfs-dev-77.tar.gz.new"), b"cut short").unwrap();
        let now: Vec<DeviceNode> = [("nvidia0", 195), ("nvidia-uvm", 511)]
            .map(|(name, major)| DeviceNode { name: name.to_owned(), major, minor: 0 })
            .to_vec();
        assert!(!archive::check(&archive, &me(), &now).is_empty(), "it has a node of something else");

        drop_from(&images, &me(), &now).unwrap();
        assert_eq!(archive::check(&archive, &me(), &now), Vec::<String>::new());
        let listed = Command::new("tar").arg("-tzf").arg(&archive).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let mut names: Vec<&str> = listed.lines().map(|line| line.trim_start_matches("./")).collect();
        names.sort_unstable();
        assert_eq!(names, ["", &"n".repeat(200), "null", "nvidia0", "ptmx"]);
        assert_eq!(fs::read_dir(&images).unwrap().count(), 1, "nothing else is left behind");

        let before = fs::read(&archive).unwrap();
        drop_from(&images, &me(), &now).unwrap();
        assert_eq!(fs::read(&archive).unwrap(), before, "nothing to do, nothing done");
    }

    #[test]
    fn what_is_not_understood_is_left_for_the_check() {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("tmpfs-dev-1.tar.gz.img");
        fs::write(&archive, b"nonsense").unwrap();
        drop_from(dir.path(), &me(), &[]).unwrap();
        assert_eq!(fs::read(&archive).unwrap(), b"nonsense");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..2000)) {
            let _ = without_stale(&bytes, &[]);
        }
    }
}
