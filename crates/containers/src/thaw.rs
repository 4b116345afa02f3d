//! A container that somebody holds still, let go for as long as a snapshot needs its own threads, and then held again as it was.
//!
//! It is done by the same means by which it was frozen, so that whoever did that finds things as they were left: a runtime that was asked to pause
//! it is asked to let it go, and to pause it again; a cgroup that somebody froze past the runtime is thawed, and frozen again, by its file. Before
//! anything is touched, all that holds it is looked at. What is not ours to undo is refused: a cgroup above the container's own, because
//! others would run, too, and a debugger. What SIGSTOP has stopped stays as it is: that is a state of the processes themselves, which a snapshot
//! has, and not something around them.
//!
//! If we are killed in between, the container runs. That way round nothing is lost, and no lock on a GPU waits for a thread that cannot answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::proc::CgroupVersion;

use crate::command::{Said, ask};
use crate::container::{Container, Runtime};
use crate::error::{ContainerError, Result};
use crate::held::{By, Held, who};
use crate::runtimes::grpc::{Channel, Trouble};
use crate::runtimes::messages::{GetTask, Nothing};

const PAUSE: &str = "containerd.services.tasks.v1.Tasks/Pause";
const RESUME: &str = "containerd.services.tasks.v1.Tasks/Resume";

/// How long a runtime may take, and the kernel after it: a thread in the middle of a write to a slow disk stops when that is over.
const LIMIT: Duration = Duration::from_secs(10);
/// How often a freezer is looked at.
const AGAIN: Duration = Duration::from_millis(2);

/// A container that was let go.
#[derive(Debug)]
pub struct Thawed {
    container: Container,
    means: Vec<Means>,
    how: String,
    since: Instant,
}

/// By what it was held.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Means {
    Runtime,
    Freezer { version: CgroupVersion, directory: PathBuf },
}

/// Refuses a container that is frozen, with the name of who did it.
pub fn check_free(container: &Container) -> Result<()> {
    let held: Vec<Held> = frozen(container)?;
    if held.is_empty() {
        return Ok(());
    }
    let (how, undo) = held.into_iter().map(|held| (held.how, held.undo)).unzip();
    Err(ContainerError::Held { container: container.called().to_owned(), how, undo })
}

/// Lets a container go; `None` if nobody holds it. If that fails, it is as it was found.
pub fn thaw(container: &Container) -> Result<Option<Thawed>> {
    let cannot = |why: String| ContainerError::NotThawed { container: container.called().to_owned(), why };
    let held = frozen(container)?;
    let means = means(&held).map_err(cannot)?;
    let how = held.into_iter().map(|held| held.how).collect::<Vec<_>>().join("; ");
    let mut thawed = Thawed { container: container.clone(), means: Vec::new(), how, since: Instant::now() };
    if means.is_empty() {
        return Ok(None);
    }
    for one in means {
        let done = one.let_go(container);
        // Perhaps by half.
        thawed.means.push(one);
        if let Err(why) = done {
            let _told = thawed.hold_again();
            return Err(cannot(why));
        }
    }
    let deadline = Instant::now() + LIMIT;
    while let Some(held) = frozen(container)?.into_iter().next() {
        if Instant::now() > deadline {
            let _told = thawed.hold_again();
            return Err(cannot(format!("it is still {}", held.how)));
        }
        std::thread::sleep(AGAIN);
    }
    Ok(Some(thawed))
}

impl Thawed {
    /// Holds it again as it was held, and says so.
    pub fn hold_again(self) -> String {
        let ran = self.since.elapsed().as_millis();
        // The last that was undone is the first.
        let done = self.means.iter().rev().try_for_each(|one| one.hold(&self.container));
        match done {
            Ok(()) => format!("it was {}; it ran for {ran} ms, and is held again as it was", self.how),
            // Somebody was quicker, or it has ended.
            Err(_) if frozen(&self.container).is_ok_and(|held| !held.is_empty()) => {
                format!("it was {}; it ran for {ran} ms, and somebody else holds it again", self.how)
            }
            Err(why) => format!("it was {}, and could not be held again: {why}. It runs", self.how),
        }
    }
}

/// What freezes it. What a signal has stopped is not frozen.
fn frozen(container: &Container) -> Result<Vec<Held>> {
    Ok(who(container)?.into_iter().filter(|held| held.by != By::Signal).collect())
}

/// How all of it is undone and done again; an error names what cannot be.
fn means(held: &[Held]) -> Result<Vec<Means>, String> {
    let all: Result<Vec<Means>, String> = held
        .iter()
        .map(|held| match (held.by, &held.frozen) {
            (By::Runtime | By::RuntimeOrSomebody, _) => Ok(Means::Runtime),
            (By::Somebody, Some((version, directory))) => {
                Ok(Means::Freezer { version: *version, directory: directory.clone() })
            }
            (By::Above, _) => Err(format!("it is {}, and others in that would run, too", held.how)),
            _ => Err(format!("it is {}", held.how)),
        })
        .collect();
    // A runtime that has frozen it in two hierarchies is asked once.
    all.map(|mut means| {
        means.dedup();
        means
    })
}

