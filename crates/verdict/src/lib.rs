//! Whether a snapshot would come up on this machine, found before anything is stopped or made.
//!
//! One list of findings, for `infinijup check` and for whoever restores: each says what is missing and what to do about it. A finding that
//! *fails* stands in the way of a restore; one that *warns* is something that a restore gets by with.
//!
//! Nothing is written down for this when a snapshot is taken: all that is needed is in it. The section `host` has the machine (`machine`), and CRIU
//! notes of every file that it will open again its path, its kind and, of programs and libraries, size and build id (`files`), and of every thread
//! whose it is (`people`). So a verdict costs no time while a session stands still.

#![forbid(unsafe_code)]

mod files;
mod machine;
mod people;
mod room;

use cas_core::Store;
use doctor::{Finding, FindingState};
use image_store::Result;
use manifest::Snapshot;
use manifest::host::HostFingerprint;
use session_record::Record;
use workspace::Listing;

pub use machine::machine;
pub use people::fault;
pub use room::memory;

/// A snapshot, and the session that it would become.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Where it is.
    pub store: &'a Store,
    /// Its name, for errors.
    pub commit: &'a str,
    /// What it has.
    pub snapshot: &'a Snapshot,
    /// The files that it brings.
    pub files: &'a Listing,
    /// The session: where its files are, and which of them it has copies of.
    pub record: &'a Record,
}

impl Asked<'_> {
    /// What a restore looks at before anything is stopped: the machine, and the files that CRIU will open again. Trees outside of a box are
    /// not looked at file by file: they may see other files than we do.
    pub fn before_a_restore(&self, taken: &HostFingerprint, here: &HostFingerprint) -> Result<Vec<Finding>> {
        let mut found = machine(taken, here);
        if !self.record.habitat.is_adopted() {
            found.extend(files::look(self)?);
        }
        Ok(found)
    }

    /// What a restore finds out by itself later: whose the processes are, and whether there is memory for them.
    pub fn beyond(&self) -> Result<Vec<Finding>> {
        let people = people::look(self)?;
        Ok(people.into_iter().chain(memory(self.snapshot.bytes())).collect())
    }
}

/// What stands in the way of a restore, a sentence each. By force, what is said against the GPUs does not: the driver has the last word on them.
pub fn stand_in_the_way(found: &[Finding], force: bool) -> Vec<String> {
    let of_gpus = |item: &str| item.starts_with("gpu-") || item.starts_with("driver-");
    let blocking = found.iter().filter(|one| one.state == FindingState::Fail);
    let sentence = |one: &Finding| match &one.fix {
        Some(fix) => format!("{} ({fix})", one.evidence),
        None => one.evidence.clone(),
    };
    blocking.filter(|one| !(force && of_gpus(one.item))).map(sentence).collect()
}

/// Nothing can be restored here at all.
pub fn unable(why: &str, fix: Option<String>) -> Finding {
    let fix = fix.or_else(|| Some("`infinijup doctor` says what to do".to_owned()));
    Finding { item: "criu", state: FindingState::Fail, evidence: why.to_owned(), fix }
}

/// It was made elsewhere.
pub fn foreign() -> Finding {
    let evidence =
        "it was made elsewhere: a foreign program, which would run with all your rights".to_owned();
    let fix = Some("if you trust who made it, restore it with --force".to_owned());
    Finding { item: "origin", state: FindingState::Warn, evidence, fix }
}

fn fail(item: &'static str, evidence: String, fix: &str) -> Finding {
    Finding { item, state: FindingState::Fail, evidence, fix: Some(fix.to_owned()) }
}
