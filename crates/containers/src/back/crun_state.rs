//! What crun has written down about a container that it runs: `status` and `config.json` in its state directory.
//!
//! Both are crun's own files. `status` says which process it made and where; `config.json` is the specification that it made it from, which has
//! the rest. They are read into what runc would have written ([`RuncState`]), so that everybody else knows one of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base::io_error;
use serde::Deserialize;

use super::error::{BackError, Result};
use super::runc_state::{Config, Device, Masks, Mount, Namespace, RuncState};
use super::surroundings::cgroups_below;
use crate::container::ContainerId;
use crate::specification::{MOST_BYTES, Specification};

/// The specification's words for namespaces, and runc's.
const NAMESPACES: [(&str, &str); 8] = [
    ("network", "NEWNET"),
    ("pid", "NEWPID"),
    ("cgroup", "NEWCGROUP"),
    ("ipc", "NEWIPC"),
    ("uts", "NEWUTS"),
    ("mount", "NEWNS"),
    ("user", "NEWUSER"),
    ("time", "NEWTIME"),
];

/// `status`, without what nobody here reads.
#[derive(Deserialize)]
struct Status {
    pid: i32,
    bundle: PathBuf,
    /// Perhaps seen from the bundle.
    rootfs: PathBuf,
    /// A list in JSON, as text.
    #[serde(default)]
    external_descriptors: String,
}

/// Reads that of a container below crun's state directory; an error if crun could not restore such a one.
pub(super) fn read(root: &Path, id: &ContainerId) -> Result<RuncState> {
    let directory = root.join(id.as_str());
    let (status_path, config_path) = (directory.join("status"), directory.join("config.json"));
    let wrong = |path: &Path, why: String| BackError::State { path: path.to_owned(), why };
    let status: Status = serde_json::from_slice(&bytes(&status_path)?)
        .map_err(|error| wrong(&status_path, error.to_string()))?;
    let external_descriptors = match status.external_descriptors.as_str() {
        "" => Vec::new(),
        text => serde_json::from_str(text).map_err(|error| wrong(&status_path, error.to_string()))?,
    };
    let specification = Specification::parse(&bytes(&config_path)?)
        .ok_or_else(|| wrong(&config_path, "it is no specification of a container".to_owned()))?;
    let state = RuncState {
        init_process_pid: status.pid,
        config: config(&specification, status.bundle.join(status.rootfs)),
        external_descriptors,
        masks: Masks::ByPath,
    };
    if state.init_process_pid < 1 || !state.config.rootfs.is_absolute() {
        return Err(wrong(&status_path, "it has no first process or no root directory".to_owned()));
    }
    fits(&state, &specification, id)?;
    Ok(state)
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let limit = u64::try_from(MOST_BYTES).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(io_error("open", path))?;
    file.take(limit + 1).read_to_end(&mut text).map_err(io_error("read", path))?;
    Ok(text)
}

fn config(specification: &Specification, rootfs: PathBuf) -> Config {
    let mount = |mount: crate::specification::SpecifiedMount| Mount {
        device: if mount.is_bind() { "bind".to_owned() } else { mount.kind },
        destination: mount.destination,
    };
    let namespace = |one: crate::specification::SpecifiedNamespace| {
        let known = NAMESPACES.iter().find(|(word, _)| *word == one.kind);
        let kind = known.map_or(one.kind.as_str(), |(_, kind)| kind).to_owned();
        Namespace { kind, path: one.path.unwrap_or_default() }
    };
    let device = |device: crate::specification::SpecifiedDevice| Device { path: device.path };
    Config {
        rootfs,
        mounts: specification.mounts().into_iter().map(mount).collect(),
        devices: Some(specification.devices().into_iter().map(device).collect()),
        namespaces: specification.namespaces().into_iter().map(namespace).collect(),
        mask_paths: Some(specification.masked_paths()),
    }
}

