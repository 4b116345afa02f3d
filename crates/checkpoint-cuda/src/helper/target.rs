//! The process that the helper is asked about, and whose it is.
//!
//! The target comes as a descriptor, and a descriptor can be anything: so it is first made sure that this one is a pidfd, by the name
//! that the kernel gives it. (The text of `fdinfo` alone would not do. That of a dma-buf has a name in it which its owner
//! chooses, line feeds included.) Its process id is then what `fdinfo` says, in the pid namespace of this program.
//!
//! Everything else is read through one descriptor of `/proc/PID`. Such a descriptor belongs to one process for ever: what is opened
//! through it when the process is gone and its number taken by another is an error, not the other's. That the descriptor is of
//! the process that the pidfd stands for is known once the pidfd says, after it was opened, that the process lives.

use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use base::proc::{number_of, numbers_of};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Dir, Mode, OFlags, fstat, openat, readlinkat};

use super::message::Refusal;
use crate::sys::owner_of_user_namespace;

/// Longer than any `status` or `fdinfo`.
const LONGEST: u64 = 64 * 1024;
/// Nobody with more threads is served: looking at each of them takes time.
const MOST_THREADS: usize = 16_384;

type Result<T> = std::result::Result<T, Refusal>;

/// A target.
#[derive(Debug)]
pub(super) struct Target<'a> {
    /// Its id, for the driver.
    pub(super) pid: i32,
    pidfd: BorrowedFd<'a>,
    /// `/proc/PID`
    directory: OwnedFd,
}

