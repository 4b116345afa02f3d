//! What the kernel has.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sandbox::Layout;

use crate::Finding;

/// Bit of an entry of `pagemap`: the page was written to since the marks were last cleared.
const SOFT_DIRTY: u64 = 1 << 55;

pub(crate) fn look() -> Vec<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    vec![
        version(release),
        namespaces(),
        time_namespaces(),
        pidfd(),
        pagemap_scan(release),
        userfaultfd(),
        soft_dirty(),
        cgroups(),
        clock(),
    ]
}

fn numbers(release: &str) -> (u32, u32) {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn version(release: &str) -> Finding {
    match numbers(release) {
        (0, _) => Finding::warn("kernel", "its version cannot be read", "mount /proc"),
        // clone3 with chosen pids, time namespaces and openat2 are in 5.6; CRIU 4 is tested on 5.10 and later
        version if version < (5, 10) => {
            Finding::fail("kernel", format!("Linux {release} is too old"), "use Linux 5.10 or newer")
        }
        _ => Finding::ok("kernel", format!("Linux {release}")),
    }
}

fn namespaces() -> Finding {
    let missing: Vec<&str> = ["pid", "mnt", "net", "ipc"]
        .into_iter()
        .filter(|name| {
            let bound =
                fs::read_to_string(format!("/proc/sys/user/max_{name}_namespaces")).unwrap_or_default();
            !Path::new("/proc/self/ns").join(name).exists() || bound.trim() == "0"
        })
        .collect();
    if missing.is_empty() {
        return Finding::ok("namespaces", "pid, mnt, net and ipc can be made");
    }
    Finding::fail(
        "namespaces",
        format!("cannot be made: {}", missing.join(", ")),
        "raise user.max_*_namespaces with sysctl, or use a kernel with CONFIG_NAMESPACES",
    )
}

fn time_namespaces() -> Finding {
    if Path::new("/proc/self/ns/time").exists() {
        return Finding::ok(
            "time namespaces",
            "there: a restored session's monotonic clock goes on where it stopped",
        );
    }
    Finding::warn(
        "time namespaces",
        "not there: monotonic clocks jump at a restore",
        "use a kernel with CONFIG_TIME_NS (Linux 5.6 or newer)",
    )
}

fn pidfd() -> Finding {
    match rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()) {
        Ok(_) => Finding::ok("pidfd", "there: processes are told apart although numbers are used again"),
        Err(error) => Finding::fail("pidfd", format!("cannot be opened: {error}"), "use Linux 5.3 or newer"),
    }
}

fn pagemap_scan(release: &str) -> Finding {
    if numbers(release) >= (6, 7) {
        return Finding::ok("PAGEMAP_SCAN", format!("in this kernel ({release}; since 6.7)"));
    }
    Finding::warn(
        "PAGEMAP_SCAN",
        format!("not in {release}: CRIU finds the pages of large processes more slowly"),
        "use Linux 6.7 or newer",
    )
}

fn userfaultfd() -> Finding {
    if Path::new("/proc/sys/vm/unprivileged_userfaultfd").exists() {
        return Finding::ok("userfaultfd", "there");
    }
    Finding::warn("userfaultfd", "not there: no lazy restore", "use a kernel with CONFIG_USERFAULTFD")
}

/// A page that was just written to must carry the mark, if the kernel keeps any.
fn soft_dirty() -> Finding {
    let mut page = vec![0_u8; 4096];
    page.fill(1);
    let address = std::hint::black_box(&page).as_ptr().addr() as u64;
    let mut entry = [0; 8];
    let read =
        File::open("/proc/self/pagemap").and_then(|map| map.read_exact_at(&mut entry, address / 4096 * 8));
    match read {
        Ok(()) if u64::from_le_bytes(entry) & SOFT_DIRTY != 0 => {
            Finding::ok("soft-dirty", "the kernel marks pages that were written to")
        }
        Ok(()) => Finding::warn(
            "soft-dirty",
            "the kernel does not mark pages: CRIU itself has no incremental dumps here; infinijup stores only what changed all \
             the same",
            "nothing needs to be done; CONFIG_MEM_SOFT_DIRTY would add it",
        ),
        Err(error) => Finding::warn("soft-dirty", format!("cannot be seen: {error}"), "mount /proc"),
    }
}

fn cgroups() -> Finding {
    let layout = match Layout::of_this_machine() {
        Ok(layout) => layout,
        Err(error) => return Finding::warn("cgroups", error.to_string(), "mount /proc"),
    };
    let in_v2 = layout
        .v2
        .as_ref()
        .map(|root| fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default());
    let old: Vec<&str> = layout.v1.keys().map(String::as_str).collect();
    judge_cgroups(in_v2.as_deref(), &old)
}

fn judge_cgroups(in_v2: Option<&str>, in_v1: &[&str]) -> Finding {
    let mode = match (in_v2, in_v1.is_empty()) {
        (Some(_), true) => "v2",
        (Some(_), false) => "hybrid",
        (None, false) => "v1",
        (None, true) => {
            return Finding::warn(
                "cgroups",
                "none are mounted: sessions have no limits of memory and processes",
                "mount cgroup2 at /sys/fs/cgroup",
            );
        }
    };
    let has = |name: &str| {
        in_v2.is_some_and(|list| list.split_whitespace().any(|own| own == name)) || in_v1.contains(&name)
    };
    let missing: Vec<&str> = ["memory", "pids"].into_iter().filter(|name| !has(name)).collect();
    if missing.is_empty() {
        return Finding::ok("cgroups", format!("{mode}, with memory and pids"));
    }
    Finding::warn(
        "cgroups",
        format!("{mode}, without {}: such limits are not held", missing.join(" and ")),
        "enable the controllers (cgroup_enable=memory on the kernel's command line)",
    )
}

fn clock() -> Finding {
    // this program did not exist before 2025
    const EARLIEST: Duration = Duration::from_secs(1_735_689_600);
    match SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) {
        Ok(now) if now > EARLIEST => Finding::ok("clock", "set"),
        _ => Finding::warn(
            "clock",
            "it is set to a time long past: snapshots will be dated wrongly",
            "set the clock (timedatectl)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FindingState;

    #[test]
    fn versions() {
        assert_eq!(numbers("6.18.44-cloud"), (6, 18));
        assert_eq!(version("5.4.0-42-generic").state, FindingState::Fail);
        assert_eq!(version("5.10.0").state, FindingState::Ok);
        assert_eq!(pagemap_scan("6.1.0-28-amd64").state, FindingState::Warn);
        assert_eq!(pagemap_scan("6.7").state, FindingState::Ok);
    }

    #[test]
    fn control_groups() {
        assert!(judge_cgroups(Some("cpu memory pids"), &[]).evidence.starts_with("v2"));
        assert!(judge_cgroups(Some(""), &["memory", "pids"]).evidence.starts_with("hybrid, with"));
        let poor = judge_cgroups(Some("pids"), &[]);
        assert_eq!(poor.state, FindingState::Warn);
        assert!(poor.evidence.contains("memory"));
        assert_eq!(judge_cgroups(None, &[]).state, FindingState::Warn);
    }
}
