//! What images ask for, held against the specification that the container has now.
//!
//! The runtime makes the container from its live specification, but CRIU mounts what the images say, and gives processes the rights that the
//! images say. So both are compared first: a mount that the specification does not have, or that is of another sort, a process that
//! may do more than the specification allows, or is somebody whom nobody in there can become (`rights`), and one that would live in a namespace
//! of the machine's (`apart`), are refused. It is asked when a snapshot is taken, too: nothing is put to sleep that could not
//! be woken.

use std::path::Path;

use serde_json::Value;

use super::apart::wrong_namespaces;
use super::claimed::{Claimed, ClaimedMount, ClaimedThread};
use super::resolve::inside;
use super::rights;
use crate::specification::Specification;

/// More are not worth reading.
const MOST: usize = 10;

/// Devices that every container has.
const USUAL_DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Capabilities, by their numbers.
const CAPABILITIES: &str = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE \
     NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE \
     SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM \
     BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE";

/// What of it the specification does not allow, a sentence each; `root` is the container's root directory on this machine.
pub fn check(specification: &Specification, root: &Path, claimed: &Claimed) -> Vec<String> {
    let mounts = claimed.mounts.iter().filter_map(|mount| wrong_mount(specification, root, claimed, mount));
    let threads = claimed.threads.iter().filter_map(|thread| wrong_thread(specification, thread));
    wrong_namespaces(specification, &claimed.shared).chain(mounts).chain(threads).take(MOST).collect()
}

fn wrong_mount(
    specification: &Specification,
    root: &Path,
    claimed: &Claimed,
    mount: &ClaimedMount,
) -> Option<String> {
    let at = &mount.at;
    if at == Path::new("/") {
        // The runtime says which directory that is.
        return None;
    }
    let is_given_as = |name: &Path| mount.given_as.as_deref() == Some(name);
    let is_own = mount.given_as.is_none();
    let asked = specification.mounts().into_iter().find(|asked| inside(root, &asked.destination) == *at);
    let listed = |pointer: &str| {
        let paths = specification.at(pointer).and_then(Value::as_array);
        paths.into_iter().flatten().filter_map(Value::as_str).any(|path| inside(root, Path::new(path)) == *at)
    };
    // A read-only path is a part of the file system that it lies in, mounted over itself.
    let is_of_its_parent = || {
        let around = |other: &&ClaimedMount| other.at != *at && at.starts_with(&other.at);
        let parent = claimed.mounts.iter().filter(around).max_by_key(|other| other.at.components().count());
        parent.is_some_and(|parent| parent.kind == mount.kind)
    };
    let of_cgroups = || {
        let mut mounts = specification.mounts().into_iter().filter(|asked| asked.kind == "cgroup");
        mounts.any(|asked| at.starts_with(inside(root, &asked.destination)))
    };
    let is_device = || {
        let mut devices = specification.devices().into_iter().map(|device| device.path);
        USUAL_DEVICES.iter().any(|usual| Path::new(usual) == at)
            || devices.any(|path| inside(root, &path) == *at)
    };
    let fits = match asked {
        Some(asked) if asked.is_bind() => is_given_as(at),
        Some(asked) if asked.kind == "cgroup" => {
            is_own && ["tmpfs", "cgroup", "cgroup2"].contains(&mount.kind.as_str())
        }
        Some(asked) => is_own && asked.kind == mount.kind,
        None if listed("/linux/maskedPaths") => {
            // By runc, by its own tmpfs, or by crun, which knows itself what it puts there.
            is_given_as(Path::new("/dev/null")) || (is_own && mount.kind == "tmpfs") || is_given_as(at)
        }
        None if listed("/linux/readonlyPaths") => is_own && is_of_its_parent(),
        None if of_cgroups() => is_given_as(at),
        None => is_given_as(at) && is_device(),
    };
    (!fits).then(|| match &mount.given_as {
        Some(_) => format!(
            "it wants something of this machine mounted at {}, and the specification does not",
            at.display()
        ),
        None => {
            format!("it wants {} mounted at {}, and the specification does not", mount.kind, at.display())
        }
    })
}

fn wrong_thread(specification: &Specification, thread: &ClaimedThread) -> Option<String> {
    let who = &thread.who;
    if let Some(allowed) = bounding(specification) {
        let more = (thread.bounding | thread.has) & !allowed;
        if more != 0 {
            let names: Vec<&str> = CAPABILITIES
                .split_whitespace()
                .enumerate()
                .filter(|(number, _)| (more >> number) & 1 == 1)
                .map(|(_, name)| name)
                .collect();
            return Some(format!(
                "{who} has capabilities that the specification does not give: {}",
                names.join(", ")
            ));
        }
    }
    let closed = specification.at("/process/noNewPrivileges").and_then(Value::as_bool) == Some(true);
    if closed && !thread.no_new_privileges {
        return Some(format!("{who} can gain privileges, which the specification forbids"));
    }
    if specification.has_seccomp() && !thread.filtered {
        return Some(format!("{who} has no filter of system calls, and the specification has one"));
    }
    rights::wrong(specification, bounding(specification).unwrap_or(u64::MAX), thread)
}

