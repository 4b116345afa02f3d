//! What of a container its runtime makes again before a restore, under the names that the `restore` of runc or crun gives it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use base::io_error;
use base::proc::mounts_in;

use super::error::Result;
use super::resolve::inside;
use super::runc_state::{Masks, RuncState};

/// What CRIU leaves to the runtime.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Surroundings {
    /// The root directory.
    pub root: PathBuf,
    /// Mounts and namespaces, in the words of CRIU's `--external`.
    pub external: Vec<OsString>,
}

/// Namespaces that can be joined and stay outside: runc's word, the kernel's, and the name at the restore.
const JOINED: [(&str, &str, &str); 2] =
    [("NEWNET", "net", "extRootNetNS"), ("NEWPID", "pid", "extRootPidNS")];

/// What of a container that runs is made by its runtime.
pub fn surroundings(state: &RuncState) -> Result<Surroundings> {
    let (config, root) = (&state.config, &state.config.rootfs);
    let mut external = Vec::new();
    for (kind, word, name) in JOINED {
        let Some(joined) = state.namespace(kind).filter(|one| !one.path.as_os_str().is_empty()) else {
            continue;
        };
        let inode = fs::metadata(&joined.path).map_err(io_error("look at", &joined.path))?.ino();
        external.push(format!("{word}[{inode}]:{name}").into());
    }
    let own_cgroups = state.namespace("NEWCGROUP").is_some();
    for mount in &config.mounts {
        match mount.device.as_str() {
            "bind" => {
                let at = inside(root, &mount.destination);
                external.push(named(&at, at.as_os_str()));
            }
            "cgroup" if !own_cgroups => {
                let at = inside(root, &mount.destination);
                external.extend(cgroups_below(state.init_process_pid, &at)?);
            }
            _ => {}
        }
    }
    let seen = PathBuf::from(format!("/proc/{}/root", state.init_process_pid));
    for masked in config.mask_paths.iter().flatten() {
        let below = masked.strip_prefix("/").unwrap_or(masked);
        // One that this kernel does not have is not masked.
        let Ok(there) = fs::symlink_metadata(seen.join(below)) else { continue };
        match state.masks {
            Masks::DevNull if there.is_dir() => {}
            Masks::DevNull => external.push(named(masked, OsStr::new("/dev/null"))),
            Masks::ByPath => external.push(named(masked, masked.as_os_str())),
        }
    }
    for device in config.devices.iter().flatten() {
        let at = inside(root, &device.path);
        external.push(named(&at, at.as_os_str()));
    }
    Ok(Surroundings { root: root.clone(), external })
}

/// A mount that is given by a name.
fn named(at: &Path, name: &OsStr) -> OsString {
    let mut text = b"mnt[".to_vec();
    text.extend_from_slice(at.as_os_str().as_bytes());
    text.extend_from_slice(b"]:");
    text.extend_from_slice(name.as_bytes());
    OsString::from_vec(text)
}

/// The hierarchies of version 1 that are bound into a container below this path, each by its own name.
pub(super) fn cgroups_below(pid: i32, at: &Path) -> Result<Vec<OsString>> {
    let path = PathBuf::from(format!("/proc/{pid}/mountinfo"));
    let text = fs::read_to_string(&path).map_err(io_error("read", &path))?;
    Ok(cgroups_in(&text, at))
}

fn cgroups_in(mountinfo: &str, at: &Path) -> Vec<OsString> {
    let hierarchies =
        mounts_in(mountinfo).filter(|mount| mount.kind == "cgroup" && mount.target.starts_with(at));
    hierarchies.map(|mount| named(&mount.target, mount.target.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_the_name_that_its_runtime_gives_it() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("real")).unwrap();
        std::os::unix::fs::symlink("/real", root.path().join("data")).unwrap();
        let mut state: RuncState = serde_json::from_str(super::super::runc_state::tests::EXAMPLE).unwrap();
        state.init_process_pid = i32::try_from(std::process::id()).unwrap();
        state.config.rootfs = root.path().to_owned();
        // `/proc/acpi` is a directory where it is there at all, and hidden by a tmpfs.
        state.config.mask_paths =
            Some(vec!["/proc/uptime".into(), "/proc/sys".into(), "/proc/no-such".into()]);
        let found = surroundings(&state).unwrap();
        let words: Vec<&str> = found.external.iter().filter_map(|word| word.to_str()).collect();
        let network = fs::metadata("/proc/self/ns/net").unwrap().ino();
        assert_eq!(words[0], format!("net[{network}]:extRootNetNS"));
        assert!(words.contains(&"mnt[/real]:/real"), "{words:?}");
        assert!(words.contains(&"mnt[/proc/uptime]:/dev/null"), "{words:?}");
        assert!(words.contains(&"mnt[/dev/null]:/dev/null"), "{words:?}");
        assert!(
            !words.iter().any(|word| word.contains("/proc/sys") || word.contains("no-such")),
            "{words:?}"
        );
        let by_path = surroundings(&RuncState { masks: Masks::ByPath, ..state }).unwrap();
        for named in ["mnt[/proc/uptime]:/proc/uptime", "mnt[/proc/sys]:/proc/sys"] {
            assert!(by_path.external.iter().any(|word| word == named), "{by_path:?}");
        }
    }

    #[test]
    fn hierarchies_of_cgroups_are_found_where_they_are_mounted() {
        let mountinfo = "30 29 0:26 / /sys ro - sysfs sysfs ro\n\
             31 30 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             32 31 0:28 /c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             33 31 0:29 /c1 /sys/fs/cgroup/cpu,cpuacct ro master:3 - cgroup cgroup rw,cpu\n\
             34 31 0:30 / /elsewhere ro - cgroup cgroup rw,pids\n";
        let found = cgroups_in(mountinfo, Path::new("/sys/fs/cgroup"));
        assert_eq!(
            found,
            [
                "mnt[/sys/fs/cgroup/memory]:/sys/fs/cgroup/memory",
                "mnt[/sys/fs/cgroup/cpu,cpuacct]:/sys/fs/cgroup/cpu,cpuacct"
            ]
        );
    }
}
