//! Everything that images of a container can ask for, forged one field at a time: each is refused, whatever else is honest.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use super::claimed::{Claimed, ClaimedMount, ClaimedThread};
use super::judge::check;
use crate::specification::Specification;

const LIVE: &str = r#"{
    "process": {
        "user": {"uid": 1000, "gid": 100, "additionalGids": [44]}, "noNewPrivileges": true, "oomScoreAdj": 0,
        "capabilities": {"bounding": ["CAP_CHOWN", "CAP_KILL"]}, "apparmorProfile": "the-default",
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 512}]
    },
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/run", "type": "tmpfs", "source": "tmpfs"},
        {"destination": "/data", "type": "bind", "source": "/srv/data", "options": ["rbind"]}
    ],
    "linux": {
        "namespaces": [{"type": "pid"}, {"type": "network"}, {"type": "mount"}],
        "devices": [{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}],
        "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
        "maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/bus"]
    }
}"#;

fn honest() -> Claimed {
    let mount = |at: &str, kind: &str, given_as: Option<&str>| ClaimedMount {
        at: at.into(),
        kind: kind.into(),
        given_as: given_as.map(Into::into),
    };
    let mut limits = vec![u64::MAX; 16];
    limits[7] = 1024;
    let thread = ClaimedThread {
        who: "thread 1 of process 1".into(),
        bounding: 0b10_0001,
        has: 1,
        no_new_privileges: true,
        filtered: true,
        users: vec![1000; 4],
        groups: vec![100, 100, 100, 100, 44],
        limits,
        oom_score_adj: Some(0),
        profile: Some("the-default".into()),
        could_be_confined: true,
    };
    Claimed {
        mounts: vec![
            mount("/", "ext4", None),
            mount("/proc", "proc", None),
            mount("/run", "tmpfs", None),
            mount("/data", "", Some("/data")),
            mount("/proc/kcore", "", Some("/dev/null")),
            mount("/proc/bus", "proc", None),
            mount("/dev/nvidia0", "", Some("/dev/nvidia0")),
        ],
        threads: vec![thread],
        cgroups: 1,
        shared: BTreeSet::from(["ipc"]),
    }
}

/// Which field, how it is forged, and what is said of it.
type Forged = (&'static str, fn(&mut Claimed), &'static str);

fn mount(claimed: &mut Claimed, at: &str) -> ClaimedMount {
    let found = claimed.mounts.iter().position(|mount| mount.at == Path::new(at)).unwrap();
    claimed.mounts.swap_remove(found)
}

fn mounted(claimed: &mut Claimed, at: &str, kind: &str, given_as: Option<&str>) {
    claimed.mounts.retain(|mount| mount.at != Path::new(at));
    let (at, kind, given_as) = (at.into(), kind.into(), given_as.map(Into::into));
    claimed.mounts.push(ClaimedMount { at, kind, given_as });
}

