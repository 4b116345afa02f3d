//! Namespaces that a container has for itself by its specification, held against those that its images would have it live in.
//!
//! CRIU numbers namespaces, and notes the numbers of those that it was in itself. A process with such a number stays where the CRIU of the restore
//! is: in the machine's. The runtime does not look: it believes that CRIU has made what the specification asks for.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::specification::{Specification, SpecifiedNamespace};

/// The specification's word for each, and the kernel's.
const WORDS: [(&str, &str); 8] = [
    ("pid", "pid"),
    ("network", "net"),
    ("ipc", "ipc"),
    ("uts", "uts"),
    ("mount", "mnt"),
    ("user", "user"),
    ("cgroup", "cgroup"),
    ("time", "time"),
];

/// Those of the machine that the specification keeps it out of.
pub(super) fn wrong_namespaces(
    specification: &Specification,
    shared: &BTreeSet<&'static str>,
) -> impl Iterator<Item = String> {
    let kept_out = specification.namespaces().into_iter().filter(|asked| !is_the_machines(asked));
    let kinds: BTreeSet<String> = kept_out.map(|asked| asked.kind).collect();
    let wrong: Vec<&str> = shared.iter().copied().filter(|kind| kinds.contains(*kind)).collect();
    wrong.into_iter().map(|kind| {
        format!("it wants to live in the machine's {kind} namespace, and the specification has another one")
    })
}

/// Whether it is one to be joined that is the machine's, which is ours. A new one is not, and neither is one that cannot be looked at.
fn is_the_machines(asked: &SpecifiedNamespace) -> bool {
    let Some(path) = &asked.path else { return false };
    let Some((_, word)) = WORDS.iter().find(|(kind, _)| *kind == asked.kind) else { return false };
    let which = |path: &Path| fs::metadata(path).map(|there| (there.dev(), there.ino())).ok();
    which(path).is_some_and(|there| which(&Path::new("/proc/self/ns").join(word)) == Some(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(live: &str, shared: &[&'static str]) -> Vec<String> {
        let specification = Specification::parse(live.as_bytes()).unwrap();
        wrong_namespaces(&specification, &shared.iter().copied().collect()).collect()
    }

    #[test]
    fn a_namespace_of_the_machine_is_refused_where_it_is_to_have_one_of_its_own() {
        for (kind, _) in WORDS {
            let own = format!(r#"{{"linux": {{"namespaces": [{{"type": "{kind}"}}]}}}}"#);
            let findings = told(&own, &[kind]);
            assert!(findings.len() == 1 && findings[0].contains(kind), "{findings:?}");
            assert_eq!(told(&own, &[]), Vec::<String>::new());
            // One that the specification does not list is shared with the machine.
            assert_eq!(told("{}", &[kind]), Vec::<String>::new());
        }
    }

    #[test]
    fn one_that_is_joined_by_its_path_may_be_the_machines_own() {
        let at = |path: &str| {
            format!(r#"{{"linux": {{"namespaces": [{{"type": "network", "path": "{path}"}}]}}}}"#)
        };
        assert_eq!(told(&at("/proc/self/ns/net"), &["network"]), Vec::<String>::new());
        assert_eq!(told(&at("/run/netns/gone"), &["network"]).len(), 1);
        assert_eq!(told(&at("/proc/self/ns/ipc"), &["network"]).len(), 1);
    }
}
