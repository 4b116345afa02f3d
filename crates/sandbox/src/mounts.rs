//! The mount table, the private root of a box, and taking mounts away again.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};

use crate::error::{Result, SandboxError};

/// One line of `mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    /// Device and path in it: what is mounted.
    pub(crate) source: (String, String),
    pub(crate) target: PathBuf,
    pub(crate) kind: String,
    pub(crate) super_options: String,
}

/// Reads the text of a `mountinfo` file. Lines that make no sense are left out.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ').skip(2);
    let source = (front.next()?.to_owned(), front.next()?.to_owned());
    let target = front.next()?;
    let mut back = back.split(' ');
    let kind = back.next()?.to_owned();
    let super_options = back.nth(1).unwrap_or_default().to_owned();
    Some(Mount { source, target: unescape(target), kind, super_options })
}

/// The kernel writes blank, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let bytes = field.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes.get(at + 1..at + 4).and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok()
        });
        match code {
            Some(code) if byte == b'\\' => {
                plain.push(code);
                at += 4;
            }
            _ => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(plain))
}

/// Our own mount table, in the order in which it was mounted.
pub(crate) fn table() -> Result<Vec<Mount>> {
    let path = Path::new("/proc/self/mountinfo");
    Ok(parse(&fs::read_to_string(path).map_err(SandboxError::io("read", path))?))
}

/// A second view of `/`, on which a box is built: a bind of the root file system alone, without what is mounted in it.
///
/// It is needed only while a box is launched or restored; the box keeps its own. Dropping it takes the mount away.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Makes it at `path`, a directory that is made if it is missing. What a crash has left mounted there goes first.
    pub fn at(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(SandboxError::io("make", path))?;
        let path = &path.canonicalize().map_err(SandboxError::io("open", path))?;
        unmount_all(path)?;
        mount_bind("/", path).map_err(SandboxError::io("bind the root to", path))?;
        let root = Self { path: path.clone() };
        // CRIU and pivot_root both refuse a root whose mounts travel to others.
        mount_change(path, MountPropagationFlags::PRIVATE).map_err(SandboxError::io("make private", path))?;
        Ok(root)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away and says what went wrong; dropping it does the same in silence.
    pub fn unmount(self) -> Result<()> {
        self.release()
    }

    fn release(&self) -> Result<()> {
        if !table()?.iter().any(|mount| mount.target == self.path) {
            return Ok(());
        }
        unmount(&self.path, UnmountFlags::DETACH).map_err(SandboxError::io("unmount", &self.path))?;
        // Never recursive: should the unmount have gone wrong, this directory is the machine's own root.
        fs::remove_dir(&self.path).map_err(SandboxError::io("remove", &self.path))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // Nobody to tell; `leftover_mounts` finds what stays.
        let _ = self.release();
    }
}

/// What is mounted at or below this directory, deepest last.
pub fn leftover_mounts(under: &Path) -> Result<Vec<PathBuf>> {
    // The table knows no links. What is not there can have no mounts, but saying so is the table's business.
    let under = under.canonicalize().unwrap_or_else(|_| under.to_owned());
    Ok(table()?.into_iter().map(|mount| mount.target).filter(|target| target.starts_with(&under)).collect())
}

/// Unmounts everything at or below this directory, and says how many mounts that were.
pub fn unmount_all(under: &Path) -> Result<usize> {
    let mounts = leftover_mounts(under)?;
    for target in mounts.iter().rev() {
        unmount(target, UnmountFlags::DETACH).map_err(SandboxError::io("unmount", target))?;
    }
    Ok(mounts.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_read_with_its_escapes() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n\
                    37 35 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                    not a line\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].target, Path::new("/mnt 2"));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].super_options.as_str()), ("cgroup", "rw,memory"));
    }

    proptest::proptest! {
        #[test]
        fn any_target_survives_the_kernels_escapes(name in "[ -~\\t\\n]{0,40}") {
            let escaped: String = name
                .chars()
                .map(|c| match c {
                    ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", u32::from(c)),
                    c => c.to_string(),
                })
                .collect();
            let mounts = parse(&format!("36 35 98:0 / /{escaped} rw shared:1 - ext3 /dev/root rw"));
            proptest::prop_assert_eq!(&mounts[0].target, &PathBuf::from(format!("/{name}")));
        }

        #[test]
        fn any_text_is_survived(text in ".{0,200}") {
            let _ = parse(&text);
        }
    }
}
