//! Who is in the cgroup that a container has by its specification.

use std::path::Path;

use base::proc::{self, Membership, memberships};

use crate::container::ContainerId;
use crate::specification::Specification;

/// The cgroup that a specification asks for.
#[derive(Debug)]
pub(super) struct OwnCgroup<'a> {
    /// A path, or systemd's `slice:prefix:name`; empty if nothing is said.
    name: &'a str,
    id: &'a str,
    /// Memberships of our own process: what is named without a `/` lies below its cgroup.
    ours: String,
}

impl<'a> OwnCgroup<'a> {
    pub(super) fn of(specification: &'a Specification, id: &'a ContainerId) -> Self {
        let us = rustix::process::getpid().as_raw_nonzero().get();
        let ours = proc::read_text(us, "cgroup").ok().flatten().unwrap_or_default();
        Self { name: specification.cgroups_path().unwrap_or_default(), id: id.as_str(), ours }
    }

    /// Whether our own process is in it.
    pub(super) fn is_ours(&self) -> bool {
        is_member(&self.ours, self.name, self.id, &self.ours)
    }

    /// Whether a process is in it, or in one below.
    pub(super) fn has(&self, pid: i32) -> bool {
        let text = proc::read_text(pid, "cgroup").ok().flatten();
        text.is_some_and(|text| is_member(&text, self.name, self.id, &self.ours))
    }
}

/// Whether these memberships are in the cgroup with this name in the specification; with none it is called after the container, below ours or in
/// systemd's slice for what the machine runs.
fn is_member(text: &str, name: &str, id: &str, ours: &str) -> bool {
    let mut parts = name.split(':');
    let of_systemd = match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(slice), Some(prefix), Some(last), None) => Some((slice, format!("{prefix}-{last}.scope"))),
        _ => None,
    };
    let is_at_or_below =
        |path: &str, group: &Path| group != Path::new("/") && Path::new(path).starts_with(group);
    let is_of_default_scope = |path: &str| {
        let scopes = ["runc", "crun"].map(|runtime| format!("/system.slice/{runtime}-{id}.scope"));
        scopes.iter().any(|scope| is_at_or_below(path, Path::new(scope)))
    };
    memberships(text).any(|one| match &of_systemd {
        Some((slice, scope)) => {
            let mut above = one.path.split('/');
            above.any(|part| part == *slice) && above.any(|part| part == scope)
        }
        None if name.starts_with('/') => is_at_or_below(one.path, Path::new(name)),
        None => {
            let below = Path::new(if name.is_empty() { id } else { name });
            let is_same = |own: &Membership<'_>| {
                own.is_unified == one.is_unified && own.controllers().eq(one.controllers())
            };
            let of_ours = memberships(ours).find(is_same).map_or("/", |own| own.path);
            let is_below =
                [of_ours, "/"].iter().any(|above| is_at_or_below(one.path, &Path::new(above).join(below)));
            is_below || (name.is_empty() && is_of_default_scope(one.path))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "4:memory:/init\n0::/init\n";

    #[test]
    fn a_cgroup_is_told_by_what_the_specification_calls_it() {
        let told = |text: &str, name: &str| is_member(text, name, "c1", OURS);
        assert!(told("4:memory:/pods/c1\n0::/\n", "/pods/c1"));
        assert!(told("4:memory:/\n0::/pods/c1/inner\n", "/pods/c1"));
        assert!(!told("4:memory:/pods/c10\n0::/\n", "/pods/c1"));
        assert!(!told("4:memory:/elsewhere/pods/c1\n0::/\n", "/pods/c1"));
        assert!(told("0::/machine.slice/libpod-c1.scope\n", "machine.slice:libpod:c1"));
        assert!(told("0::/machine.slice/libpod-c1.scope/container\n", "machine.slice:libpod:c1"));
        assert!(!told("0::/user.slice/libpod-c1.scope\n", "machine.slice:libpod:c1"));
        assert!(told("4:memory:/init/c1\n", "") && told("4:memory:/c1\n", ""));
        assert!(!told("4:memory:/user/c1\n", ""));
        assert!(
            told("0::/system.slice/crun-c1.scope\n", "") && told("0::/system.slice/runc-c1.scope/x\n", "")
        );
        // A user's own container may have the same id.
        assert!(!told("0::/user.slice/user-1000.slice/system.slice/crun-c1.scope\n", ""));
        // Never all of the machine.
        assert!(!told("4:memory:/\n0::/\n", "/"));
    }
}
