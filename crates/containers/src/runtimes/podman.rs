//! podman, by its command line: `inspect` prints a container or a pod as JSON.
//!
//! It has no daemon; whoever runs it sees their own containers. Each call takes some fifty milliseconds, so the likely one is made first and
//! mostly is the only one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::oci::status;
use super::shared::{Wanted, cgroup_of, first_process, layers, mounted_root, read_specification};
use crate::command::{Said, ask};
use crate::container::{Container, ContainerId, Image, Pod, RootFilesystem, Runtime, Status};
use crate::error::{ContainerError, Result};

/// What it says of a container, as far as it is used.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    state: InspectedState,
    #[serde(default)]
    image_name: String,
    #[serde(default)]
    image_digest: String,
    #[serde(default)]
    pod: String,
    #[serde(default)]
    is_infra: bool,
    #[serde(default)]
    driver: String,
    #[serde(default)]
    graph_driver: Option<GraphDriver>,
    #[serde(default, rename = "OCIConfigPath")]
    config_path: PathBuf,
    #[serde(default, rename = "OCIRuntime")]
    oci_runtime: String,
    #[serde(default)]
    rootfs: PathBuf,
    #[serde(default)]
    config: InspectedConfig,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct InspectedState {
    status: String,
    pid: i64,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct InspectedConfig {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct GraphDriver {
    #[serde(default)]
    data: Option<BTreeMap<String, String>>,
}

/// What it says of a pod.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedPod {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default, rename = "InfraContainerID")]
    infra: String,
    #[serde(default)]
    containers: Option<Vec<PodMember>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PodMember {
    id: String,
}

/// A line of `ps`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    #[serde(default)]
    pid: i64,
}

/// Looks through its store.
pub(super) fn find(
    program: &Path,
    options: &[String],
    patience: Duration,
    wanted: Wanted<'_>,
) -> Result<Vec<Container>> {
    let runtime = Runtime::Podman { program: program.to_owned(), options: options.to_vec() };
    let podman = Podman { runtime, program, options, deadline: Instant::now() + patience, patience };
    let asked = wanted.query.as_str();
    let mut found = Vec::new();
    if !asked.contains('/') {
        found = podman.containers(&[asked])?;
        if found.is_empty() {
            found = podman.of_pod(asked)?;
        }
    }
    if wanted.member.is_some() {
        found.extend(podman.of_member(wanted)?);
    }
    found.retain(|container| wanted.fits(container));
    found.sort_by(|one, other| one.id.cmp(&other.id));
    found.dedup_by(|one, other| one.id == other.id);
    Ok(found)
}

struct Podman<'a> {
    runtime: Runtime,
    program: &'a Path,
    options: &'a [String],
    deadline: Instant,
    patience: Duration,
}

