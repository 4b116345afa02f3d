//! What images of a container ask for, in the words of the crate that holds it against the specification.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use checkpoint_criu::images::{Credentials, Ids, Images, TaskCore, ThreadCore};
use containers::back::{Claimed, ClaimedMount, ClaimedThread};
use lifecycle::Result;

/// `SECCOMP_FILTER_FLAG_TSYNC`.
const FOR_ALL_THREADS: u32 = 1;

/// What they ask for.
pub(super) fn claimed(images: &Path) -> Result<Claimed> {
    let images = Images::open(images)?;
    let mut found = Claimed::default();
    for (_, mounts) in images.mountpoints()? {
        found.mounts.extend(mounts.iter().map(|mount| ClaimedMount {
            at: absolute(mount.mountpoint()),
            kind: mount.fs_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            given_as: mount.external_key().map(PathBuf::from),
        }));
    }
    let could_be_confined = could_be_confined();
    let of_machine = images.inventory()?.root_ids;
    let mut cgroups = BTreeSet::new();
    let filters = images.seccomp()?.map(|all| all.filters).unwrap_or_default();
    for process in images.pstree()? {
        let of_first = thread_of(&images, process.pid)?;
        // CRIU writes a filter that all threads have down for the first one alone, and gives it to all again.
        let for_all = of_first.and_then(|first| filters.get(usize::try_from(first.seccomp_filter?).ok()?));
        let for_all = for_all.is_some_and(|filter| filter.flags.unwrap_or(0) & FOR_ALL_THREADS != 0);
        // CRIU gives a process the limits that its own image has, and those of a thread are its process's.
        let task = task_of(&images, process.pid)?;
        let limits = limits(task.as_ref());
        match ids_of(&images, process.pid)? {
            Some(own) => found.shared.extend(shared(&own, of_machine.as_ref())),
            // One without is where its parent is; the first one is where CRIU is.
            None if process.ppid == 0 => found.shared.extend(NAMESPACES.map(|(kind, _)| kind)),
            None => {}
        }
        for thread in process.threads {
            let Some(of_thread) = thread_of(&images, thread)? else { continue };
            cgroups.extend(of_thread.cgroup_set);
            let credentials = of_thread.credentials.unwrap_or_default();
            found.threads.push(ClaimedThread {
                who: format!("thread {thread} of process {}", process.pid),
                bounding: bits(&credentials.cap_bnd),
                has: has(&credentials),
                no_new_privileges: credentials.no_new_privs.unwrap_or(0) != 0,
                filtered: for_all || of_thread.seccomp_mode.unwrap_or(0) != 0,
                users: vec![credentials.uid, credentials.euid, credentials.suid, credentials.fsuid],
                groups: groups(&credentials),
                limits: limits.clone(),
                oom_score_adj: task.as_ref().and_then(|task| task.oom_score_adj).map(i64::from),
                profile: profile(&credentials),
                could_be_confined,
            });
        }
    }
    found.cgroups = cgroups.len();
    Ok(found)
}

/// What there is of a thread; `None` for one that is over.
fn thread_of(images: &Images, thread: u32) -> Result<Option<ThreadCore>> {
    // A zombie has no such image; what else is missing is CRIU's to complain about.
    if !images.dir().join(format!("core-{thread}.img")).exists() {
        return Ok(None);
    }
    Ok(images.core(thread)?.thread)
}

/// What belongs to a process; `None` if it is over.
fn task_of(images: &Images, process: u32) -> Result<Option<TaskCore>> {
    if !images.dir().join(format!("core-{process}.img")).exists() {
        return Ok(None);
    }
    Ok(images.core(process)?.task)
}

/// How far a process may raise its limits; of one that is over there is nothing to say.
fn limits(task: Option<&TaskCore>) -> Vec<u64> {
    let limits = task.and_then(|task| task.rlimits.as_ref());
    limits.map(|all| all.limits.iter().map(|limit| limit.max).collect()).unwrap_or_default()
}

/// The numbers of a process's namespaces, if it has images of its own for them.
fn ids_of(images: &Images, process: u32) -> Result<Option<Ids>> {
    if !images.dir().join(format!("ids-{process}.img")).exists() {
        return Ok(None);
    }
    Ok(Some(images.ids(process)?))
}

/// The number of one of a process's namespaces.
type Number = fn(&Ids) -> Option<u32>;

/// The kinds of namespaces, as a specification calls them, and their numbers.
const NAMESPACES: [(&str, Number); 8] = [
    ("pid", |ids| ids.pid_ns),
    ("network", |ids| ids.net_ns),
    ("ipc", |ids| ids.ipc_ns),
    ("uts", |ids| ids.uts_ns),
    ("mount", |ids| ids.mnt_ns),
    ("user", |ids| ids.user_ns),
    ("cgroup", |ids| ids.cgroup_ns),
    ("time", |ids| ids.time_ns),
];

