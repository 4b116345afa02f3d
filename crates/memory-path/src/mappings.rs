//! Which mappings of a process have pages of its own, and whether somebody writes to them behind the kernel's back.

use base::proc::{self, Mapping};

use crate::error::{MemoryError, NotHere, Result};
use crate::pages::Run;

/// A mapping whose pages belong to the process alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Private {
    pub(crate) run: Run,
    /// Whether the program may read it. What it may not read CRIU copies itself, whoever else has.
    pub(crate) readable: bool,
    pub(crate) kind: Kind,
}

/// How a mapping is dealt with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Anonymous memory: registered, and followed.
    Anonymous,
    /// Of a file: not registered, so that the process's own copies of its pages always count as written. When such a page is thrown away in
    /// a registered mapping (`MADV_DONTNEED`), the kernel puts a marker in its place that looks like a clean page that is swapped out,
    /// to us and to CRIU, where the file's own page belongs. A process has few such copies: 2 MiB in one with 400 mappings of libraries.
    File,
    /// The main stack, which the kernel makes longer by itself: not registered, so that all of it counts as written.
    Stack,
    /// The kernel's own pages with code for every process. Page tables say nothing of use about them, so all count as written.
    Vdso,
}

/// The private mappings of a process, by address.
pub(crate) fn private_mappings(pid: i32) -> Result<Vec<Private>> {
    sort(&read_maps(pid)?).map_err(|reason| MemoryError::not_here(pid, reason))
}

/// The private anonymous memory of a process, by address, whatever else it has mapped.
pub(crate) fn anonymous_memory(pid: i32) -> Result<Vec<Run>> {
    let maps = read_maps(pid)?;
    let private = lines(&maps).filter_map(|mapping| private(&mapping));
    Ok(private.filter(|own| own.kind == Kind::Anonymous).map(|own| own.run).collect())
}

fn read_maps(pid: i32) -> Result<Vec<u8>> {
    proc::read(pid, "maps")
        .map_err(MemoryError::system("read the mappings", pid))?
        .ok_or(MemoryError::Gone { pid })
}

fn lines(maps: &[u8]) -> impl Iterator<Item = Mapping<'_>> {
    maps.split(|byte| *byte == b'\n').filter_map(Mapping::parse)
}

fn sort(maps: &[u8]) -> Result<Vec<Private>, NotHere> {
    if let Some(mapping) = lines(maps).find(|mapping| is_written_behind(mapping.path)) {
        let mapping = String::from_utf8_lossy(mapping.path).into_owned();
        return Err(NotHere::WrittenBehind { mapping });
    }
    Ok(lines(maps).filter_map(|mapping| private(&mapping)).collect())
}

/// A mapping, if its pages belong to the process alone.
fn private(mapping: &Mapping<'_>) -> Option<Private> {
    let kind = match mapping.path {
        // The kernel's clocks and counters, which are nobody's memory.
        path if path.starts_with(b"[vvar") || path == b"[vsyscall]" => return None,
        b"[vdso]" => Kind::Vdso,
        b"[stack]" => Kind::Stack,
        _ if mapping.inode == 0 => Kind::Anonymous,
        _ => Kind::File,
    };
    let run = Run { start: mapping.start, end: mapping.end };
    (!mapping.is_shared()).then_some(Private { run, readable: mapping.permissions[0] == b'r', kind })
}

/// Asynchronous I/O and devices pin pages and write to them later, without a page table to tell: a page that was armed and copied meanwhile
/// would look clean.
fn is_written_behind(path: &[u8]) -> bool {
    let device = path.strip_prefix(b"/dev/");
    path.starts_with(b"/[aio]")
        || path.starts_with(b"anon_inode:[io_uring]")
        || device.is_some_and(|name| !name.starts_with(b"shm/") && !name.starts_with(b"zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0001000 r-xp 00000000 fe:00 1234   /usr/bin/python3
55d0c1000000-55d0c1002000 rw-p 00000000 00:00 0      [heap]
7f0000000000-7f0000003000 ---p 00000000 00:00 0
7f0000010000-7f0000011000 rw-s 00000000 00:01 9      /dev/shm/x
7f0000020000-7f0000021000 rw-s 00000000 00:01 7      /dev/zero (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0      [stack]
7ffc00100000-7ffc00104000 r--p 00000000 00:00 0      [vvar]
7ffc00104000-7ffc00106000 r--p 00000000 00:00 0      [vvar_vclock]
7ffc00106000-7ffc00108000 r-xp 00000000 00:00 0      [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]
";

    #[test]
    fn what_is_the_processs_own_is_found_and_told_apart() {
        let found = sort(MAPS.as_bytes()).unwrap();
        let seen: Vec<_> =
            found.iter().map(|private| (private.run.pages(), private.readable, private.kind)).collect();
        assert_eq!(
            seen,
            [
                (1, true, Kind::File),
                (2, true, Kind::Anonymous),
                (3, false, Kind::Anonymous),
                (33, true, Kind::Stack),
                (2, true, Kind::Vdso)
            ]
        );
    }

    #[test]
    fn what_can_be_written_behind_our_back_is_refused() {
        for path in ["/[aio] (deleted)", "anon_inode:[io_uring]", "/dev/nvidia0", "/dev/dri/renderD128"] {
            let maps = format!("{MAPS}7f1000000000-7f1000001000 rw-s 00000000 00:0e 5 {path}\n");
            assert_eq!(sort(maps.as_bytes()), Err(NotHere::WrittenBehind { mapping: path.to_owned() }));
        }
    }
}