impl Podman<'_> {
    /// Asks for something that is printed as JSON; `None` if there is no such thing.
    fn ask<T: DeserializeOwned>(&self, words: &[&str]) -> Result<Option<T>> {
        let named = self.runtime.to_string();
        let all: Vec<&str> = self.options.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let left = self.deadline.saturating_duration_since(Instant::now());
        let slow = |error| match error {
            ContainerError::Slow { runtime, .. } => ContainerError::Slow { runtime, limit: self.patience },
            error => error,
        };
        let bytes = match ask(&named, self.program, &all, left).map_err(slow)? {
            Said::Answer(bytes) => bytes,
            Said::Refused(why) if is_missing(&why) => return Ok(None),
            Said::Refused(why) => return Err(ContainerError::Silent { runtime: named, why }),
        };
        let nonsense =
            |error: serde_json::Error| ContainerError::Answer { runtime: named, why: error.to_string() };
        serde_json::from_slice(&bytes).map(Some).map_err(nonsense)
    }

    fn containers(&self, names: &[&str]) -> Result<Vec<Container>> {
        let words: Vec<&str> =
            ["container", "inspect", "--"].into_iter().chain(names.iter().copied()).collect();
        let found: Option<Vec<Inspected>> = self.ask(&words)?;
        let mut containers = Vec::new();
        for one in found.unwrap_or_default() {
            let pod = if one.pod.is_empty() { None } else { self.pod(&one.pod)? };
            containers.extend(self.describe(one, pod.as_ref()));
        }
        Ok(containers)
    }

    fn pod(&self, name: &str) -> Result<Option<InspectedPod>> {
        // Older versions print one, newer ones a list.
        let found: Option<serde_json::Value> = self.ask(&["pod", "inspect", "--", name])?;
        let one = match found {
            Some(serde_json::Value::Array(list)) => list.into_iter().next(),
            other => other,
        };
        Ok(one.and_then(|pod| serde_json::from_value(pod).ok()))
    }

    /// The containers of a pod but the one that only holds its namespaces open.
    fn of_pod(&self, name: &str) -> Result<Vec<Container>> {
        let Some(pod) = self.pod(name)? else { return Ok(Vec::new()) };
        let members = pod.containers.as_deref().unwrap_or_default();
        let ids: Vec<&str> =
            members.iter().map(|one| one.id.as_str()).filter(|id| *id != pod.infra).collect();
        if ids.is_empty() { Ok(Vec::new()) } else { self.containers(&ids) }
    }

    /// The container that a process is in: by the name of its cgroup, or else by all first processes.
    fn of_member(&self, wanted: Wanted<'_>) -> Result<Vec<Container>> {
        let names = wanted.member.map(crate::member::Member::names).unwrap_or_default();
        let is_long = |name: &&str| name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        for name in names.iter().map(String::as_str).filter(is_long) {
            let found = self.containers(&[name])?;
            if found.iter().any(|container| wanted.has_member(container.pid)) {
                return Ok(found);
            }
        }
        let all: Option<Vec<Listed>> = self.ask(&["ps", "--no-trunc", "--format", "json"])?;
        let holds = |one: &Listed| wanted.has_member(first_process(one.pid));
        let ids: Vec<String> = all.unwrap_or_default().into_iter().filter(holds).map(|one| one.id).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if ids.is_empty() { Ok(Vec::new()) } else { self.containers(&ids) }
    }

    fn describe(&self, one: Inspected, pod: Option<&InspectedPod>) -> Option<Container> {
        let id = ContainerId::new(one.id)?;
        let status = status(&one.state.status);
        let pid = first_process(one.state.pid).filter(|_| status != Status::Stopped);
        let specification = read_specification(&one.config_path).unwrap_or_default();
        let data = one.graph_driver.and_then(|driver| driver.data).unwrap_or_default();
        let place = |name: &str| data.get(name).filter(|path| !path.is_empty()).map(PathBuf::from);
        let own = Some(one.rootfs).filter(|path| path.is_absolute());
        let root = RootFilesystem {
            path: own.or_else(|| place("MergedDir")).or_else(|| specification.root_path()),
            writable: place("UpperDir"),
            lower: layers(place("LowerDir")),
            mounted_as: place("UpperDir").map(|_| "overlay".to_owned()),
            read_only: specification.root_is_read_only(),
        };
        let root = if root.writable.is_some() { root } else { mounted_root(pid, root) };
        let digest = Some(one.image_digest).filter(|digest| !digest.is_empty());
        Some(Container {
            runtime: self.runtime.clone(),
            namespace: None,
            id,
            name: Some(one.name).filter(|name| !name.is_empty()),
            status,
            pid,
            cgroup: cgroup_of(pid),
            annotations: specification.annotations(),
            bundle: one.config_path.parent().map(Path::to_owned).filter(|path| path.is_absolute()),
            specification,
            root,
            snapshotter: Some(one.driver).filter(|driver| !driver.is_empty()),
            snapshot_key: None,
            image: Some(one.image_name).filter(|name| !name.is_empty()).map(|name| Image { name, digest }),
            low_level: Some(one.oci_runtime).filter(|name| !name.is_empty()),
            labels: one.config.labels.unwrap_or_default(),
            pod: pod.filter(|_| !one.is_infra).map(|pod| Pod {
                name: pod.name.clone(),
                namespace: None,
                id: Some(pod.id.clone()),
                sandbox: Some(pod.infra.clone()).filter(|id| !id.is_empty()),
            }),
        })
    }
}

/// How it says that it knows no such container or pod.
fn is_missing(complaint: &str) -> bool {
    let complaint = complaint.to_lowercase();
    ["no such container", "no such pod", "no such object", "no container with name", "no pod with name"]
        .into_iter()
        .any(|words| complaint.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSPECTED: &str = r#"[{
        "Id": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", "Name": "train",
        "State": {"Status": "paused", "Running": false, "Paused": true, "Pid": 42},
        "ImageName": "localhost/py:1", "ImageDigest": "sha256:12", "Pod": "", "IsInfra": false, "Driver": "overlay",
        "GraphDriver": {"Name": "overlay", "Data": {"LowerDir": "/b:/a", "UpperDir": "/u", "MergedDir": "/m"}},
        "OCIConfigPath": "/nowhere/userdata/config.json", "OCIRuntime": "crun", "Config": {"Labels": null}
    }]"#;

    #[test]
    fn an_inspected_container_is_put_into_our_words() {
        let program = Path::new("/usr/bin/podman");
        let runtime = Runtime::Podman { program: program.to_owned(), options: Vec::new() };
        let patience = Duration::from_secs(1);
        let podman = Podman { runtime, program, options: &[], deadline: Instant::now(), patience };
        let one: Vec<Inspected> = serde_json::from_str(INSPECTED).unwrap();
        let container = podman.describe(one.into_iter().next().unwrap(), None).unwrap();
        assert_eq!((container.name.as_deref(), container.status), (Some("train"), Status::Paused));
        assert_eq!(container.root.writable, Some(PathBuf::from("/u")));
        assert_eq!(container.root.lower, [PathBuf::from("/b"), PathBuf::from("/a")]);
        assert_eq!(container.image.unwrap().digest.as_deref(), Some("sha256:12"));
        assert_eq!((container.low_level.as_deref(), container.pod), (Some("crun"), None));
    }

    #[test]
    fn what_is_not_there_is_told_from_what_went_wrong() {
        assert!(is_missing("Error: no such container x"));
        assert!(is_missing("Error: no such object: \"x\""));
        assert!(!is_missing("Error: cannot open database: permission denied"));
    }
}
