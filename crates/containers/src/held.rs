//! Who holds a container still, and how it is let go.
//!
//! A container whose cgroup is frozen cannot answer, so what it has on a GPU cannot be locked: the driver waits for the container's own threads
//! until its time is over. Many freeze: `podman pause`, `ctr tasks pause`, `docker pause`, containerd's checkpoint through its client library,
//! the kubelet, or somebody with a shell. They all leave the same in the kernel. The difference is what the runtime has been told: containerd and
//! podman remember that they were asked, so that one that calls itself running while its cgroup is frozen was frozen by somebody else. runc and crun
//! remember nothing and look at the freezer, as we do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::proc::{CgroupVersion, Hold, Holds, Stat};
use serde::Serialize;

use crate::container::{Container, Kind, Status};
use crate::error::{ContainerError, Result};
use crate::processes;

/// So many processes are named.
const MOST_NAMES: usize = 8;

/// Who it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The runtime was asked to pause it.
    Runtime,
    /// The runtime, or somebody past it: nobody has written down which.
    RuntimeOrSomebody,
    /// Somebody froze its cgroup past the runtime.
    Somebody,
    /// Somebody froze a cgroup above its own.
    Above,
    /// A signal stopped processes in it.
    Signal,
    /// A debugger holds processes in it.
    Tracer,
}

/// Something that holds a container.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// Who.
    pub by: By,
    /// The same for people: "paused by `podman pause`".
    pub how: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What lets it go.
    pub undo: String,
    /// The cgroup that was told to freeze, if it was one.
    #[serde(skip)]
    pub(crate) frozen: Option<(CgroupVersion, PathBuf)>,
}

/// All that holds a container that runs.
pub(crate) fn who(container: &Container) -> Result<Vec<Held>> {
    let not_running = || ContainerError::NotRunning {
        container: container.id.to_string(),
        status: container.status.word(),
    };
    let init = container.pid.filter(|_| container.status != Status::Stopped).ok_or_else(not_running)?;
    let pids = processes::of(container, init)?;
    look(container, init, &pids).map_err(ContainerError::io("read", Path::new("/proc")))
}

/// All that holds a container with these processes. A process that ends meanwhile is held by nobody.
pub(crate) fn look(container: &Container, init: i32, pids: &[i32]) -> std::io::Result<Vec<Held>> {
    let mut frozen: Vec<(CgroupVersion, PathBuf)> = Vec::new();
    let mut stopped: Vec<i32> = Vec::new();
    let mut traced: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let mut holds = Holds::new()?;
    for pid in pids {
        for hold in holds.of(*pid)?.unwrap_or_default() {
            match hold {
                Hold::Cgroup { version, directory } => {
                    if !frozen.iter().any(|(_, known)| *known == directory) {
                        frozen.push((version, directory));
                    }
                }
                Hold::Stopped => stopped.push(*pid),
                Hold::Traced { by } => traced.entry(by).or_default().push(*pid),
            }
        }
    }
    let own = processes::directory_of(container, init);
    let mut found: Vec<Held> = frozen
        .iter()
        .map(|(version, directory)| in_cgroup(container, *version, directory, own.as_deref()))
        .collect();
    if !stopped.is_empty() {
        found.push(Held {
            by: By::Signal,
            how: format!("stopped by SIGSTOP: {}", named(&stopped)),
            evidence: vec![format!("{} of {} processes are in state T", stopped.len(), pids.len())],
            undo: format!("kill -CONT {}", numbers(&stopped)),
            frozen: None,
        });
    }
    for (tracer, held) in traced {
        let number = tracer.parse().unwrap_or(0);
        found.push(Held {
            by: By::Tracer,
            how: format!("held by the debugger {}", named(&[number])),
            evidence: vec![format!("it traces {}", named(&held))],
            undo: "end the debugger, or let it go on".to_owned(),
            frozen: None,
        });
    }
    Ok(found)
}

