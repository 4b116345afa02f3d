//! Containers for tests that need no real ones.

use std::collections::BTreeMap;

use crate::container::{Container, ContainerId, RootFilesystem, Runtime, Status};
use crate::specification::Specification;

pub(crate) fn runc(root: &str) -> Runtime {
    Runtime::Runc { program: "/usr/bin/runc".into(), root: root.into() }
}

pub(crate) fn podman() -> Runtime {
    Runtime::Podman { program: "/usr/bin/podman".into(), options: Vec::new() }
}

pub(crate) fn containerd() -> Runtime {
    Runtime::Containerd { socket: "/run/containerd/containerd.sock".into() }
}

/// One that runs.
pub(crate) fn container(runtime: Runtime, id: &str, pid: i32) -> Container {
    Container {
        runtime,
        namespace: None,
        id: ContainerId::new(id).unwrap(),
        name: Some("train".to_owned()),
        status: Status::Running,
        pid: Some(pid),
        cgroup: None,
        specification: Specification::default(),
        bundle: None,
        root: RootFilesystem::default(),
        snapshotter: None,
        snapshot_key: None,
        image: None,
        low_level: None,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
        pod: None,
    }
}
