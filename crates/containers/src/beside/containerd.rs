//! containerd: a container with a changed copy of the first one's specification, and a snapshot of its own on the same layers.

use std::collections::BTreeMap;
use std::path::PathBuf;

use prost::Message;

use super::second::{Made, Second};
use crate::back::{BackError, Containerd, Result};
use crate::container::RootFilesystem;
use crate::runtimes::grpc::{Channel, Trouble};
use crate::runtimes::layered;
use crate::runtimes::messages::{
    Any, ContainerInfo, Containers, GetMounts, ListContainers, Nothing, SnapshotMounts,
};

const LIST: &str = "containerd.services.containers.v1.Containers/List";
const CREATE: &str = "containerd.services.containers.v1.Containers/Create";
const DELETE: &str = "containerd.services.containers.v1.Containers/Delete";
const STAT: &str = "containerd.services.snapshots.v1.Snapshots/Stat";
const PREPARE: &str = "containerd.services.snapshots.v1.Snapshots/Prepare";
const REMOVE: &str = "containerd.services.snapshots.v1.Snapshots/Remove";

/// Labels by which others find a container that they look after. The second one is none of theirs.
const OF_OTHERS: [&str; 4] = ["io.kubernetes.", "io.cri-containerd", "nerdctl/", "com.docker."];
/// On a snapshot that nothing leads to yet: containerd's collector leaves it.
const STAYS: &str = "containerd.io/gc.root";

/// `CreateContainerRequest`.
#[derive(Clone, PartialEq, Message)]
struct CreateContainer {
    #[prost(message, optional, tag = "1")]
    container: Option<ContainerInfo>,
}

/// `DeleteContainerRequest`.
#[derive(Clone, PartialEq, Message)]
struct DeleteContainer {
    #[prost(string, tag = "1")]
    id: String,
}

/// `StatSnapshotResponse`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct SnapshotInfo {
    #[prost(message, optional, tag = "1")]
    info: Option<Info>,
}

/// `containerd.services.snapshots.v1.Info`, as far as it is read.
#[derive(Clone, PartialEq, Message)]
struct Info {
    #[prost(string, tag = "2")]
    parent: String,
}

/// `PrepareSnapshotRequest`.
#[derive(Clone, PartialEq, Message)]
struct PrepareSnapshot {
    #[prost(string, tag = "1")]
    snapshotter: String,
    #[prost(string, tag = "2")]
    key: String,
    #[prost(string, tag = "3")]
    parent: String,
    #[prost(btree_map = "string, string", tag = "4")]
    labels: BTreeMap<String, String>,
}

impl Containerd<'_> {
    /// Makes a second one. Its snapshot first: containerd takes no container without.
    pub(crate) fn beside(&self, second: &Second<'_>) -> Result<Made> {
        const ACTION: &str = "the making of a second one";
        second.check()?;
        let json = second.specification(None)?;
        let found: Option<ContainerInfo> = self.block_on(ACTION, self.limit(), async {
            let mut channel = Channel::connect(self.socket).await?;
            self.listed(&mut channel).await
        })?;
        let info = found.ok_or_else(|| self.refused(ACTION, "containerd knows no such container"))?;
        if info.labels.keys().any(|label| label.starts_with("io.kubernetes.pod.")) {
            return Err(BackError::NotThisSort {
                container: self.id.to_string(),
                why: "it is part of a pod, and whoever looks after that knows nothing of a second one"
                    .to_owned(),
            });
        }
        let files = self.block_on(ACTION, self.limit(), async {
            let mut channel = Channel::connect(self.socket).await?;
            let of = GetMounts { snapshotter: info.snapshotter.clone(), key: info.snapshot_key.clone() };
            let stat: Option<SnapshotInfo> = channel.ask(self.namespace, STAT, &of).await?;
            let gone = || Trouble::Refused("the layer of its own is gone".to_owned());
            let parent = stat.and_then(|stat| stat.info).ok_or_else(gone)?.parent;
            let prepare = PrepareSnapshot {
                snapshotter: info.snapshotter.clone(),
                key: second.id.to_string(),
                parent,
                labels: BTreeMap::from([(STAYS.to_owned(), "infinijup".to_owned())]),
            };
            let mounts: Option<SnapshotMounts> = channel.ask(self.namespace, PREPARE, &prepare).await?;
            let root = layered(RootFilesystem::default(), mounts.unwrap_or_default().mounts);
            let files = root.writable.ok_or_else(|| {
                Trouble::Refused(format!("snapshotter {} does not say where files are", info.snapshotter))
            })?;
            let container = ContainerInfo {
                id: second.id.to_string(),
                labels: labels(&info.labels),
                spec: info.spec.map(|spec| Any { type_url: spec.type_url, value: json }),
                snapshot_key: second.id.to_string(),
                sandbox: String::new(),
                ..info
            };
            let create = CreateContainer { container: Some(container) };
            let _: Option<Nothing> = channel.ask(self.namespace, CREATE, &create).await?;
            Ok(files)
        })?;
        let bundle = second.bundle.parent().map(PathBuf::from).unwrap_or_default().join(second.id.as_str());
        Ok(Made { id: second.id.clone(), bundle, files })
    }

    /// Removes a container that was made for a branch, which has no task any more, and its snapshot. What is gone needs no removal.
    pub(crate) fn remove_container(&self) -> Result<()> {
        self.block_on("the removal", self.limit(), async {
            let mut channel = Channel::connect(self.socket).await?;
            // Where it lies is said by the container alone; one that was never made has a snapshot under its name at the most.
            let snapshotters = match self.listed(&mut channel).await? {
                Some(info) => vec![info.snapshotter],
                None => SNAPSHOTTERS.map(str::to_owned).to_vec(),
            };
            let delete = DeleteContainer { id: self.id.to_string() };
            let _: Option<Nothing> = channel.ask(self.namespace, DELETE, &delete).await?;
            let was_made = snapshotters.len() == 1;
            for snapshotter in snapshotters {
                let key = GetMounts { snapshotter, key: self.id.to_string() };
                match channel.ask::<_, Nothing>(self.namespace, REMOVE, &key).await {
                    // One that is not there, or not loaded.
                    Err(Trouble::Refused(_)) if !was_made => {}
                    other => {
                        let _: Option<Nothing> = other?;
                    }
                }
            }
            Ok(())
        })
    }

    async fn listed(&self, channel: &mut Channel) -> Result<Option<ContainerInfo>, Trouble> {
        let filters = vec![format!("id==\"{}\"", self.id)];
        let found: Option<Containers> =
            channel.ask(self.namespace, LIST, &ListContainers { filters }).await?;
        Ok(found.unwrap_or_default().containers.into_iter().next())
    }
}

/// Those that say where files are: only they are ever asked for a second one.
const SNAPSHOTTERS: [&str; 4] = ["overlayfs", "native", "btrfs", "zfs"];

fn labels(of_first: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let is_own = |label: &String| !OF_OTHERS.iter().any(|prefix| label.starts_with(prefix));
    of_first.iter().filter(|(label, _)| is_own(label)).map(|(a, b)| (a.clone(), b.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_finds_the_second_one_by_a_label_of_the_first() {
        let of = ["io.kubernetes.pod.name", "io.cri-containerd.kind", "nerdctl/name", "team"];
        let of = of.map(|label| (label.to_owned(), "x".to_owned()));
        assert_eq!(labels(&BTreeMap::from(of)).into_keys().collect::<Vec<_>>(), ["team"]);
    }
}
