//! The mount table.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Result, SandboxError};

/// One line of `mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mount {
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
    let target = front.split(' ').nth(4)?;
    let mut back = back.split(' ');
    let kind = back.next()?.to_owned();
    let super_options = back.nth(1).unwrap_or_default().to_owned();
    Some(Mount { target: unescape(target), kind, super_options })
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

/// What is mounted at or below this directory, deepest last.
pub fn leftover_mounts(under: &Path) -> Result<Vec<PathBuf>> {
    // The table knows no links. What is not there can have no mounts, but saying so is the table's business.
    let under = under.canonicalize().unwrap_or_else(|_| under.to_owned());
    Ok(table()?.into_iter().map(|mount| mount.target).filter(|target| target.starts_with(&under)).collect())
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
