//! A restore that would wait for ever, because CRIU was killed.
//!
//! runc learns of CRIU's end by its end of a socket. The processes that CRIU has begun to make have that socket, too, and when CRIU is killed they wait for
//! it: nobody hears of anything, until a time limit that is made for large restores is over. But runc has not asked yet how CRIU ended, so that is
//! still to be seen in the list of processes. When it has been for some time, those that wait are ended, and runc says that the restore has failed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use base::proc::{self, Stat};

use super::ending::end;
use super::runc::DEFAULT_ROOT;
use crate::container::ContainerId;

/// How often it is looked for.
const AGAIN: Duration = Duration::from_millis(500);
/// A runc that works asks at once how CRIU ended.
const PATIENCE: Duration = Duration::from_secs(2);

/// A child of runc's that has ended without anybody asking, and its other children.
struct Deserted {
    runc: i32,
    ended: i32,
    waiting: Vec<i32>,
}

/// What somebody has runc restore: a container, by its id and by where that runc keeps its states. Another one may have a container of the same id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restored<'a> {
    pub(super) root: &'a Path,
    pub(super) id: &'a ContainerId,
}

impl Restored<'_> {
    /// Whether this process is a runc that does it.
    pub(super) fn by(self, pid: i32) -> bool {
        let is_runc = fs::read_to_string(proc::path(pid, "comm")).is_ok_and(|name| name.trim_end() == "runc");
        is_runc && proc::read(pid, "cmdline").ok().flatten().is_some_and(|line| self.is_asked_by(&line))
    }

    /// Whether these are the words of one: `runc --root DIRECTORY … restore … ID`.
    fn is_asked_by(self, line: &[u8]) -> bool {
        let mut words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
        let mut root = DEFAULT_ROOT.as_bytes();
        while let Some(word) = words.next() {
            match word {
                b"restore" => {
                    let is_there = Path::new(OsStr::from_bytes(root)) == self.root;
                    return is_there && words.next_back() == Some(self.id.as_str().as_bytes());
                }
                b"--root" => root = words.next().unwrap_or_default(),
                _ => root = word.strip_prefix(b"--root=").unwrap_or(root),
            }
        }
        false
    }
}

/// Does something that has runc restore a container. The work says which process that is, if it starts it itself; if others do, it is looked for.
pub(super) fn watched<T>(wanted: Restored<'_>, work: impl FnOnce(&OnceLock<i32>) -> T) -> T {
    let (over, is_over) = channel::<()>();
    let started = OnceLock::new();
    thread::scope(|scope| {
        let which = &started;
        scope.spawn(move || {
            let mut since: Option<(i32, Instant)> = None;
            while is_over.recv_timeout(AGAIN) == Err(RecvTimeoutError::Timeout) {
                let Some(Deserted { runc, ended, waiting }) = deserted(wanted, which.get().copied()) else {
                    since = None;
                    continue;
                };
                match since {
                    Some((same, begun)) if same == ended => {
                        if begun.elapsed() >= PATIENCE {
                            let is_its_child = |pid| {
                                wanted.by(runc) && proc::children(runc).is_some_and(|all| all.contains(&pid))
                            };
                            waiting.into_iter().for_each(|pid| end(pid, is_its_child));
                        }
                    }
                    _ => since = Some((ended, Instant::now())),
                }
            }
        });
        let done = work(&started);
        drop(over);
        done
    })
}

fn deserted(wanted: Restored<'_>, started: Option<i32>) -> Option<Deserted> {
    let is_over = |pid: &i32| Stat::of(*pid).ok().flatten().is_none_or(|stat| stat.is_over());
    let is_runc = |pid: &i32| wanted.by(*pid);
    // What was started need not be runc itself: somebody may have a program in its place that waits for it.
    let those = match started.filter(is_runc) {
        Some(runc) => vec![runc],
        None => proc::pids().unwrap_or_default().into_iter().filter(is_runc).collect(),
    };
    those.into_iter().find_map(|runc| {
        let (ended, waiting): (Vec<i32>, Vec<i32>) = proc::children(runc)?.into_iter().partition(is_over);
        Some(Deserted { runc, ended: *ended.first()?, waiting })
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_nobody_restores_is_only_waited_for() {
        let id = ContainerId::new("c1").unwrap();
        let wanted = Restored { root: Path::new("/no/such/root"), id: &id };
        assert_eq!(watched(wanted, |_| 7), 7);
        assert!(deserted(wanted, None).is_none());
    }

    #[test]
    fn containers_of_one_id_are_told_apart_by_where_runc_keeps_their_states() {
        let id = ContainerId::new("c1").unwrap();
        let is_asked = |root, words: &str| {
            let line = words.replace(' ', "\0") + "\0";
            Restored { root: Path::new(root), id: &id }.is_asked_by(line.as_bytes())
        };
        let (one, other) = ("/run/containerd/runc/default", "/run/containerd/runc/k8s.io");
        for words in
            [format!("runc --root {one} --log l restore -d c1"), format!("runc --root={one}/ restore c1")]
        {
            assert!(is_asked(one, &words), "{words}");
            assert!(!is_asked(other, &words), "{words}");
        }
        assert!(is_asked(DEFAULT_ROOT, "runc restore c1") && !is_asked(one, "runc restore c1"));
        assert!(!is_asked(DEFAULT_ROOT, "runc restore c12") && !is_asked(DEFAULT_ROOT, "runc delete c1"));
        assert!(!is_asked(DEFAULT_ROOT, "runc --root") && !is_asked(DEFAULT_ROOT, ""));
    }

    /// A program called `runc` that reads until its last child is gone, and does not ask how the others ended: `cat`, from a pipe with a name.
    #[test]
    fn those_who_wait_for_one_that_was_killed_are_ended_whether_its_number_is_known_or_not() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let id = ContainerId::new("deserted").unwrap();
        let wanted = Restored { root: Path::new(DEFAULT_ROOT), id: &id };
        fs::copy("/bin/cat", at("runc")).unwrap();
        fs::write(at(id.as_str()), "").unwrap();
        assert!(Command::new("mkfifo").arg(at("restore")).status().unwrap().success());
        for is_known in [true, false] {
            let children = "sleep 60 > restore & sh -c 'exit 1' & exec ./runc restore deserted";
            let mut runc =
                Command::new("sh").args(["-c", children]).current_dir(home.path()).spawn().unwrap();
            let begun = Instant::now();
            let status = watched(wanted, |started| {
                if is_known {
                    started.set(i32::try_from(runc.id()).unwrap()).unwrap();
                }
                runc.wait().unwrap()
            });
            assert!(status.success() && begun.elapsed() >= PATIENCE, "{status}");
            assert!(begun.elapsed() < Duration::from_secs(40), "its child was not ended");
        }
    }
}
