//! The filter of a container's system calls.
//!
//! CRIU saves filters and puts them back. What it cannot put back is somebody outside who is asked about calls (`SCMP_ACT_NOTIFY`): the
//! descriptor that those questions come through is lost.

use base::proc;

use crate::container::Container;
use crate::finding::{Finding, Topic};

/// Looks at the specification, and at whether the processes are filtered at all.
pub(crate) fn look(container: &Container, pids: &[i32]) -> Vec<Finding> {
    let filtered: Vec<i32> = pids.iter().copied().filter(|pid| is_filtered(*pid)).collect();
    let evidence = vec![format!("{} of {} processes have a filter", filtered.len(), pids.len())];
    let filter = container.specification.at("/linux/seccomp").filter(|filter| !filter.is_null());
    let asks = filter.is_some_and(|filter| {
        filter.get("listenerPath").is_some_and(|path| path.as_str().is_some_and(|path| !path.is_empty()))
            || filter.to_string().contains("SCMP_ACT_NOTIFY")
    });
    if asks && !filtered.is_empty() {
        return vec![Finding::blocks(
            Topic::Seccomp,
            "somebody outside is asked about its system calls",
            vec!["its specification has a seccomp listener (SCMP_ACT_NOTIFY)".to_owned(), evidence.concat()],
            "run it with a profile that allows or refuses by itself",
        )];
    }
    if filtered.is_empty() {
        return Vec::new();
    }
    let whose = if filter.is_some() { "by its specification" } else { "by itself" };
    vec![Finding::note(Topic::Seccomp, format!("its system calls are filtered, {whose}"), evidence)]
}

/// Mode 2 is a filter.
fn is_filtered(pid: i32) -> bool {
    let status = proc::read_text(pid, "status").ok().flatten().unwrap_or_default();
    proc::number_of::<u32>(&status, "Seccomp") == Some(2)
}
