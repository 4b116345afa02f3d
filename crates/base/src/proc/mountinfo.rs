//! `/proc/PID/mountinfo`: a line for each mount, `36 35 98:0 /root /point options … - type source super-options`.
//!
//! Between the options and the `-` stand as many fields as there are kinds of propagation (`shared:9`, `master:1`). Paths have blanks, tabs,
//! newlines and backslashes written as three octal digits.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// What of the file system is mounted.
    pub root: PathBuf,
    /// Where.
    pub target: PathBuf,
    /// The options of this mount.
    pub options: String,
    /// How mounts spread from it and to it: `shared:9`, `master:1` …; empty if they do not.
    pub propagation: Vec<String>,
    /// The kind of file system.
    pub kind: String,
    /// Where it comes from: a device, a server, or a word.
    pub source: PathBuf,
    /// The options of the file system, with commas between them.
    pub super_options: String,
}

impl Mount {
    /// Reads a line; `None` if it makes no sense.
    pub fn parse(line: &str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, target, options) = (front.next()?, front.next()?, front.next()?);
        let mut back = back.split(' ');
        let (kind, source) = (back.next()?, back.next().unwrap_or_default());
        Some(Self {
            root: unescape(root),
            target: unescape(target),
            options: options.to_owned(),
            propagation: front.map(str::to_owned).collect(),
            kind: kind.to_owned(),
            source: unescape(source),
            super_options: back.next().unwrap_or_default().to_owned(),
        })
    }

    /// The value of an option of the file system, such as overlayfs' `upperdir`; empty for one that has none.
    pub fn super_option(&self, name: &str) -> Option<PathBuf> {
        let value = |option: &str| {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            (key == name).then(|| unescape(value))
        };
        self.super_options.split(',').find_map(value)
    }
}

/// The mounts of a table, in the order in which they were mounted. Lines that make no sense are left out.
pub fn mounts_in(text: &str) -> impl Iterator<Item = Mount> {
    text.lines().filter_map(Mount::parse)
}

fn unescape(field: &str) -> PathBuf {
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
    PathBuf::from(OsString::from_vec(plain))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_table_is_read_with_its_escapes() {
        let text = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue\n\
                    37 35 0:30 / /x rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/up\\040per,workdir=/w\n\
                    not a line\n";
        let mounts: Vec<Mount> = mounts_in(text).collect();
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].target, Path::new("/mnt 2"));
        assert_eq!(mounts[0].propagation, ["master:1", "shared:2"]);
        assert_eq!((mounts[0].kind.as_str(), mounts[0].source.to_str()), ("ext3", Some("/dev/root")));
        assert_eq!(mounts[0].super_option("errors"), Some(PathBuf::from("continue")));
        assert_eq!(mounts[1].super_option("upperdir"), Some(PathBuf::from("/up per")));
        assert_eq!((mounts[1].super_option("rw"), mounts[1].super_option("r")), (Some(PathBuf::new()), None));
    }

    proptest! {
        #[test]
        fn any_target_survives_the_kernels_escapes(name in "[ -~\\t\\n]{0,40}") {
            let escaped: String = name
                .chars()
                .map(|c| match c {
                    ' ' | '\t' | '\n' | '\\' => format!("\\{:03o}", u32::from(c)),
                    c => c.to_string(),
                })
                .collect();
            let line = format!("36 35 98:0 / /{escaped} rw shared:1 - ext3 /dev/root rw");
            let mount = Mount::parse(&line).unwrap();
            prop_assert_eq!(&mount.target, &PathBuf::from(format!("/{name}")));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = mounts_in(&text).filter_map(|mount| mount.super_option("x")).count();
        }
    }
}