/// Refuses what `crun restore` makes otherwise than `crun run` does.
fn fits(state: &RuncState, specification: &Specification, id: &ContainerId) -> Result<()> {
    let refused = |why: String| Err(BackError::NotThisSort { container: id.to_string(), why });
    for mount in state.config.mounts.iter().filter(|mount| mount.device == "cgroup") {
        // Seen with crun 1.28: the container would look at the cgroup of whoever runs crun, which may be that of the whole machine.
        if !cgroups_below(state.init_process_pid, &mount.destination)?.is_empty() {
            return refused(format!(
                "it has cgroups of version 1 at {}, and crun's restore would show it those of somebody else there",
                mount.destination.display()
            ));
        }
    }
    let seen = PathBuf::from(format!("/proc/{}/root", state.init_process_pid));
    // Its restore looks for what it hides on this machine, and not in the container.
    let is_not_here = |masked: &&PathBuf| {
        let there = seen.join(masked.strip_prefix("/").unwrap_or(masked));
        there.symlink_metadata().is_ok()
            && !masked.metadata().is_ok_and(|here| here.is_dir() || here.is_file())
    };
    if let Some(masked) = state.config.mask_paths.iter().flatten().find(is_not_here) {
        return refused(format!(
            "{} is hidden from it, and this machine has nothing there",
            masked.display()
        ));
    }
    let shown_otherwise = |mount: &crate::specification::SpecifiedMount| {
        mount.options.iter().any(|option| matches!(option.as_str(), "src-nofollow" | "copy-symlink"))
    };
    if let Some(mount) = specification.mounts().iter().find(|mount| shown_otherwise(mount)) {
        return refused(format!(
            "{} is a link that is mounted itself, which crun does not restore",
            mount.destination.display()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = r#"{"pid": 4711, "process-start-time": 165155, "cgroup-path": "/lab/c1", "scope": "", "rootfs": "rootfs",
        "systemd-cgroup": false, "bundle": "/srv/bundle", "created": "2026-11-18T20:45:23.192976Z", "owner": "root",
        "detached": true, "external_descriptors": "[\n  \"\/dev\/null\",\n  \"pipe:[7]\",\n  \"pipe:[8]\"\n]"}"#;
    const CONFIG: &str = r#"{
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/data", "source": "/srv/data", "options": ["rbind"]}
        ],
        "linux": {
            "namespaces": [{"type": "pid"}, {"type": "network", "path": "/proc/self/ns/net"}],
            "maskedPaths": ["/proc/kcore", "/sys/firmware"],
            "devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]
        }
    }"#;

    fn told(status: &str, config: &str) -> Result<RuncState> {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("c1")).unwrap();
        std::fs::write(root.path().join("c1/status"), status).unwrap();
        std::fs::write(root.path().join("c1/config.json"), config).unwrap();
        read(root.path(), &ContainerId::new("c1").unwrap())
    }

    #[test]
    fn what_crun_writes_is_read_as_if_runc_had() {
        let state = told(STATUS, CONFIG).unwrap();
        assert_eq!((state.init_process_pid, state.masks), (4711, Masks::ByPath));
        assert_eq!(state.config.rootfs, Path::new("/srv/bundle/rootfs"));
        assert_eq!(state.descriptors(), r#"["/dev/null","pipe:[7]","pipe:[8]"]"#);
        assert_eq!(state.config.mounts[1].device, "bind");
        assert_eq!(state.namespace("NEWNET").unwrap().path, Path::new("/proc/self/ns/net"));
        assert_eq!(state.config.mask_paths.unwrap().len(), 2);
        assert_eq!(state.config.devices.unwrap()[0].path, Path::new("/dev/nvidia0"));
    }

    #[test]
    fn nonsense_is_named() {
        for (status, config) in [
            ("", CONFIG),
            (&STATUS.replace("4711", "0"), CONFIG),
            (&STATUS.replace("/srv", "srv"), CONFIG),
            (&STATUS.replace("]\"", "\""), CONFIG),
            (STATUS, "[]"),
        ] {
            assert_eq!(told(status, config).unwrap_err().code(), "IJ-O041", "{status} {config}");
        }
    }

    #[test]
    fn what_crun_does_not_restore_is_refused() {
        let error = told(STATUS, &CONFIG.replace("rbind", "bind\", \"src-nofollow")).unwrap_err();
        assert_eq!(error.code(), "IJ-O040");
        assert!(error.to_string().contains("/data"), "{error}");
    }
}
