//! containerd, by its socket.
//!
//! The services Containers, Tasks, Snapshots and Images are asked directly. containerd's client library, which `ctr` and Kubernetes use, does
//! more than it is asked for: its checkpoint pauses a container first, and a GPU cannot be locked after that (docs/containers.md).

use std::path::{Path, PathBuf};

use base::proc::Stat;

use super::grpc::{Channel, Trouble};
use super::messages::{
    ContainerInfo, Containers, FoundImage, GetImage, GetMounts, GetTask, ListContainers, ListTasks,
    SnapshotMount, SnapshotMounts, Task, Tasks,
};
use super::shared::{Wanted, cgroup_of, first_process, layers, mounted_root};
use crate::container::{Container, ContainerId, Image, Pod, RootFilesystem, Runtime, Status};
use crate::error::{ContainerError, Result};
use crate::places::Places;
use crate::specification::Specification;

const LIST: &str = "containerd.services.containers.v1.Containers/List";
const GET_TASK: &str = "containerd.services.tasks.v1.Tasks/Get";
const LIST_TASKS: &str = "containerd.services.tasks.v1.Tasks/List";
const MOUNTS: &str = "containerd.services.snapshots.v1.Snapshots/Mounts";
const GET_IMAGE: &str = "containerd.services.images.v1.Images/Get";

/// Labels that Kubernetes and nerdctl put onto their containers.
const POD: &str = "io.kubernetes.pod.name";
const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
const POD_UID: &str = "io.kubernetes.pod.uid";
const NAMES: [&str; 2] = ["io.kubernetes.container.name", "nerdctl/name"];
/// On the container that only holds a pod's namespaces open.
const KIND: &str = "io.cri-containerd.kind";

/// Looks through its namespaces.
pub(super) fn find(socket: &Path, places: &Places, wanted: Wanted<'_>) -> Result<Vec<Container>> {
    let runtime = Runtime::Containerd { socket: socket.to_owned() };
    let named = runtime.to_string();
    let cannot =
        |error: std::io::Error| ContainerError::Silent { runtime: named.clone(), why: error.to_string() };
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot)?;
    executor.block_on(async {
        match tokio::time::timeout(places.patience, search(&runtime, socket, places, wanted)).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(Trouble::Silent(why) | Trouble::Refused(why))) => {
                Err(ContainerError::Silent { runtime: named.clone(), why })
            }
            Ok(Err(Trouble::Nonsense(why))) => Err(ContainerError::Answer { runtime: named.clone(), why }),
            Err(_) => Err(ContainerError::Slow { runtime: named.clone(), limit: places.patience }),
        }
    })
}

async fn search(
    runtime: &Runtime,
    socket: &Path,
    places: &Places,
    wanted: Wanted<'_>,
) -> Result<Vec<Container>, Trouble> {
    let mut channel = Channel::connect(socket).await?;
    let mut found = Vec::new();
    for namespace in &places.namespaces {
        let mut filters = filters_for(wanted.query.as_str());
        if wanted.member.is_some() {
            // Names of cgroups lead to most; who is in none of its own is found by all first processes.
            let tasks: Option<Tasks> = channel.ask(namespace, LIST_TASKS, &ListTasks::default()).await?;
            let holds =
                |task: &super::messages::ProcessInfo| wanted.has_member(first_process(task.pid.into()));
            let ids = tasks
                .unwrap_or_default()
                .tasks
                .into_iter()
                .filter(holds)
                .map(|task| if task.container_id.is_empty() { task.id } else { task.container_id });
            filters.extend(ids.filter_map(ContainerId::new).map(|id| format!("id==\"{id}\"")));
        }
        let list: Option<Containers> = channel.ask(namespace, LIST, &ListContainers { filters }).await?;
        for info in list.unwrap_or_default().containers {
            let holds_a_pod = info.labels.get(KIND).is_some_and(|kind| kind == "sandbox");
            let is_meant = wanted.query.fits_id(&info.id);
            if let Some(container) = describe(&mut channel, runtime, namespace, info).await?
                && wanted.fits(&container)
                && (is_meant || !holds_a_pod || wanted.has_member(container.pid))
            {
                found.push(container);
            }
        }
    }
    Ok(found)
}

