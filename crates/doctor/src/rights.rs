//! Who we are and what the kernel lets us do. Nothing here needs a privilege; a machine can still forbid what any user may do
//! elsewhere.

use std::fs;
use std::path::Path;

use base::proc;

use crate::{Finding, Machine};

/// What Ubuntu's restriction of user namespaces wants to be told. Boxes are made by the copy of `infinijup-box` in the state directory.
fn apparmor_fix(state_dir: &Path) -> String {
    format!(
        "as root, write these three lines to /etc/apparmor.d/infinijup and run `apparmor_parser -r /etc/apparmor.d/infinijup`:\n\
         abi <abi/4.0>,\n\
         include <tunables/global>\n\
         profile infinijup \"{}/programs/*/infinijup-box\" flags=(unconfined) {{ userns, }}",
        state_dir.display()
    )
}

pub(crate) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let setting = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let namespaces = Namespaces {
        most: setting("user/max_user_namespaces"),
        debian: setting("kernel/unprivileged_userns_clone"),
        apparmor: setting("kernel/apparmor_restrict_unprivileged_userns"),
    };
    vec![
        user(),
        filter(&status),
        user_namespaces(&namespaces, machine.state_dir),
        ptrace(),
        security_modules(),
        subreaper(),
    ]
}

fn user() -> Finding {
    let uid = rustix::process::geteuid().as_raw();
    Finding::ok("user", format!("the daemon runs as user {uid} and serves that user"))
}

/// A system call filter can neither be lifted by CRIU nor tell what it forbids.
fn filter(status: &str) -> Finding {
    let mode = proc::field(status, "Seccomp").unwrap_or_default();
    if matches!(mode, "" | "0") {
        return Finding::ok("system call filter", "none");
    }
    Finding::fail(
        "system call filter",
        format!("the daemon, and with it every session, has a seccomp filter (mode {mode})"),
        "run it without one: in Docker and Podman `--security-opt seccomp=unconfined`, in Kubernetes `seccompProfile: Unconfined`, in a \
         systemd unit no SystemCallFilter= and nothing that implies it",
    )
}

/// What decides whether a user may make a user namespace; `None` where the kernel has no such setting.
struct Namespaces {
    most: Option<u64>,
    debian: Option<u64>,
    apparmor: Option<u64>,
}

fn user_namespaces(settings: &Namespaces, state_dir: &Path) -> Finding {
    let item = "user namespaces";
    let (evidence, fix) = match settings {
        Namespaces { most: Some(0), .. } => {
            ("user.max_user_namespaces is 0", "as root, sysctl user.max_user_namespaces=10000".to_owned())
        }
        Namespaces { debian: Some(0), .. } => (
            "kernel.unprivileged_userns_clone is 0",
            "as root, sysctl kernel.unprivileged_userns_clone=1".to_owned(),
        ),
        Namespaces { apparmor: Some(1..), .. } => (
            "AppArmor gives a user namespace no rights here (kernel.apparmor_restrict_unprivileged_userns) unless a profile says so",
            apparmor_fix(state_dir),
        ),
        Namespaces { most, .. } => {
            let most = most.map_or_else(|| "any number".to_owned(), |most| most.to_string());
            return Finding::ok(item, format!("allowed ({most})"));
        }
    };
    // With a profile the last one is no obstacle: the trial decides.
    match settings.apparmor {
        Some(1..) if settings.most != Some(0) && settings.debian != Some(0) => {
            Finding::warn(item, evidence, fix)
        }
        _ => Finding::fail(item, evidence, fix),
    }
}

fn ptrace() -> Finding {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match scope.trim() {
        "" => Finding::ok("ptrace", "not restricted (no Yama)"),
        "3" => Finding::fail(
            "ptrace",
            "kernel.yama.ptrace_scope is 3: nobody may trace, not even root",
            "as root, set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot",
        ),
        scope => Finding::ok(
            "ptrace",
            format!("kernel.yama.ptrace_scope is {scope}, which the owner of a namespace may pass"),
        ),
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
    use super::*;
    use crate::FindingState;

    #[test]
    fn each_way_to_forbid_namespaces_has_its_own_way_out() {
        let of = |most, debian, apparmor| {
            user_namespaces(
                &Namespaces { most, debian, apparmor },
                Path::new("/home/ada/.local/share/infinijup"),
            )
        };
        assert_eq!(of(Some(1000), None, None).state, FindingState::Ok);
        assert_eq!(of(None, Some(1), Some(0)).state, FindingState::Ok);
        let none = of(Some(0), None, None);
        assert_eq!(none.state, FindingState::Fail);
        assert!(none.fix.unwrap().contains("max_user_namespaces"));
        assert!(of(Some(5), Some(0), None).fix.unwrap().contains("unprivileged_userns_clone"));
        let ubuntu = of(Some(5), None, Some(1));
        assert_eq!(ubuntu.state, FindingState::Warn, "a profile may allow it: the trial decides");
        let fix = ubuntu.fix.unwrap();
        assert!(
            fix.contains(
                "\"/home/ada/.local/share/infinijup/programs/*/infinijup-box\" flags=(unconfined) { userns, }"
            ),
            "{fix}"
        );
    }

    #[test]
    fn a_filter_stops_everything() {
        assert_eq!(filter("Name:\tx\nSeccomp:\t0\n").state, FindingState::Ok);
        assert_eq!(filter("Seccomp:\t2\n").state, FindingState::Fail);
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