fn in_cgroup(container: &Container, version: CgroupVersion, directory: &Path, own: Option<&Path>) -> Held {
    let (file, word) = match version {
        CgroupVersion::One => ("freezer.state", "THAWED"),
        CgroupVersion::Two => ("cgroup.freeze", "0"),
    };
    let path = directory.join(file);
    let frozen = Some((version, directory.to_owned()));
    let runtime = container.runtime.kind().word();
    let mut evidence = vec![format!("`{}` is frozen", directory.display())];
    evidence.push(format!("{runtime} says that it is {}", container.status.word()));
    let thaw = format!("echo {word} > {}", path.display());
    // The container's own cgroup holds it all; one below that holds a part, and was made inside of it.
    let is_above = own.is_some_and(|own| own != directory && own.starts_with(directory));
    if is_above {
        let how = format!("frozen in `{}`, a cgroup above its own, by somebody else", directory.display());
        return Held { by: By::Above, how, evidence, undo: thaw, frozen };
    }
    let is_paused = matches!(container.status, Status::Paused | Status::Pausing);
    let (by, how, undo) = match (container.runtime.kind(), is_paused) {
        (Kind::Runc | Kind::Crun, true) => (
            By::RuntimeOrSomebody,
            format!(
                "paused by `{runtime} pause`, or frozen in its cgroup by somebody else: {runtime} keeps no record"
            ),
            format!("{runtime} resume {}", container.id),
        ),
        (Kind::Podman, true) => (
            By::Runtime,
            "paused by `podman pause`".to_owned(),
            format!("podman unpause {}", container.called()),
        ),
        (Kind::Containerd, true) => {
            let namespace = container.namespace.as_deref().unwrap_or("default");
            let (how, undo) = match namespace {
                "moby" => ("paused by `docker pause`".to_owned(), format!("docker unpause {}", container.id)),
                _ => (
                    "paused through containerd, by `ctr tasks pause` or a checkpoint of its client library"
                        .to_owned(),
                    format!("ctr --namespace {namespace} tasks resume {}", container.id),
                ),
            };
            (By::Runtime, how, undo)
        }
        (_, false) => {
            let how = format!(
                "frozen in its cgroup by somebody else: {runtime} was not asked, and says that it is {}",
                container.status.word()
            );
            (By::Somebody, how, thaw)
        }
    };
    Held { by, how, evidence, undo, frozen }
}

fn numbers(pids: &[i32]) -> String {
    pids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// With their names; of many, some.
fn named(pids: &[i32]) -> String {
    let name = |pid: &i32| {
        let comm = Stat::of(*pid).ok().flatten().map(|stat| stat.comm).unwrap_or_default();
        format!("{comm} ({pid})")
    };
    let mut names: Vec<String> = pids.iter().take(MOST_NAMES).map(name).collect();
    if pids.len() > MOST_NAMES {
        names.push(format!("{} more", pids.len() - MOST_NAMES));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Runtime;
    use crate::sample::{container, containerd, podman, runc};

    const OWN: &str = "/sys/fs/cgroup/freezer/box/c1";

    fn frozen(runtime: Runtime, status: Status, namespace: Option<&str>, directory: &str) -> Held {
        let mut container = container(runtime, "c1", 42);
        container.status = status;
        container.namespace = namespace.map(str::to_owned);
        in_cgroup(&container, CgroupVersion::One, Path::new(directory), Some(Path::new(OWN)))
    }

    #[test]
    fn who_was_asked_to_pause_is_named_with_what_undoes_it() {
        let held = frozen(podman(), Status::Paused, None, OWN);
        assert_eq!((held.by, held.how.as_str()), (By::Runtime, "paused by `podman pause`"));
        assert_eq!(held.undo, "podman unpause train");
        let held = frozen(containerd(), Status::Paused, Some("k8s.io"), OWN);
        assert_eq!((held.by, held.undo.as_str()), (By::Runtime, "ctr --namespace k8s.io tasks resume c1"));
        let held = frozen(containerd(), Status::Pausing, Some("moby"), OWN);
        assert_eq!(held.how, "paused by `docker pause`");
        let held = frozen(runc("/run/runc"), Status::Paused, None, OWN);
        assert_eq!((held.by, held.undo.as_str()), (By::RuntimeOrSomebody, "runc resume c1"));
    }

    #[test]
    fn a_runtime_that_was_not_asked_says_so() {
        for runtime in [podman(), containerd()] {
            let held = frozen(runtime, Status::Running, Some("default"), OWN);
            assert_eq!(held.by, By::Somebody);
            assert!(held.how.contains("by somebody else"), "{}", held.how);
            assert_eq!(held.undo, format!("echo THAWED > {OWN}/freezer.state"));
        }
    }

    #[test]
    fn a_cgroup_above_is_told_from_its_own_and_from_one_below() {
        let held = frozen(podman(), Status::Running, None, "/sys/fs/cgroup/freezer/box");
        assert_eq!(held.by, By::Above);
        let held = frozen(podman(), Status::Running, None, "/sys/fs/cgroup/freezer/box/c1/inner");
        assert_eq!(held.by, By::Somebody);
    }
}
