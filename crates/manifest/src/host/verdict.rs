//! The answer to "can this run here?".

use serde::Serialize;

/// Whether a snapshot can be restored on a machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "verdict", content = "reasons", rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing that is compared differs.
    Same,
    /// Something differs that a restore gets by with.
    Compatible(Vec<Reason>),
    /// A restore would fail, or worse, seem to succeed. Only the reasons that stand in the way are listed.
    Incompatible(Vec<Reason>),
}

impl Verdict {
    /// Whether nothing stands in the way.
    pub const fn allows_restore(&self) -> bool {
        !matches!(self, Self::Incompatible(_))
    }

    /// What differs.
    pub fn reasons(&self) -> &[Reason] {
        match self {
            Self::Same => &[],
            Self::Compatible(reasons) | Self::Incompatible(reasons) => reasons,
        }
    }
}

/// One thing that differs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// For programs; stays the same from release to release.
    pub code: &'static str,
    /// For people.
    pub sentence: String,
    /// What it was when the snapshot was taken.
    pub taken: String,
    /// What it is here.
    pub here: String,
    /// What can be done about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<&'static str>,
}

/// Reasons as they are found.
#[derive(Default)]
pub(super) struct Findings {
    blocking: Vec<Reason>,
    notes: Vec<Reason>,
}

impl Findings {
    /// A restore gets by with this.
    pub(super) fn note(&mut self, reason: Reason) {
        self.notes.push(reason);
    }

    /// A restore would fail.
    pub(super) fn block(&mut self, reason: Reason) {
        self.blocking.push(reason);
    }

    pub(super) fn verdict(self) -> Verdict {
        if !self.blocking.is_empty() {
            Verdict::Incompatible(self.blocking)
        } else if !self.notes.is_empty() {
            Verdict::Compatible(self.notes)
        } else {
            Verdict::Same
        }
    }
}

/// A reason without a way out; `way_out` adds one.
pub(super) fn reason(
    code: &'static str,
    sentence: impl Into<String>,
    taken: impl ToString,
    here: impl ToString,
) -> Reason {
    Reason {
        code,
        sentence: sentence.into(),
        taken: taken.to_string(),
        here: here.to_string(),
        way_out: None,
    }
}

impl Reason {
    pub(super) const fn way_out(mut self, text: &'static str) -> Self {
        self.way_out = Some(text);
        self
    }
}