impl Means {
    fn let_go(&self, container: &Container) -> Result<(), String> {
        match self {
            Self::Runtime => ask_runtime(container, false),
            Self::Freezer { version: CgroupVersion::One, directory } => {
                write(&directory.join("freezer.state"), "THAWED")
            }
            Self::Freezer { version: CgroupVersion::Two, directory } => {
                write(&directory.join("cgroup.freeze"), "0")
            }
        }
    }

    fn hold(&self, container: &Container) -> Result<(), String> {
        let (file, word, seen, says) = match self {
            Self::Runtime => return ask_runtime(container, true),
            Self::Freezer { version: CgroupVersion::One, directory } => {
                let file = directory.join("freezer.state");
                (file.clone(), "FROZEN", file, "FROZEN")
            }
            Self::Freezer { version: CgroupVersion::Two, directory } => {
                (directory.join("cgroup.freeze"), "1", directory.join("cgroup.events"), "frozen 1")
            }
        };
        write(&file, word)?;
        let deadline = Instant::now() + LIMIT;
        let is_frozen = || fs::read_to_string(&seen).is_ok_and(|text| text.lines().any(|line| line == says));
        while !is_frozen() {
            if Instant::now() > deadline {
                return Err(format!("`{}` does not freeze", file.display()));
            }
            std::thread::sleep(AGAIN);
        }
        Ok(())
    }
}

fn write(file: &Path, word: &str) -> Result<(), String> {
    fs::write(file, word).map_err(|error| format!("cannot write to `{}`: {error}", file.display()))
}

/// Asks the runtime to pause the container, or to let it go.
fn ask_runtime(container: &Container, pause: bool) -> Result<(), String> {
    let (id, named) = (container.id.as_str(), container.runtime.to_string());
    let said = match &container.runtime {
        Runtime::Containerd { socket } => {
            let namespace = container.namespace.as_deref().unwrap_or("default");
            return of_task(socket, namespace, id, if pause { PAUSE } else { RESUME });
        }
        Runtime::Runc { program, root } | Runtime::Crun { program, root } => {
            let root = root.to_string_lossy();
            ask(&named, program, &["--root", &root, if pause { "pause" } else { "resume" }, id], LIMIT)
        }
        Runtime::Podman { program, options } => {
            let words: Vec<&str> = options.iter().map(String::as_str).collect();
            ask(
                &named,
                program,
                &[words.as_slice(), &[if pause { "pause" } else { "unpause" }, id]].concat(),
                LIMIT,
            )
        }
    };
    match said {
        Ok(Said::Answer(_)) => Ok(()),
        Ok(Said::Refused(why)) => Err(format!("{named} says: {why}")),
        Err(error) => Err(error.to_string()),
    }
}

/// containerd's task, by its own service: its client library does nothing else.
fn of_task(socket: &Path, namespace: &str, id: &str, method: &str) -> Result<(), String> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let executor = executor.map_err(|error| error.to_string())?;
    executor.block_on(async {
        let asked = async {
            let question = GetTask { container_id: id.to_owned() };
            Channel::connect(socket).await?.ask::<_, Nothing>(namespace, method, &question).await
        };
        match tokio::time::timeout(LIMIT, asked).await {
            Ok(Ok(Some(Nothing {}))) => Ok(()),
            Ok(Ok(None)) => Err("containerd says that it has no such task".to_owned()),
            Ok(Err(Trouble::Silent(why) | Trouble::Refused(why) | Trouble::Nonsense(why))) => {
                Err(format!("containerd says: {why}"))
            }
            Err(_) => Err(format!("containerd did not answer within {} s", LIMIT.as_secs())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{container, runc};

    fn held(by: By, frozen: Option<(CgroupVersion, PathBuf)>) -> Held {
        Held { by, how: "held by it".to_owned(), evidence: Vec::new(), undo: String::new(), frozen }
    }

    #[test]
    fn what_is_not_the_containers_own_is_never_undone() {
        let own = Some((CgroupVersion::Two, PathBuf::from("/own")));
        let both = [held(By::Runtime, own.clone()), held(By::Somebody, own.clone())];
        let freezer = Means::Freezer { version: CgroupVersion::Two, directory: "/own".into() };
        assert_eq!(means(&both).unwrap(), [Means::Runtime, freezer]);
        for refused in [By::Above, By::Tracer] {
            // Not even by half.
            let error = means(&[held(By::Runtime, None), held(refused, own.clone())]).unwrap_err();
            assert!(error.contains("held by it"), "{error}");
        }
    }

    #[test]
    fn a_freezer_that_does_not_obey_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let one = container(runc("/run/runc"), "c1", 42);
        let freezer = |version| Means::Freezer { version, directory: directory.path().to_owned() };
        // As far as it goes without a kernel: what is written, and that its answer is waited for.
        fs::write(directory.path().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        freezer(CgroupVersion::Two).hold(&one).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("cgroup.freeze")).unwrap(), "1");
        freezer(CgroupVersion::Two).let_go(&one).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("cgroup.freeze")).unwrap(), "0");
        freezer(CgroupVersion::One).hold(&one).unwrap();
        let gone = Means::Freezer { version: CgroupVersion::One, directory: directory.path().join("gone") };
        assert!(gone.let_go(&one).unwrap_err().contains("freezer.state"));
    }
}
