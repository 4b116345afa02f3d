//! Who we are and what the kernel lets us do.

use std::fs;

use super::Finding;

/// Capabilities that a session cannot be made, dumped or restored without, with their bits.
const NEEDED: [(u32, &str); 9] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (5, "CAP_KILL"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
    (12, "CAP_NET_ADMIN"),
    (19, "CAP_SYS_PTRACE"),
    (21, "CAP_SYS_ADMIN"),
    (27, "CAP_MKNOD"),
];
const SYS_RESOURCE: u32 = 24;

pub(super) fn look() -> Vec<Finding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    vec![user(), capabilities(&status), resource(&status), ptrace(), security_modules(), subreaper()]
}

fn user() -> Finding {
    let uid = rustix::process::geteuid();
    if uid.is_root() {
        return Finding::ok("root", "the daemon runs as root");
    }
    Finding::fail(
        "root",
        format!("the daemon runs as user {}", uid.as_raw()),
        "start infinijupd as root: it needs namespaces, other users' processes and CRIU",
    )
}

fn effective(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap_or_default();
    u64::from_str_radix(line.trim(), 16).unwrap_or(0)
}

fn capabilities(status: &str) -> Finding {
    let own = effective(status);
    let missing: Vec<&str> =
        NEEDED.iter().filter(|(bit, _)| own & (1 << bit) == 0).map(|(_, name)| *name).collect();
    if missing.is_empty() {
        return Finding::ok(
            "capabilities",
            format!("all {} that are needed are there ({own:#x})", NEEDED.len()),
        );
    }
    Finding::fail(
        "capabilities",
        format!("missing: {}", missing.join(", ")),
        "give them to the daemon (CapabilityBoundingSet= in its unit, --cap-add for a container)",
    )
}

fn resource(status: &str) -> Finding {
    if effective(status) & (1 << SYS_RESOURCE) != 0 {
        return Finding::ok("CAP_SYS_RESOURCE", "there");
    }
    Finding::warn(
        "CAP_SYS_RESOURCE",
        "missing: CRIU is run with the session's user as its real user, and a limit above our own cannot be restored",
        "give CAP_SYS_RESOURCE to the daemon; sessions work without it",
    )
}

fn ptrace() -> Finding {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" => Finding::ok("ptrace", "not restricted (no Yama)"),
        "3" => Finding::fail(
            "ptrace",
            "kernel.yama.ptrace_scope is 3: nobody may trace, not even root",
            "sysctl kernel.yama.ptrace_scope=1 (needs a reboot once it is 3)",
        ),
        scope => Finding::ok("ptrace", format!("kernel.yama.ptrace_scope is {scope}, which root may pass")),
    }
}

fn security_modules() -> Finding {
    let modules = fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    let profile = fs::read_to_string("/proc/self/attr/current").unwrap_or_default();
    judge_modules(modules.trim(), profile.trim_end_matches(['\0', '\n']))
}

fn judge_modules(modules: &str, profile: &str) -> Finding {
    let has = |name: &str| modules.split(',').any(|module| module == name);
    let shown = if modules.is_empty() { "none visible" } else { modules };
    if has("selinux") {
        return Finding::warn(
            "security modules",
            format!("{shown}; SELinux labels of sessions are not restored for users ({profile})"),
            "run the daemon in an unconfined domain, or use AppArmor",
        );
    }
    if has("apparmor") && !matches!(profile, "" | "unconfined") {
        return Finding::warn(
            "security modules",
            format!("{shown}; the daemon is confined by the AppArmor profile {profile}"),
            "run the daemon unconfined: its sessions inherit the profile, and CRIU needs more than most allow",
        );
    }
    Finding::ok("security modules", shown)
}

fn subreaper() -> Finding {
    match rustix::process::child_subreaper() {
        Ok(Some(_)) => Finding::ok("subreaper", "sessions that lose their parent fall to the daemon"),
        Ok(None) => Finding::warn(
            "subreaper",
            "this process is not a subreaper: ended sessions are seen later",
            "ask a running daemon (`infinijup doctor`), which is one",
        ),
        Err(error) => {
            Finding::warn("subreaper", format!("cannot be asked for: {error}"), "use a newer kernel")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FindingState;
    use super::*;

    #[test]
    fn missing_capabilities_are_named_and_the_one_that_can_be_missed_only_warns() {
        assert_eq!(capabilities("CapEff:\t000001ffffffffff\n").state, FindingState::Ok);
        let none = capabilities("CapEff:\t0000000000000000\n");
        assert_eq!(none.state, FindingState::Fail);
        assert!(none.evidence.contains("CAP_SYS_ADMIN"), "{none:?}");
        let without = "CapEff:\t000001fffeffffff\n";
        assert_eq!(capabilities(without).state, FindingState::Ok);
        let resource = resource(without);
        assert_eq!(resource.state, FindingState::Warn);
        assert!(resource.evidence.contains("real user"), "{resource:?}");
    }

    #[test]
    fn security_modules_that_get_in_the_way_are_told() {
        assert_eq!(judge_modules("lockdown,capability,yama", "").state, FindingState::Ok);
        assert_eq!(judge_modules("capability,apparmor", "unconfined").state, FindingState::Ok);
        assert_eq!(
            judge_modules("capability,apparmor", "docker-default (enforce)").state,
            FindingState::Warn
        );
        assert_eq!(judge_modules("capability,selinux", "system_u:system_r:x").state, FindingState::Warn);
    }
}
