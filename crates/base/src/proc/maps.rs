//! `/proc/PID/maps`.
//!
//! A line is `start-end perms offset major:minor inode`, in hexadecimal but for the inode, then spaces and a path, or nothing
//! for anonymous memory. The kernel writes a newline inside a path as `\012`, so a line is always one mapping. Paths are bytes:
//! nothing promises UTF-8. A line that does not look like this is passed over.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping<'a> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// `r`, `w`, `x` or `-`, then `s` (shared) or `p` (private).
    pub permissions: [u8; 4],
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's inode, 0 for anonymous memory.
    pub inode: u64,
    /// The file as the kernel writes it ([`Mapping::file`] is its true name); empty for anonymous memory.
    pub path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// Reads one line.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let range = field(&mut rest)?;
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let (start, end) = (hexadecimal(&range[..dash])?, hexadecimal(&range[dash + 1..])?);
        let permissions = field(&mut rest)?.try_into().ok()?;
        let offset = hexadecimal(field(&mut rest)?)?;
        let _device = field(&mut rest)?;
        let inode = decimal(field(&mut rest)?)?;
        (start < end).then(|| Self { start, end, permissions, offset, inode, path: rest.trim_ascii_start() })
    }

    /// Its length in bytes.
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Never: the kernel has no mapping of length 0, and [`Mapping::parse`] refuses one.
    pub const fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Its permissions as text.
    pub fn permissions_text(&self) -> String {
        self.permissions.iter().copied().map(char::from).collect()
    }

    /// Whether what is written there is seen by others who have the same file.
    pub const fn is_shared(&self) -> bool {
        self.permissions[3] == b's'
    }

    /// Whether it can be written to.
    pub const fn is_writable(&self) -> bool {
        self.permissions[1] == b'w'
    }

    /// Whether it can be run.
    pub const fn is_executable(&self) -> bool {
        self.permissions[2] == b'x'
    }

    /// Its name in `/proc/PID/map_files`, which has no leading zeros.
    pub fn range(&self) -> String {
        format!("{:x}-{:x}", self.start, self.end)
    }

    /// The file's name, with its newlines as they are; `None` for what is no file (`[stack]`, anonymous memory).
    pub fn file(&self) -> Option<PathBuf> {
        if !self.path.starts_with(b"/") {
            return None;
        }
        let mut name = Vec::with_capacity(self.path.len());
        let mut rest = self.path;
        while let Some((&byte, after)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(b"\\012") {
                name.push(b'\n');
                rest = after;
            } else {
                name.push(byte);
                rest = after;
            }
        }
        Some(PathBuf::from(OsString::from_vec(name)))
    }
}

/// The lines whose mapping has a file, cut but not yet read.
///
/// Most lines of most processes are of no interest, and a path always begins with `/` where it is a file's; nothing before it
/// in a line does. So one search for a slash tells what is worth reading.
pub fn with_file(maps: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    maps.split(|byte| *byte == b'\n').filter_map(|line| {
        // The shortest line with a file has its path here: `0-1 r--p 0 0:0 1 /`.
        let from = line.get(15..)?;
        let slash = from.iter().position(|byte| *byte == b'/')?;
        Some((line, &from[slash..]))
    })
}

fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let line = rest.trim_ascii_start();
    let len = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (field, after) = line.split_at(len);
    *rest = after;
    (!field.is_empty()).then_some(field)
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    number(digits, 16)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    number(digits, 10)
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    // `from_str_radix` takes a sign, the kernel writes none.
    if digits.first().is_none_or(|first| *first == b'+') {
        return None;
    }
    u64::from_str_radix(str::from_utf8(digits).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_of_a_real_process() {
        let line =
            b"7fb87e200000-7fb87e5ab000 rw-s 7fb87e200000 00:05 681                        /dev/nvidia-uvm";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!(mapping.start, 0x7fb8_7e20_0000);
        assert_eq!(mapping.len(), 0x3a_b000);
        assert_eq!(&mapping.permissions, b"rw-s");
        assert_eq!(mapping.offset, mapping.start);
        assert_eq!(mapping.inode, 681);
        assert_eq!(mapping.path, b"/dev/nvidia-uvm");
    }

    #[test]
    fn a_path_keeps_its_spaces() {
        let mapping = Mapping::parse(b"1000-2000 r--p 00000000 fd:00 12   /tmp/a b (deleted)").unwrap();
        assert_eq!(mapping.path, b"/tmp/a b (deleted)");
        assert_eq!(Mapping::parse(b"1000-2000 ---p 00000000 00:00 0").unwrap().path, b"");
    }

    #[test]
    fn a_file_has_its_own_name_and_its_place_among_the_mapped_files() {
        let line = b"00007f0000-7f1000 rw-s 00000000 fe:00 131   /home/a b\\012c\xff (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert!(mapping.is_shared() && mapping.is_writable() && !mapping.is_executable());
        assert_eq!(mapping.range(), "7f0000-7f1000");
        assert_eq!(
            mapping.file().map(|name| name.into_os_string().into_vec()),
            Some(b"/home/a b\nc\xff (deleted)".to_vec())
        );
        let code = Mapping::parse(b"00400000-00401000 r-xp 00000000 fe:00 7 /bin/sleep").unwrap();
        assert!(!code.is_shared() && !code.is_writable() && code.is_executable());
        for nameless in ["7ff-800 rw-p 0 00:00 0 [stack]", "7ff-800 rw-p 0 00:00 0"] {
            assert_eq!(Mapping::parse(nameless.as_bytes()).unwrap().file(), None, "{nameless}");
        }
    }

    #[test]
    fn nonsense_is_passed_over() {
        for line in [
            "",
            "x",
            "/",
            "x-y rw-p 0 0 0 /a",
            "1000-2000",
            "2000-1000 r--p 0 0:0 0",
            "1000-2000 r--px 0 0:0 0",
            "+1-+2 r--p 0 0:0 0",
        ] {
            assert_eq!(Mapping::parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for (line, path) in with_file(&bytes) {
                prop_assert!(line.ends_with(path));
                let _ = Mapping::parse(line);
            }
        }

        #[test]
        fn what_the_kernel_writes_comes_back(
            start in 0u64..1 << 47, pages in 1u64..1 << 20, offset: u64, inode in 1u64.., shared: bool,
            path in "/[ -~]{0,60}[!-~]",
        ) {
            let (end, kind) = (start + pages * 4096, if shared { 's' } else { 'p' });
            let line = format!("{start:08x}-{end:08x} rw-{kind} {offset:08x} 00:05 {inode} {:>20}{path}", "");
            let mapping = Mapping::parse(line.as_bytes()).unwrap();
            prop_assert_eq!((mapping.start, mapping.end, mapping.offset, mapping.inode), (start, end, offset, inode));
            prop_assert_eq!(mapping.path, path.as_bytes());
            let found: Vec<_> = with_file(line.as_bytes()).collect();
            prop_assert_eq!(found, vec![(line.as_bytes(), path.as_bytes())]);
        }
    }
}