impl<'a> Target<'a> {
    /// The process that a descriptor stands for.
    pub(super) fn of(pidfd: BorrowedFd<'a>) -> Result<Self> {
        let number = pidfd.as_raw_fd();
        let link = readlinkat(CWD, format!("/proc/self/fd/{number}"), Vec::new()).map_err(unreadable)?;
        // The second is its name from Linux 6.9 on. Files that have a path have a slash in front of it.
        if link.as_bytes() != b"anon_inode:[pidfd]" && !link.as_bytes().starts_with(b"pidfd:[") {
            return Err(Refusal::NotAProcess);
        }
        let info = read(CWD, &format!("/proc/self/fdinfo/{number}"))?;
        let pid: Option<i32> = number_of(&info, "Pid");
        let pid = match pid.ok_or(Refusal::NotAProcess)? {
            // It has been collected.
            -1 => return Err(Refusal::Ended),
            pid if pid > 0 => pid,
            // It is not in this pid namespace, or below.
            _ => return Err(Refusal::NotAProcess),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            openat(CWD, format!("/proc/{pid}"), flags, Mode::empty()).map_err(|_| Refusal::Ended)?;
        let target = Self { pid, pidfd, directory };
        target.lives()?;
        Ok(target)
    }

    /// Does it belong to this user, and to nobody else?
    pub(super) fn belongs_to(&self, user: u32) -> Result<()> {
        let status = self.read("status")?;
        // A pidfd can also stand for a single thread.
        if number_of::<i32>(&status, "Tgid") != number_of(&status, "Pid") {
            return Err(Refusal::NotAProcess);
        }
        if !all_ids_are(&status, user) {
            return Err(Refusal::OtherUser);
        }
        self.threads_belong_to(user)?;
        self.namespace_belongs_to(user)?;
        // Only now is it known that all of this was about the target.
        self.lives()
    }

    /// Ids are a thread's own. A program that serves many users may give each thread those of another.
    fn threads_belong_to(&self, user: u32) -> Result<()> {
        let tasks = self.open("task", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut seen = 0;
        for task in Dir::new(tasks).map_err(unreadable)? {
            let task = task.map_err(unreadable)?;
            let name = task.file_name().to_string_lossy();
            if name.starts_with('.') {
                continue;
            }
            seen += 1;
            if seen > MOST_THREADS {
                return Err(Refusal::Unreadable);
            }
            match self.read(&format!("task/{name}/status")) {
                Ok(status) if all_ids_are(&status, user) => {}
                Ok(_) => return Err(Refusal::OtherUser),
                // This thread has ended. If all have, the pidfd says so at the end.
                Err(Refusal::Ended) => {}
                Err(why) => return Err(why),
            }
        }
        if seen == 0 { Err(Refusal::Ended) } else { Ok(()) }
    }

    /// The namespace of this program itself, which is the machine's, is everybody's own.
    fn namespace_belongs_to(&self, user: u32) -> Result<()> {
        let own = openat(CWD, "/proc/self/ns/user", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(unreadable)?;
        let theirs = self.open("ns/user", OFlags::RDONLY)?;
        let identity =
            |file: &OwnedFd| fstat(file).map(|stat| (stat.st_dev, stat.st_ino)).map_err(unreadable);
        if identity(&own)? == identity(&theirs)? {
            return Ok(());
        }
        let owner = owner_of_user_namespace(theirs.as_fd()).map_err(unreadable)?;
        if owner == user { Ok(()) } else { Err(Refusal::OtherNamespace) }
    }

    /// A process that nobody has collected yet has ended too.
    fn lives(&self) -> Result<()> {
        let mut fds = [PollFd::from_borrowed_fd(self.pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) => Ok(()),
            Ok(_) => Err(Refusal::Ended),
            Err(_) => Err(Refusal::Unreadable),
        }
    }

    /// Is there anybody with its number, be it another?
    pub(super) fn number_is_taken(&self) -> bool {
        rustix::fs::access(format!("/proc/{}", self.pid), rustix::fs::Access::EXISTS).is_ok()
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        openat(&self.directory, name, flags | OFlags::CLOEXEC, Mode::empty()).map_err(unreadable)
    }

    fn read(&self, name: &str) -> Result<String> {
        read(self.directory.as_fd(), name)
    }
}

fn read(directory: BorrowedFd<'_>, name: &str) -> Result<String> {
    let file =
        openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let read = std::fs::File::from(file).take(LONGEST).read_to_end(&mut bytes);
    read.map_err(|error| {
        unreadable(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
    })?;
    // Command names may hold any bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn unreadable(error: rustix::io::Errno) -> Refusal {
    use rustix::io::Errno;
    if matches!(error, Errno::NOENT | Errno::SRCH) { Refusal::Ended } else { Refusal::Unreadable }
}

/// Real, effective, saved and file system's: are these four there, and all this user's?
fn all_ids_are(status: &str, user: u32) -> bool {
    numbers_of(status, "Uid") == Some(vec![user; 4])
}

#[cfg(test)]
mod tests {
    use std::process::{Command, id};

    use proptest::prelude::*;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    fn pidfd(pid: u32) -> OwnedFd {
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        pidfd_open(pid, PidfdFlags::empty()).unwrap()
    }

    #[test]
    fn own_process_belongs_to_its_user_and_to_nobody_else() {
        let pidfd = pidfd(id());
        let target = Target::of(pidfd.as_fd()).unwrap();
        assert_eq!(u32::try_from(target.pid).unwrap(), id());
        let user = rustix::process::getuid().as_raw();
        target.belongs_to(user).unwrap();
        assert_eq!(target.belongs_to(user + 1), Err(Refusal::OtherUser));
    }

    #[test]
    fn what_is_no_pidfd_is_no_process() {
        let directory = tempfile::tempdir().unwrap();
        let named = std::fs::File::create(directory.path().join("pidfd:[1]")).unwrap();
        let procfs = std::fs::File::open("/proc/self").unwrap();
        let (pipe, _end) = rustix::pipe::pipe().unwrap();
        for fd in [named.as_fd(), procfs.as_fd(), pipe.as_fd()] {
            assert_eq!(Target::of(fd).err(), Some(Refusal::NotAProcess));
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_acted_on_collected_or_not() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let pidfd = pidfd(child.id());
        let user = rustix::process::getuid().as_raw();
        let before = Target::of(pidfd.as_fd()).unwrap();
        before.belongs_to(user).unwrap();
        child.kill().unwrap();
        poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None).unwrap();
        // A zombie: its number and its files are still there.
        assert_eq!(before.belongs_to(user), Err(Refusal::Ended));
        assert_eq!(Target::of(pidfd.as_fd()).err(), Some(Refusal::Ended));
        child.wait().unwrap();
        assert_eq!(before.belongs_to(user), Err(Refusal::Ended));
        assert_eq!(Target::of(pidfd.as_fd()).err(), Some(Refusal::Ended));
    }

    #[test]
    fn four_ids_are_needed_and_all_must_fit() {
        assert!(all_ids_are("Uid:\t7\t7\t7\t7\n", 7));
        for other in ["Uid:\t7\t0\t7\t7\n", "Uid:\t7\t7\t0\t7\n", "Uid:\t7\t7\t7\n", "Uid:\n", ""] {
            assert!(!all_ids_are(other, 7), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in any::<String>(), user: u32) {
            let _ = all_ids_are(&text, user);
        }
    }
}
