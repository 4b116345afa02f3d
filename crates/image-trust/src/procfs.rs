//! Which files of `/proc` a session may hold open, to be read.
//!
//! CRIU opens them again as root, in the session's own `/proc`. Below a process's number there are ways out of any box
//! (`root`, `cwd`, `fd`, `ns`, `map_files`), so only the names listed here pass; what is not about a process is the machine's,
//! and is tried as the user.

use std::path::{Component, Path};

/// What may be open of a process or thread. The directories may be listed, but nothing is opened through them.
const OF_A_PROCESS: [&str; 22] = [
    "cgroup",
    "cmdline",
    "comm",
    "environ",
    "fd",
    "fdinfo",
    "io",
    "limits",
    "loginuid",
    "maps",
    "mountinfo",
    "mounts",
    "net",
    "oom_score",
    "oom_score_adj",
    "sched",
    "schedstat",
    "smaps",
    "smaps_rollup",
    "stat",
    "statm",
    "status",
];

/// Whether a path below `/proc` is a way out through a process.
pub(crate) fn leads_out(below: &Path) -> bool {
    let parts: Vec<&str> = below
        .components()
        .map(|part| match part {
            Component::Normal(name) => name.to_str().unwrap_or("/"),
            _ => "/",
        })
        .collect();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match parts.as_slice() {
        ["self" | "thread-self", ..] => true,
        [pid, rest @ ..] if is_number(pid) => {
            let rest = match rest {
                ["task", thread, rest @ ..] if is_number(thread) => rest,
                rest => rest,
            };
            match rest {
                [] | ["task"] => false,
                ["net", name] => *name == "/",
                [name] => !OF_A_PROCESS.contains(name),
                _ => true,
            }
        }
        // What is not about a process.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_out_through_a_process_are_refused() {
        let out = |text: &str| leads_out(Path::new(text));
        for refused in [
            "1/root/etc/shadow",
            "1/cwd",
            "7/fd/3",
            "7/ns/mnt",
            "1/mem",
            "1/task/1/root",
            "self/maps",
            "1/map_files/a",
        ] {
            assert!(out(refused), "{refused}");
        }
        for own in ["", "1", "7/stat", "7/task", "7/task/8/stat", "7/fd", "7/net/tcp"] {
            assert!(!out(own), "{own}");
        }
        assert!(!out("meminfo"));
        assert!(!out("sys/kernel/core_pattern"));
    }
}