const FORGED: &[Forged] = &[
    // CVE-2024-8676: a directory of the machine that only the snapshot lists.
    ("mounts.at", |all| mounted(all, "/host", "", Some("/host")), "mounted at /host,"),
    ("mounts.at", |all| mounted(all, "/host", "ext4", None), "mounted at /host,"),
    ("mounts.at", |all| mounted(all, "/data/../host", "", Some("/data")), "mounted at"),
    ("mounts.kind", |all| mounted(all, "/run", "sysfs", None), "sysfs mounted at /run,"),
    ("mounts.kind", |all| mounted(all, "/data", "ext4", None), "ext4 mounted at /data,"),
    // What is hidden or read-only by the specification would be neither.
    ("mounts.kind", |all| mounted(all, "/proc/kcore", "proc", None), "mounted at /proc/kcore,"),
    ("mounts.kind", |all| mounted(all, "/proc/bus", "ext4", None), "mounted at /proc/bus,"),
    ("mounts.given_as", |all| mounted(all, "/proc/bus", "", Some("/data")), "mounted at /proc/bus,"),
    ("mounts.given_as", |all| mounted(all, "/data", "", Some("/dev/nvidia0")), "mounted at /data,"),
    ("mounts.given_as", |all| mounted(all, "/proc/kcore", "", Some("/data")), "mounted at /proc/kcore,"),
    // CVE-2026-53492: a device that nobody has granted.
    ("mounts.given_as", |all| mounted(all, "/dev/sda", "", Some("/dev/sda")), "mounted at /dev/sda,"),
    (
        "mounts.given_as",
        |all| {
            let granted = mount(all, "/dev/nvidia0");
            all.mounts.push(ClaimedMount { at: "/dev/nvidia1".into(), ..granted });
        },
        "mounted at /dev/nvidia1,",
    ),
    ("threads.bounding", |all| all.threads[0].bounding |= 1 << 21, "SYS_ADMIN"),
    ("threads.has", |all| all.threads[0].has |= 1 << 16, "SYS_MODULE"),
    ("threads.no_new_privileges", |all| all.threads[0].no_new_privileges = false, "gain privileges"),
    ("threads.filtered", |all| all.threads[0].filtered = false, "filter of system calls"),
    ("threads.users", |all| all.threads[0].users[1] = 0, "user 0"),
    ("threads.groups", |all| all.threads[0].groups[3] = 0, "group 0"),
    ("threads.groups", |all| all.threads[0].groups.push(6), "group 6"),
    ("threads.limits", |all| all.threads[0].limits[7] = 1025, "NOFILE up to 1025"),
    (
        "threads.oom_score_adj",
        |all| all.threads[0].oom_score_adj = Some(-1000),
        "spared when memory is short",
    ),
    ("threads.profile", |all| all.threads[0].profile = Some("unconfined".into()), "confined by unconfined"),
    ("threads.profile", |all| all.threads[0].profile = None, "confined by nothing"),
    ("shared", |all| _ = all.shared.insert("pid"), "machine's pid namespace"),
    ("shared", |all| _ = all.shared.insert("network"), "machine's network namespace"),
    ("shared", |all| _ = all.shared.insert("mount"), "machine's mount namespace"),
];

/// Fields that nothing is refused for here, and why.
const NOT_ASKED: &[(&str, &str)] = &[
    ("mounts", "its fields are"),
    ("threads", "its fields are"),
    ("threads.who", "words for people"),
    ("threads.could_be_confined", "of this machine, not of the images"),
    ("cgroups", "one runtime's matter: `Crun::accepts`"),
];

fn told(claimed: &Claimed) -> Vec<String> {
    check(&Specification::parse(LIVE.as_bytes()).unwrap(), Path::new("/nowhere"), claimed)
}

/// The names of a value's fields, from how it shows itself: a new one is among them, whoever adds it.
fn fields(of: &impl Debug, within: &str) -> BTreeSet<String> {
    let text = format!("{of:#?}");
    let own = text.lines().filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with(' ')));
    own.filter_map(|line| Some(format!("{within}{}", line.split_once(':')?.0))).collect()
}

#[test]
fn every_field_that_images_can_forge_is_refused_by_itself() {
    assert_eq!(told(&honest()), Vec::<String>::new());
    for (field, forge, words) in FORGED {
        let mut claimed = honest();
        forge(&mut claimed);
        let findings = told(&claimed);
        assert!(findings.len() == 1 && findings[0].contains(words), "{field}, {words}: {findings:?}");
    }
}

#[test]
fn no_field_is_forgotten() {
    let all: BTreeSet<String> = [
        fields(&Claimed::default(), ""),
        fields(&ClaimedMount::default(), "mounts."),
        fields(&ClaimedThread::default(), "threads."),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(all.len() > 15 && all.contains("threads.users"), "{all:?}");
    let listed = FORGED.iter().map(|(field, ..)| *field).chain(NOT_ASKED.iter().map(|(field, _)| *field));
    assert_eq!(all, listed.map(str::to_owned).collect());
}
