//! Which container a process is in.
//!
//! Runtimes name a cgroup after each container, so the path of a process's cgroup says whom to ask for. It is no proof: whoever may make
//! cgroups below their own can call them what they like. What counts is that the process is below the container's first process, or in the same
//! cgroup as that or one below it.

use std::collections::BTreeSet;

use base::proc::{self, Stat};

/// How far up is looked: further than any sane machine has processes above each other.
const MOST_ANCESTORS: usize = 1_000;
/// So many parts of paths are asked for.
const MOST_NAMES: usize = 16;
/// What runtimes write before an id in the name of a cgroup that systemd makes for them.
const PREFIXES: [&str; 5] = ["cri-containerd-", "docker-", "libpod-", "crio-", "nerdctl-"];

/// A process that somebody asked for.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// It and its ancestors.
    line: BTreeSet<i32>,
    /// Its place in each hierarchy: the controllers with their path.
    cgroups: Vec<(String, String)>,
}

impl Member {
    /// Looks at a process; `None` if there is none.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Stat::of(pid).ok()??;
        let mut line = BTreeSet::new();
        let mut next = pid;
        while next > 1 && line.len() < MOST_ANCESTORS && line.insert(next) {
            next = Stat::of(next).ok().flatten().map_or(0, |stat| stat.parent);
        }
        Some(Self { line, cgroups: cgroups(pid) })
    }

    /// What a container may be called that it is in, the innermost first.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (_, path) in &self.cgroups {
            for part in path.split('/').rev().filter(|part| !part.is_empty()) {
                let part = part.strip_suffix(".scope").unwrap_or(part);
                let name = PREFIXES.iter().find_map(|prefix| part.strip_prefix(prefix)).unwrap_or(part);
                if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }

    /// Whether it is in the container with this first process.
    pub(crate) fn is_in(&self, init: i32) -> bool {
        init > 1 && (self.line.contains(&init) || cgroups(init).iter().any(|own| self.is_below(own)))
    }

    fn is_below(&self, (hierarchy, path): &(String, String)) -> bool {
        // A container that was given no cgroup of its own is in that of everybody.
        let below =
            |of: &str| of == path || of.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        path != "/" && self.cgroups.iter().any(|(known, of)| known == hierarchy && below(of))
    }
}

fn cgroups(pid: i32) -> Vec<(String, String)> {
    let text = proc::read_text(pid, "cgroup").ok().flatten().unwrap_or_default();
    proc::memberships(&text)
        .map(|place| (place.controllers().collect::<Vec<_>>().join(","), place.path.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(cgroups: &[(&str, &str)]) -> Member {
        let pair = |(one, other): &(&str, &str)| ((*one).to_owned(), (*other).to_owned());
        Member { line: BTreeSet::from([7, 42]), cgroups: cgroups.iter().map(pair).collect() }
    }

    #[test]
    fn ids_are_read_from_the_paths_of_all_runtimes() {
        for (path, name) in [
            ("/default/c1", "c1"),
            ("/docker/0123", "0123"),
            ("/kubepods.slice/kubepods-pod1.slice/cri-containerd-0123.scope", "0123"),
            ("/machine.slice/libpod-0123.scope", "0123"),
            ("/system.slice/docker-0123.scope", "0123"),
        ] {
            assert_eq!(member(&[("freezer", path)]).names()[0], name, "{path}");
        }
        assert_eq!(member(&[("freezer", "/a/x"), ("", "/a/x")]).names(), ["x", "a"]);
    }

    #[test]
    fn a_cgroup_named_after_somebody_elses_container_is_no_proof() {
        let evil = member(&[("freezer", "/default/evil/victim")]);
        assert_eq!(evil.names()[0], "victim");
        let own = |path: &str| ("freezer".to_owned(), path.to_owned());
        assert!(evil.is_below(&own("/default/evil")) && evil.is_below(&own("/default/evil/victim")));
        assert!(!evil.is_below(&own("/default/victim")) && !evil.is_below(&own("/")));
        assert!(!evil.is_below(&own("/default/ev")));
        assert!(!evil.is_below(&("memory".to_owned(), "/default/evil".to_owned())));
    }

    #[test]
    fn our_own_line_goes_up_to_the_first_process() {
        let own = i32::try_from(std::process::id()).unwrap();
        let member = Member::of(own).unwrap();
        assert!(member.is_in(own) && !member.is_in(1) && !member.is_in(0));
        assert!(Member::of(i32::MAX).is_none());
    }
}
