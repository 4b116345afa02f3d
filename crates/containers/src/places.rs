//! Whom to ask for containers.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;

use crate::container::{Kind, Runtime};

/// How long one runtime may take for all that it is asked. One that is well answers in a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where containerd listens by default, and where k3s, MicroK8s and Docker put theirs.
const SOCKETS: [&str; 4] = [
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/docker/containerd/containerd.sock",
];
/// containerd's namespaces of plain users, Kubernetes and Docker.
const NAMESPACES: [&str; 3] = ["default", "k8s.io", "moby"];

/// What somebody said about where a container is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Narrowed {
    /// Only runtimes of this kind.
    pub kind: Option<Kind>,
    /// containerd's socket.
    pub address: Option<PathBuf>,
    /// containerd's namespace.
    pub namespace: Option<String>,
    /// The state directory of runc or crun.
    pub runtime_root: Option<PathBuf>,
}

/// The runtimes that are asked, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// Who.
    pub runtimes: Vec<Runtime>,
    /// Which of containerd's namespaces; one that is not there holds nothing.
    pub namespaces: Vec<String>,
    /// How long each may take.
    pub patience: Duration,
}

impl Places {
    /// Those that this machine has for whoever asks. A place that somebody has named is asked even if it is not there, so that it is heard of.
    pub fn here(narrowed: &Narrowed) -> Self {
        let wanted = |kind: Kind| {
            // Who says where containerd is, or in which namespace, wants no other.
            let of_containerd = narrowed.address.is_some() || narrowed.namespace.is_some();
            let implied = match kind {
                Kind::Containerd => narrowed.runtime_root.is_none() || of_containerd,
                Kind::Runc | Kind::Crun => !of_containerd,
                Kind::Podman => !of_containerd && narrowed.runtime_root.is_none(),
            };
            narrowed.kind.map_or(implied, |only| only == kind)
        };
        let mut runtimes = Vec::new();
        if wanted(Kind::Containerd) {
            runtimes.extend(sockets(narrowed).into_iter().map(|socket| Runtime::Containerd { socket }));
        }
        for kind in [Kind::Runc, Kind::Crun] {
            if let Some(program) = program(kind.word()).filter(|_| wanted(kind)) {
                runtimes.extend(states(kind, narrowed).into_iter().map(|root| match kind {
                    Kind::Crun => Runtime::Crun { program: program.clone(), root },
                    _ => Runtime::Runc { program: program.clone(), root },
                }));
            }
        }
        let asked_for = narrowed.kind == Some(Kind::Podman);
        if let Some(program) = program("podman").filter(|_| wanted(Kind::Podman)) {
            // To ask it where it has never been would make its store.
            if asked_for || has_store() {
                runtimes.push(Runtime::Podman { program, options: Vec::new() });
            }
        }
        let namespaces = match &narrowed.namespace {
            Some(one) => vec![one.clone()],
            None => {
                let own = env::var("CONTAINERD_NAMESPACE").ok().filter(|name| !name.is_empty());
                let mut all: Vec<String> = NAMESPACES.map(str::to_owned).to_vec();
                all.extend(own.filter(|name| !NAMESPACES.contains(&name.as_str())));
                all
            }
        };
        Self { runtimes, namespaces, patience: PATIENCE }
    }
}

fn sockets(narrowed: &Narrowed) -> Vec<PathBuf> {
    if let Some(address) = &narrowed.address {
        return vec![address.clone()];
    }
    // As `ctr` and `nerdctl` do.
    if let Some(address) = env::var_os("CONTAINERD_ADDRESS").filter(|address| !address.is_empty()) {
        return vec![PathBuf::from(address)];
    }
    SOCKETS.into_iter().map(PathBuf::from).filter(|socket| socket.exists()).collect()
}

/// Of runc or crun. Those that containerd and Docker use have other places, and are asked through these.
fn states(kind: Kind, narrowed: &Narrowed) -> Vec<PathBuf> {
    if let Some(root) = &narrowed.runtime_root {
        return vec![root.clone()];
    }
    let run = if geteuid().is_root() {
        Some(PathBuf::from("/run"))
    } else {
        env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    let root = run.map(|run| run.join(kind.word()));
    root.into_iter().filter(|root| root.is_dir() || narrowed.kind == Some(kind)).collect()
}

/// Whether podman has ever had a container or an image of this user's, as far as that can be told without asking it.
fn has_store() -> bool {
    if ["CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"].into_iter().any(|name| env::var_os(name).is_some()) {
        return true;
    }
    let store = if geteuid().is_root() {
        Some(PathBuf::from("/var/lib/containers/storage"))
    } else {
        env::var_os("HOME").map(|home| Path::new(&home).join(".local/share/containers/storage"))
    };
    store.is_some_and(|store| store.is_dir())
}

/// A program in the path.
fn program(name: &str) -> Option<PathBuf> {
    let path: OsString = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(narrowed: &Narrowed) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = Places::here(narrowed).runtimes.iter().map(Runtime::kind).collect();
        kinds.dedup();
        kinds
    }

    #[test]
    fn who_names_a_place_asks_nobody_else() {
        let address = Narrowed { address: Some("/nowhere/c.sock".into()), ..Narrowed::default() };
        assert_eq!(kinds(&address), [Kind::Containerd]);
        let root = Narrowed { runtime_root: Some("/nowhere".into()), ..Narrowed::default() };
        assert!(kinds(&root).iter().all(|kind| matches!(kind, Kind::Runc | Kind::Crun)));
        let namespace = Narrowed { namespace: Some("x".into()), ..address };
        assert_eq!(Places::here(&namespace).namespaces, ["x"]);
    }
}