/// What a process of the container can ever have; `None` if the specification says nothing about it.
fn bounding(specification: &Specification) -> Option<u64> {
    let names = specification.at("/process/capabilities/bounding")?.as_array()?;
    let number = |name: &str| {
        CAPABILITIES.split_whitespace().position(|known| Some(known) == name.strip_prefix("CAP_"))
    };
    Some(names.iter().filter_map(|name| number(name.as_str()?)).fold(0, |bits, number| bits | 1 << number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIVE: &str = r#"{
        "process": {"noNewPrivileges": true, "capabilities": {"bounding": ["CAP_CHOWN", "CAP_KILL"]}},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/data", "type": "bind", "source": "/srv/data", "options": ["rbind"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"}
        ],
        "linux": {
            "devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}],
            "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
            "maskedPaths": ["/proc/kcore", "/proc/acpi", "/sys/firmware"], "readonlyPaths": ["/proc/bus"]
        }
    }"#;

    fn own(at: &str, kind: &str) -> ClaimedMount {
        ClaimedMount { at: at.into(), kind: kind.into(), given_as: None }
    }

    fn given(at: &str, name: &str) -> ClaimedMount {
        ClaimedMount { at: at.into(), kind: String::new(), given_as: Some(name.into()) }
    }

    fn honest() -> Claimed {
        let mounts = vec![
            own("/", "ext4"),
            own("/proc", "proc"),
            own("/dev", "tmpfs"),
            given("/data", "/data"),
            given("/proc/kcore", "/dev/null"),
            given("/sys/firmware", "/sys/firmware"),
            own("/proc/acpi", "tmpfs"),
            own("/proc/bus", "proc"),
            own("/sys/fs/cgroup", "tmpfs"),
            given("/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"),
            given("/dev/nvidia0", "/dev/nvidia0"),
            given("/dev/null", "/dev/null"),
        ];
        let thread = ClaimedThread {
            who: "thread 1".into(),
            bounding: 0b10_0001,
            has: 1,
            no_new_privileges: true,
            filtered: true,
            ..ClaimedThread::default()
        };
        Claimed { mounts, threads: vec![thread], cgroups: 1, ..Claimed::default() }
    }

    fn told(claimed: &Claimed) -> Vec<String> {
        check(&Specification::parse(LIVE.as_bytes()).unwrap(), Path::new("/nowhere"), claimed)
    }

    #[test]
    fn what_the_specification_has_may_come_back() {
        assert_eq!(told(&honest()), Vec::<String>::new());
    }

    #[test]
    fn a_mount_that_is_not_in_the_specification_is_refused_whatever_it_calls_itself() {
        for crafted in [
            own("/host", "ext4"),
            own("/data", "ext4"),
            own("/proc", "sysfs"),
            own("/proc/bus", "ext4"),
            own("/proc/kcore", "proc"),
            given("/host", "/host"),
            given("/data", "/etc"),
            given("/proc", "/proc"),
            given("/proc/kcore", "/data"),
            given("/dev/sda", "/dev/sda"),
            given("/sys/fs/cgroup/memory", "/data"),
        ] {
            let mut claimed = honest();
            let name = crafted.at.display().to_string();
            claimed.mounts.retain(|mount| mount.at != crafted.at);
            claimed.mounts.push(crafted);
            let findings = told(&claimed);
            let named = findings.iter().any(|finding| finding.contains(&format!("mounted at {name},")));
            assert!(named, "{name}: {findings:?}");
        }
    }

    #[test]
    fn a_process_that_may_do_more_is_refused() {
        for (crafted, words) in [
            (ClaimedThread { bounding: 1 << 21, ..honest().threads[0].clone() }, "SYS_ADMIN"),
            (ClaimedThread { has: 1 << 16, ..honest().threads[0].clone() }, "SYS_MODULE"),
            (ClaimedThread { no_new_privileges: false, ..honest().threads[0].clone() }, "gain privileges"),
            (ClaimedThread { filtered: false, ..honest().threads[0].clone() }, "filter"),
        ] {
            let findings = told(&Claimed { threads: vec![crafted], ..honest() });
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert!(findings[0].contains(words), "{findings:?}");
        }
    }
}
