//! Exit codes. The table in `docs/scripting.md` is the contract; a code is never given a second meaning.

use std::io;
use std::process::ExitCode;

use cas_core::{Class, StoreError};
use manifest::ManifestError;

use crate::error::CliError;

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    ProblemsFound = 3,
    NoStore = 10,
    Busy = 11,
    Key = 12,
    Corruption = 13,
    Conflict = 14,
    NotFound = 15,
    Interrupted = 130,
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code as u8)
    }
}

/// What the edge tells about an error besides its text.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) exit: Code,
    pub(crate) code: Option<&'static str>,
    pub(crate) hint: Option<&'static str>,
}

impl Facts {
    /// Looks through the chain for the outermost error that has a code.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(cause) = cause.downcast_ref::<CliError>() {
                return Self { exit: of_cli(cause), code: Some(cause.code()), hint: cause.hint() };
            }
            if let Some(cause) = cause.downcast_ref::<StoreError>() {
                return Self { exit: of_store(cause), code: Some(cause.code()), hint: cause.hint() };
            }
            if let Some(cause) = cause.downcast_ref::<ManifestError>() {
                let exit = of_class(cause.class());
                return Self { exit, code: Some(cause.code()), hint: cause.hint() };
            }
        }
        Self { exit: Code::Failed, code: None, hint: None }
    }
}

/// Whether whoever read our output has gone away, which is their right: `infinijup log | head -1`.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

const fn of_cli(error: &CliError) -> Code {
    match error {
        CliError::Usage { .. } => Code::Usage,
        CliError::RevisionNotFound { .. }
        | CliError::RevisionAmbiguous { .. }
        | CliError::HistoryEnds { .. }
        | CliError::NotInSnapshot { .. }
        | CliError::ObjectNotFound { .. } => Code::NotFound,
        CliError::ProblemsFound { .. }
        | CliError::GcIncomplete { .. }
        | CliError::RebuildIncomplete { .. } => Code::ProblemsFound,
        CliError::WritersBusy { .. } => Code::Busy,
        CliError::Interrupted => Code::Interrupted,
        CliError::Output(_) => Code::Failed,
    }
}

fn of_store(error: &StoreError) -> Code {
    match error {
        StoreError::NotAStore { .. } => Code::NoStore,
        StoreError::RefMissing { .. } => Code::NotFound,
        busy if busy.is_busy() => Code::Busy,
        other => of_class(other.class()),
    }
}

const fn of_class(class: Class) -> Code {
    match class {
        Class::Corruption => Code::Corruption,
        Class::Key => Code::Key,
        Class::Conflict => Code::Conflict,
        Class::Usage | Class::Environment | Class::Bug => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cas_core::ObjectId;
    use manifest::ReadError;
    use std::path::PathBuf;

    fn exit(error: impl Into<anyhow::Error>) -> Code {
        Facts::of(&error.into()).exit
    }

    #[test]
    fn each_class_has_its_code_however_deep_it_is() {
        let path = PathBuf::from("x");
        let id = ObjectId::from_bytes([1; 32]);
        assert_eq!(exit(StoreError::NotAStore { path: path.clone() }), Code::NoStore);
        assert_eq!(exit(StoreError::KeyNeeded { path: path.clone() }), Code::Key);
        assert_eq!(exit(StoreError::WrongKey { path: path.clone() }), Code::Key);
        assert_eq!(exit(StoreError::Locked { path, holder: "gc".into() }), Code::Busy);
        assert_eq!(exit(StoreError::damaged("pack", "p", "x")), Code::Corruption);
        assert_eq!(exit(StoreError::RefMissing { name: "tags/x".into() }), Code::NotFound);
        let conflict = StoreError::RefConflict { name: "tags/x".into(), expected: None, found: Some(id) };
        assert_eq!(exit(anyhow::Error::from(conflict).context("while tagging")), Code::Conflict);
        let deep = ReadError::Source { what: "commit", id, source: StoreError::MissingObject { id } };
        assert_eq!(exit(deep), Code::Corruption);
        assert_eq!(exit(anyhow::anyhow!("whatever")), Code::Failed);
    }

    #[test]
    fn a_broken_pipe_is_found_behind_both_doors() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&CliError::Output(pipe()).into()));
        assert!(is_broken_pipe(&StoreError::io("write", "the export file")(pipe()).into()));
        assert!(!is_broken_pipe(&CliError::Output(io::ErrorKind::StorageFull.into()).into()));
    }
}