/// In containerd's language of filters; what fits any of them is listed. A query holds no character that means something there but `.` and `/`.
fn filters_for(asked: &str) -> Vec<String> {
    let pod = asked.rsplit('/').next().unwrap_or(asked);
    let mut filters =
        vec![format!("labels.\"{POD}\"==\"{pod}\""), format!("labels.\"{POD_UID}\"==\"{asked}\"")];
    filters.extend(NAMES.map(|name| format!("labels.\"{name}\"==\"{asked}\"")));
    if !asked.contains('/') {
        // A dot stands for any character; what is listed is looked at again.
        filters.push(format!("id~=\"^{asked}\""));
    }
    filters
}

async fn describe(
    channel: &mut Channel,
    runtime: &Runtime,
    namespace: &str,
    info: ContainerInfo,
) -> Result<Option<Container>, Trouble> {
    let Some(id) = ContainerId::new(info.id) else { return Ok(None) };
    let question = GetTask { container_id: id.to_string() };
    let task: Option<Task> = channel.ask(namespace, GET_TASK, &question).await?;
    let process = task.and_then(|task| task.process);
    let pid = process.as_ref().and_then(|process| first_process(process.pid.into()));
    let status = process.map_or(Status::Stopped, |process| status(process.status));
    // A task that has ended keeps its number, which may be somebody else's by now.
    let pid = pid.filter(|_| status != Status::Stopped);
    let specification = info.spec.and_then(|spec| Specification::parse(&spec.value));
    let specification =
        specification.ok_or_else(|| Trouble::Nonsense(format!("container {id} has no specification")))?;
    let bundle = pid.and_then(|pid| bundle_of(pid, &id));
    let root = RootFilesystem {
        path: root_path(&specification, bundle.as_deref()),
        read_only: specification.root_is_read_only(),
        ..RootFilesystem::default()
    };
    let root = if info.snapshot_key.is_empty() {
        mounted_root(pid, root)
    } else {
        let key = GetMounts { snapshotter: info.snapshotter.clone(), key: info.snapshot_key.clone() };
        let mounts: Option<SnapshotMounts> = channel.ask(namespace, MOUNTS, &key).await?;
        layered(root, mounts.unwrap_or_default().mounts)
    };
    let image = if info.image.is_empty() {
        None
    } else {
        let question = GetImage { name: info.image.clone() };
        let found: Option<FoundImage> = channel.ask(namespace, GET_IMAGE, &question).await?;
        let target = found.and_then(|found| found.image).and_then(|image| image.target);
        Some(Image { name: info.image, digest: target.map(|target| target.digest) })
    };
    let label = |name: &str| info.labels.get(name).filter(|text| !text.is_empty()).cloned();
    let pod = label(POD).map(|name| Pod {
        name,
        namespace: label(POD_NAMESPACE),
        id: label(POD_UID),
        sandbox: Some(info.sandbox).filter(|id| !id.is_empty()),
    });
    Ok(Some(Container {
        runtime: runtime.clone(),
        namespace: Some(namespace.to_owned()),
        name: NAMES.into_iter().find_map(label),
        id,
        status,
        pid,
        cgroup: cgroup_of(pid),
        annotations: specification.annotations(),
        specification,
        bundle,
        root,
        snapshotter: Some(info.snapshotter).filter(|name| !name.is_empty()),
        snapshot_key: Some(info.snapshot_key).filter(|key| !key.is_empty()),
        image,
        low_level: info.runtime.map(|runtime| runtime.name),
        labels: info.labels,
        pod,
    }))
}

/// `containerd.v1.types.Status`.
const fn status(number: i32) -> Status {
    match number {
        1 => Status::Created,
        2 => Status::Running,
        3 => Status::Stopped,
        4 => Status::Paused,
        5 => Status::Pausing,
        _ => Status::Unknown,
    }
}