/// The namespaces of the machine in which a process is: those with the numbers that CRIU's own had at the dump. Without a number, or without anything
/// to compare it with, it is taken for one.
fn shared(own: &Ids, of_machine: Option<&Ids>) -> Vec<&'static str> {
    let number = |ids: Option<&Ids>, of: Number| ids.and_then(of).filter(|id| *id != 0);
    let is_shared = |of| match (number(Some(own), of), number(of_machine, of)) {
        (Some(own), Some(machines)) => own == machines,
        _ => true,
    };
    NAMESPACES.into_iter().filter(|(_, of)| is_shared(*of)).map(|(kind, _)| kind).collect()
}

fn groups(credentials: &Credentials) -> Vec<u32> {
    let Credentials { gid, egid, sgid, fsgid, groups, .. } = credentials;
    [*gid, *egid, *sgid, *fsgid].into_iter().chain(groups.iter().copied()).collect()
}

/// AppArmor's is followed by how strictly it is meant, in brackets.
fn profile(credentials: &Credentials) -> Option<String> {
    let text = String::from_utf8_lossy(credentials.lsm_profile.as_deref()?).into_owned();
    let name = text.trim_end_matches(['\0', '\n']);
    let name = name.rsplit_once(" (").map_or(name, |(name, _)| name);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Whether AppArmor or SELinux is at work here.
fn could_be_confined() -> bool {
    let says =
        |path: &str, word: char| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with(word));
    says("/sys/module/apparmor/parameters/enabled", 'Y') || Path::new("/sys/fs/selinux/enforce").exists()
}

/// CRIU writes `./data` for `/data`.
fn absolute(path: &Path) -> PathBuf {
    let below = path.strip_prefix(".").or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    Path::new("/").join(below)
}

/// What a thread has in any set but the bounding one.
fn has(credentials: &Credentials) -> u64 {
    let Credentials { cap_inh, cap_prm, cap_eff, cap_amb, .. } = credentials;
    [cap_inh, cap_prm, cap_eff, cap_amb].into_iter().fold(0, |all, set| all | bits(set))
}

/// Words of 32 bits, the low one first.
fn bits(words: &[u32]) -> u64 {
    let low = words.first().copied().map_or(0, u64::from);
    words.get(1).copied().map_or(low, |high| (u64::from(high) << 32) | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_the_container_sees_them() {
        assert_eq!(absolute(Path::new("./")), Path::new("/"));
        assert_eq!(absolute(Path::new("./data")), Path::new("/data"));
        assert_eq!(absolute(Path::new("/data")), Path::new("/data"));
    }

    #[test]
    fn capabilities_are_read_from_both_words() {
        assert_eq!(bits(&[1, 1]), (1 << 32) | 1);
        let credentials = Credentials { cap_amb: vec![2], cap_eff: vec![0, 4], ..Credentials::default() };
        assert_eq!(has(&credentials), (4 << 32) | 2);
    }

    #[test]
    fn namespaces_with_the_numbers_of_crius_own_are_the_machines() {
        let all = |number| Ids {
            pid_ns: Some(number),
            net_ns: Some(number),
            ipc_ns: Some(number),
            uts_ns: Some(number),
            mnt_ns: Some(number),
            user_ns: Some(number),
            cgroup_ns: Some(number),
            time_ns: Some(number),
            ..Ids::default()
        };
        let machine = all(1);
        assert_eq!(shared(&all(2), Some(&machine)), Vec::<&str>::new());
        assert_eq!(shared(&machine, Some(&machine)), NAMESPACES.map(|(kind, _)| kind));
        for (forged, kind) in [
            (Ids { pid_ns: Some(1), ..all(2) }, "pid"),
            (Ids { net_ns: Some(1), ..all(2) }, "network"),
            (Ids { ipc_ns: Some(1), ..all(2) }, "ipc"),
            (Ids { uts_ns: Some(1), ..all(2) }, "uts"),
            (Ids { mnt_ns: Some(1), ..all(2) }, "mount"),
            (Ids { user_ns: Some(1), ..all(2) }, "user"),
            (Ids { cgroup_ns: Some(1), ..all(2) }, "cgroup"),
            (Ids { time_ns: Some(1), ..all(2) }, "time"),
            (Ids { net_ns: None, ..all(2) }, "network"),
            (Ids { net_ns: Some(0), ..all(2) }, "network"),
        ] {
            assert_eq!(shared(&forged, Some(&machine)), [kind]);
        }
        // Images that do not say what the machine's were.
        assert_eq!(shared(&all(2), None), NAMESPACES.map(|(kind, _)| kind));
    }

    #[test]
    fn everybody_that_a_thread_is_counts() {
        let credentials =
            Credentials { gid: 1, egid: 2, sgid: 3, fsgid: 4, groups: vec![5], ..Credentials::default() };
        assert_eq!(groups(&credentials), [1, 2, 3, 4, 5]);
        let confined =
            |text: &str| profile(&Credentials { lsm_profile: Some(text.into()), ..Credentials::default() });
        assert_eq!(confined("containers-default (enforce)").as_deref(), Some("containers-default"));
        assert_eq!(
            confined("system_u:system_r:container_t:s0\0").as_deref(),
            Some("system_u:system_r:container_t:s0")
        );
        assert_eq!(confined(""), None);
    }
}
