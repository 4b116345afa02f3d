//! Reading files that somebody else can change while we look.
//!
//! A session's processes write its log, its exit status and its notebook, and can put anything in their place: a pipe that
//! nobody ever writes to, a link to somewhere else, a file with a hole of 3 GiB. So such a file is opened once, without waiting
//! and without following a link; what was opened must be a plain file; and no more of it is read than was asked for, whatever
//! length it claims to have.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a plain file. A link in the place of its last name is refused.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDONLY | OFlags::NOFOLLOW)
}

/// Opens a plain file to which a link may lead, where the path is the user's own word.
pub fn open_through_links(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDONLY)
}

/// Opens a plain file to write at its end, and makes it if there is none. What else is in its place is taken away: for a session to
/// come back it must have a log, and to open a pipe would mean to wait for a reader, for us and for CRIU.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        fs::remove_file(path)?;
    }
    open_with(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW)
}

fn open_with(path: &Path, how: OFlags) -> io::Result<File> {
    // NONBLOCK: to open a pipe must not mean to wait for somebody at its other end.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | how;
    let file: File = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into();
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a plain file")) }
}

/// The whole of a file that has no more than `most` bytes; a longer one is refused.
///
/// No more is read than the size that it has now: a file may grow while it is read, and those in `/proc`, where our own secrets are,
/// have none.
pub fn read_all(file: File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    if length > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes")));
    }
    let mut content = Vec::new();
    file.take(length).read_to_end(&mut content)?;
    Ok(content)
}

/// [`open`] and [`read_all`] in one.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_all(open(path)?, most)
}

/// The end of a file, no more than `most` bytes of it.
pub fn tail(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}

/// The last lines that are not empty, oldest first, each and all of them of a length that can be shown. Nothing if the file cannot
/// be read: they only ever come along with something more important.
pub fn last_lines(path: &Path, count: usize) -> Vec<String> {
    const BYTES: u64 = 16 << 10;
    let content = tail(path, BYTES).unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(count)).map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn what_is_no_plain_file_is_refused_at_once() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let begun = Instant::now();
        for refused in ["link", "pipe", ".", "nothing"] {
            tail(&at(refused), 10).unwrap_err();
            read_small(&at(refused), 10).unwrap_err();
            assert!(last_lines(&at(refused), 3).is_empty(), "{refused}");
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(read_small(&at("plain"), 4).unwrap(), b"text");
        assert_eq!(read_all(open_through_links(&at("link")).unwrap(), 4).unwrap(), b"text");
        open_through_links(&at("pipe")).unwrap_err();
        open_through_links(Path::new("/dev/zero")).unwrap_err();
    }

    #[test]
    fn what_stands_in_for_a_log_makes_room_for_one() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        symlink(at("plain"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for name in ["plain", "link", "pipe", "nothing"] {
            io::Write::write_all(&mut open_to_append(&at(name)).unwrap(), b" more").unwrap();
        }
        let content = |name: &str| String::from_utf8(read_small(&at(name), 100).unwrap()).unwrap();
        assert_eq!(
            ["plain", "link", "pipe", "nothing"].map(content),
            ["text more", " more", " more", " more"]
        );
        open_to_append(home.path()).unwrap_err();
    }

    #[test]
    fn of_a_huge_file_only_the_end_is_read() {
        let home = tempfile::tempdir().unwrap();
        let huge = home.path().join("log");
        let mut file = File::create(&huge).unwrap();
        file.set_len(3 * GIB).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        io::Write::write_all(&mut file, b"\none\n\ntwo\nthree\n").unwrap();
        assert_eq!(tail(&huge, 6).unwrap(), b"three\n");
        assert_eq!(last_lines(&huge, 2), ["two", "three"]);
        assert_eq!(read_small(&huge, 100).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(tail(&huge, 0).unwrap(), b"");
        assert_eq!(read_small(Path::new("/proc/self/environ"), 100).unwrap(), b"");
    }
}