/// The shim, which is the parent of a container's first process, works in the bundle.
fn bundle_of(pid: i32, id: &ContainerId) -> Option<PathBuf> {
    let shim = Stat::of(pid).ok()??.parent;
    let bundle = std::fs::read_link(base::proc::path(shim, "cwd")).ok()?;
    (bundle.ends_with(id.as_str()) && bundle.join("config.json").is_file()).then_some(bundle)
}

fn root_path(specification: &Specification, bundle: Option<&Path>) -> Option<PathBuf> {
    let path = specification.root_path()?;
    if path.is_absolute() { Some(path) } else { Some(bundle?.join(path)) }
}

/// What a snapshotter says that the root is mounted from.
pub(crate) fn layered(mut root: RootFilesystem, mounts: Vec<SnapshotMount>) -> RootFilesystem {
    let Some(mount) = mounts.into_iter().next_back() else { return root };
    let option = |name: &str| {
        let value = |option: &String| option.strip_prefix(name)?.strip_prefix('=').map(PathBuf::from);
        mount.options.iter().find_map(value)
    };
    match mount.kind.as_str() {
        "overlay" => {
            root.writable = option("upperdir");
            root.lower = layers(option("lowerdir"));
        }
        "bind" => root.writable = Some(PathBuf::from(&mount.source)),
        // A block device: what is written cannot be told from the rest.
        _ => {}
    }
    root.mounted_as = Some(mount.kind);
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_of_what_a_snapshotter_says() {
        let options =
            ["index=off", "workdir=/w", "upperdir=/u", "lowerdir=/b:/a"].map(str::to_owned).to_vec();
        let mount = SnapshotMount { kind: "overlay".to_owned(), options, ..SnapshotMount::default() };
        let root = layered(RootFilesystem::default(), vec![mount]);
        assert_eq!(root.writable, Some(PathBuf::from("/u")));
        assert_eq!(root.lower, [PathBuf::from("/b"), PathBuf::from("/a")]);
        let source = "/native/1".to_owned();
        let mount = SnapshotMount { kind: "bind".to_owned(), source, ..SnapshotMount::default() };
        assert_eq!(
            layered(RootFilesystem::default(), vec![mount]).writable,
            Some(PathBuf::from("/native/1"))
        );
        let mount = SnapshotMount { kind: "ext4".to_owned(), ..SnapshotMount::default() };
        assert_eq!(layered(RootFilesystem::default(), vec![mount]).writable, None);
    }

    #[test]
    fn a_pod_is_asked_for_without_its_namespace_and_no_id_has_a_slash() {
        let filters = filters_for("science/web-0");
        assert!(filters[0].ends_with("==\"web-0\""), "{filters:?}");
        assert!(!filters.iter().any(|filter| filter.starts_with("id")), "{filters:?}");
        assert_eq!(filters_for("c1").last().unwrap(), "id~=\"^c1\"");
    }

    #[test]
    fn nobody_at_the_socket_is_said() {
        let places = Places {
            runtimes: Vec::new(),
            namespaces: vec!["default".to_owned()],
            patience: std::time::Duration::from_secs(5),
        };
        let query = crate::Query::parse("c1").unwrap();
        let wanted = Wanted { query: &query, member: None };
        let error = find(Path::new("/nowhere/c.sock"), &places, wanted).unwrap_err();
        assert_eq!(error.code(), "IJ-O010");
        assert!(error.to_string().contains("/nowhere/c.sock"), "{error}");
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("c.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let patience = std::time::Duration::from_millis(200);
        let places = Places { runtimes: Vec::new(), namespaces: vec!["default".to_owned()], patience };
        let query = crate::Query::parse("c1").unwrap();
        let error = find(&socket, &places, Wanted { query: &query, member: None }).unwrap_err();
        assert_eq!(error.code(), "IJ-O011");
    }
}
