//! runc and crun, by their command line: both list what is in a state directory as JSON.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::shared::{Wanted, cgroup_of, first_process, mounted_root, read_specification};
use crate::command::{Said, ask};
use crate::container::{Container, ContainerId, RootFilesystem, Runtime, Status};
use crate::error::{ContainerError, Result};

/// A line of the list. crun says less than runc.
#[derive(Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    pid: i64,
    #[serde(default)]
    status: String,
    #[serde(default)]
    bundle: PathBuf,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Looks through a state directory.
pub(super) fn find(
    runtime: &Runtime,
    program: &Path,
    root: &Path,
    patience: Duration,
    wanted: Wanted<'_>,
) -> Result<Vec<Container>> {
    let named = runtime.to_string();
    let directory = root.to_str().ok_or_else(|| ContainerError::Silent {
        runtime: named.clone(),
        why: "its directory has no name in UTF-8".to_owned(),
    })?;
    // To ask for a directory that is not there would make it.
    if !root.is_dir() {
        return Err(ContainerError::Silent { runtime: named, why: "there is no such directory".to_owned() });
    }
    let bytes = match ask(&named, program, &["--root", directory, "list", "--format", "json"], patience)? {
        Said::Answer(bytes) => bytes,
        Said::Refused(why) => return Err(ContainerError::Silent { runtime: named, why }),
    };
    let list = listed(&bytes).map_err(|why| ContainerError::Answer { runtime: named, why })?;
    let found = list.into_iter().filter_map(|one| describe(runtime, one, wanted)).collect();
    Ok(found)
}

/// None at all is `null` to runc, and nothing to some versions of crun.
fn listed(bytes: &[u8]) -> Result<Vec<Listed>, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let list: Option<Vec<Listed>> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    Ok(list.unwrap_or_default())
}

fn describe(runtime: &Runtime, listed: Listed, wanted: Wanted<'_>) -> Option<Container> {
    let id = ContainerId::new(listed.id)?;
    let status = status(&listed.status);
    let pid = first_process(listed.pid).filter(|_| status != Status::Stopped);
    if !wanted.query.fits_id(id.as_str()) && !wanted.has_member(pid) {
        return None;
    }
    let specification = read_specification(&listed.bundle.join("config.json")).unwrap_or_default();
    let path = specification.root_path().map(|path| listed.bundle.join(path));
    let root =
        RootFilesystem { path, read_only: specification.root_is_read_only(), ..RootFilesystem::default() };
    let mut annotations = specification.annotations();
    annotations.extend(listed.annotations.unwrap_or_default());
    Some(Container {
        runtime: runtime.clone(),
        namespace: None,
        id,
        name: None,
        status,
        pid,
        cgroup: cgroup_of(pid),
        root: mounted_root(pid, root),
        specification,
        bundle: Some(listed.bundle),
        snapshotter: None,
        snapshot_key: None,
        image: None,
        low_level: None,
        annotations,
        labels: BTreeMap::new(),
        pod: None,
    })
}

/// The words of the OCI runtime specification, and those that runc adds.
pub(super) fn status(word: &str) -> Status {
    match word {
        "created" | "creating" | "configured" | "initialized" => Status::Created,
        "running" => Status::Running,
        "pausing" => Status::Pausing,
        "paused" => Status::Paused,
        "stopped" | "stopping" | "exited" | "removing" => Status::Stopped,
        _ => Status::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_both_are_read() {
        let runc =
            br#"[{"ociVersion":"1.2.0","id":"c1","pid":42,"status":"paused","bundle":"/b","rootfs":"/b/r",
            "created":"2026-01-01T00:00:00Z","annotations":{"a":"b"},"owner":""}]"#;
        let one = &listed(runc).unwrap()[0];
        assert_eq!((one.id.as_str(), one.pid, status(&one.status)), ("c1", 42, Status::Paused));
        let crun = br#"[{"id":"c1","pid":42,"status":"running","bundle":"/b","owner":"root"}]"#;
        assert_eq!(listed(crun).unwrap()[0].bundle, PathBuf::from("/b"));
        assert!(listed(b"null").unwrap().is_empty() && listed(b" \n").unwrap().is_empty());
        assert!(listed(b"{").is_err());
    }
}
