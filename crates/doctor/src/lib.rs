//! What this machine can and cannot do, item by item, with the fix for each.
//!
//! Most items are read from the kernel's files or tried in a small way; the last is a real dump and restore of a small
//! session, through the same code as any other. Only an item that stops every snapshot *fails*. What costs speed or comfort is a
//! *warning*: the exit code of `infinijup doctor` answers one question, whether snapshots work here.

#![forbid(unsafe_code)]

pub mod gpu;
mod kernel;
mod places;
mod programs;
mod rights;

use std::collections::BTreeMap;
use std::path::Path;

use checkpoint_criu::Criu;
use sandbox::Program;
use serde::Serialize;

/// How good an item is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// As it should be.
    Ok,
    /// Something does not work, or not well, but snapshots do.
    Warn,
    /// Snapshots do not work because of this.
    Fail,
}

/// One item.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub item: &'static str,
    /// How good it is.
    pub state: FindingState,
    /// What was seen.
    pub evidence: String,
    /// What to do, where there is something to do.
    pub fix: Option<String>,
}

impl Finding {
    fn ok(item: &'static str, evidence: impl Into<String>) -> Self {
        Self { item, state: FindingState::Ok, evidence: evidence.into(), fix: None }
    }

    fn warn(item: &'static str, evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { item, state: FindingState::Warn, evidence: evidence.into(), fix: Some(fix.into()) }
    }

    fn fail(item: &'static str, evidence: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { item, state: FindingState::Fail, evidence: evidence.into(), fix: Some(fix.into()) }
    }
}

/// What is looked at.
pub struct Machine<'a> {
    /// Where stores and records are.
    pub state_dir: &'a Path,
    /// Where sockets and mounts are.
    pub run_dir: &'a Path,
    /// CRIU, if it was found.
    pub criu: Option<&'a Criu>,
    /// `infinijup-box`, if it was found.
    pub program: Option<&'a Program>,
    /// Whether memory is copied while a session runs; an error says why not.
    pub copies_ahead: Result<(), String>,
    /// Sessions that are not followed any more, because a write of theirs was not noticed once, and what was found then.
    pub not_followed: BTreeMap<String, String>,
    /// What was found of an NVIDIA driver, if it was looked for.
    pub gpu: Option<gpu::Seen>,
    /// Bytes that are free at a path, or at the nearest directory above it that is there.
    pub free_bytes: &'a dyn Fn(&Path) -> Result<u64, String>,
}

/// Looks at everything. `trial` dumps and restores a small session and says how it went.
pub fn doctor(machine: &Machine<'_>, trial: &mut dyn FnMut() -> Result<String, String>) -> Vec<Finding> {
    let mut findings = rights::look(machine);
    findings.extend(kernel::look());
    findings.extend(programs::look(machine));
    findings.push(copy_ahead(machine));
    findings.extend(places::look(machine));
    findings.extend(gpu::look(machine));
    findings.push(match trial() {
        Ok(evidence) => Finding::ok("trial", evidence),
        Err(error) => Finding::fail(
            "trial",
            format!("a small session could not be dumped and restored: {error}"),
            "see the items above; if they are all well, the page of the error's code says more",
        ),
    });
    findings
}

fn copy_ahead(machine: &Machine<'_>) -> Finding {
    const ITEM: &str = "copying memory ahead";
    match &machine.copies_ahead {
        Ok(()) if !machine.not_followed.is_empty() => {
            let found = machine.not_followed.iter().map(|(session, why)| format!("{session} ({why})"));
            Finding::warn(
                ITEM,
                format!(
                    "a write was not noticed, and the session stands still while all of its memory is copied: {}",
                    found.collect::<Vec<_>>().join(", ")
                ),
                "its snapshots are whole; please report it, with the kernel's version and what the program does",
            )
        }
        Ok(()) => Finding::ok(ITEM, "a session stands still only for memory that was just written"),
        Err(why) => Finding::warn(
            ITEM,
            format!("a session stands still while all of its memory is copied: {why}"),
            "Linux 6.7 or newer, CRIU 4.2.1 (`pip install \"infinijup[criu]\"` brings one along), and `copy_ahead` not switched off in the daemon's settings",
        ),
    }
}

/// Whether snapshots work here.
pub fn works(findings: &[Finding]) -> bool {
    !findings.is_empty() && findings.iter().all(|finding| finding.state != FindingState::Fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trial_decides_and_every_item_that_is_not_well_has_a_fix() {
        let dir = tempfile::tempdir().unwrap();
        let free_bytes = &|_: &Path| Ok(1 << 40);
        let machine = Machine {
            state_dir: dir.path(),
            run_dir: dir.path(),
            criu: None,
            program: None,
            copies_ahead: Err("it is switched off".to_owned()),
            not_followed: BTreeMap::new(),
            gpu: None,
            free_bytes,
        };
        let findings = doctor(&machine, &mut || Ok("it went".to_owned()));
        assert!(findings.len() >= 20, "{}", findings.len());
        for finding in &findings {
            assert!(!finding.evidence.is_empty(), "{finding:?}");
            assert_eq!(finding.fix.is_some(), finding.state != FindingState::Ok, "{finding:?}");
        }
        let names: std::collections::BTreeSet<_> = findings.iter().map(|finding| finding.item).collect();
        assert_eq!(names.len(), findings.len(), "each item once");
        let criu = findings.iter().find(|finding| finding.item == "criu").unwrap();
        assert_eq!(criu.state, FindingState::Fail, "there is none: {criu:?}");
        let ahead = findings.iter().find(|finding| finding.item == "copying memory ahead").unwrap();
        assert!(
            ahead.evidence.ends_with("it is switched off") && ahead.state == FindingState::Warn,
            "{ahead:?}"
        );
        assert!(!works(&findings));
        let odd = BTreeMap::from([("s1".to_owned(), "page 1000 of task 300".to_owned())]);
        let ahead = copy_ahead(&Machine { copies_ahead: Ok(()), not_followed: odd, gpu: None, ..machine });
        assert!(ahead.evidence.ends_with("s1 (page 1000 of task 300)"), "{ahead:?}");
        assert_eq!(ahead.state, FindingState::Warn);

        let good = [Finding::ok("a", "b"), Finding::warn("c", "d", "e")];
        assert!(works(&good));
        let failed = doctor(&machine, &mut || Err("no".to_owned()));
        assert_eq!(failed.last().map(|finding| finding.state), Some(FindingState::Fail));
        assert!(!works(&[]));
    }
}
