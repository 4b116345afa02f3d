//! What a look at a container finds, with what was seen and the way out.

use serde::Serialize;

/// What a finding is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topic {
    /// It is held still.
    Held,
    /// GPUs.
    Gpu,
    /// The filter of its system calls.
    Seccomp,
    /// What is mounted in it.
    Mounts,
    /// Directories of this machine that it sees.
    Volumes,
    /// Where its own files lie.
    Layers,
    /// Its processes.
    Processes,
}

/// What a finding means for a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// Good to know.
    Note,
    /// It may go wrong, or be missed afterwards.
    Warning,
    /// It will go wrong.
    Blocks,
}

/// Something that was found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// About what.
    pub topic: Topic,
    /// What it means.
    pub weight: Weight,
    /// What it is.
    pub what: String,
    /// What was seen, a line each.
    pub evidence: Vec<String>,
    /// What can be done about it.
    pub way_out: Option<String>,
}

impl Finding {
    /// Good to know.
    pub(crate) fn note(topic: Topic, what: impl Into<String>, evidence: Vec<String>) -> Self {
        Self { topic, weight: Weight::Note, what: what.into(), evidence, way_out: None }
    }

    /// It may go wrong.
    pub(crate) fn warning(
        topic: Topic,
        what: impl Into<String>,
        evidence: Vec<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self { topic, weight: Weight::Warning, what: what.into(), evidence, way_out: Some(way_out.into()) }
    }

    /// It will go wrong.
    pub(crate) fn blocks(
        topic: Topic,
        what: impl Into<String>,
        evidence: Vec<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self { weight: Weight::Blocks, ..Self::warning(topic, what, evidence, way_out) }
    }
}
