//! Exit codes. The table in `docs/scripting.md` is the contract; a code is never given a second meaning.

use std::io;
use std::process::ExitCode;

use cas_core::{Class, StoreError};
use checkpoint_archive::ArchiveError;
use containers::ContainerError;
use gpu_detect::DetectError;
use jupyter_bridge::JupyterError;
use manifest::ManifestError;
use remote::RemoteError;

use crate::error::{CliError, DaemonError};

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
    NoDaemon = 16,
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
    pub(crate) exit: u8,
    pub(crate) code: Option<String>,
    pub(crate) hint: Option<String>,
    /// Causes that are not in the chain, because they came as text.
    pub(crate) more_causes: Vec<String>,
}

impl Facts {
    /// Looks through the chain for the outermost error that has a code.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        for cause in error.chain() {
            if let Some(cause) = cause.downcast_ref::<CliError>() {
                let more_causes = cause.evidence();
                return Self { more_causes, ..Self::new(of_cli(cause), cause.code(), cause.hint()) };
            }
            if let Some(DaemonError(body)) = cause.downcast_ref::<DaemonError>() {
                return Self::of_daemon(body);
            }
            if let Some(cause) = cause.downcast_ref::<RemoteError>() {
                return Self::new(of_remote(cause), cause.code(), cause.hint());
            }
            if let Some(cause) = cause.downcast_ref::<StoreError>() {
                return Self::new(of_store(cause), cause.code(), cause.hint());
            }
            if let Some(cause) = cause.downcast_ref::<ArchiveError>() {
                return Self::new(of_archive(cause), cause.code(), cause.hint());
            }
            if let Some(cause) = cause.downcast_ref::<ManifestError>() {
                return Self::new(of_class(cause.class()), cause.code(), cause.hint());
            }
            if let Some(cause) = cause.downcast_ref::<JupyterError>() {
                return Self::new(of_jupyter(cause), cause.code(), cause.hint().as_deref());
            }
            if let Some(cause) = cause.downcast_ref::<DetectError>() {
                return Self::new(of_detect(cause), cause.code(), cause.hint().as_deref());
            }
            if let Some(cause) = cause.downcast_ref::<ContainerError>() {
                return Self::new(of_container(cause), cause.code(), cause.hint().as_deref());
            }
        }
        Self { exit: Code::Failed as u8, code: None, hint: None, more_causes: Vec::new() }
    }

    fn new(exit: Code, code: &str, hint: Option<&str>) -> Self {
        let hint = hint.map(str::to_owned);
        Self { exit: exit as u8, code: Some(code.to_owned()), hint, more_causes: Vec::new() }
    }

    /// What the daemon says is passed on as it is; only a failure that calls itself a success is not believed.
    fn of_daemon(body: &api::ErrorBody) -> Self {
        let exit = if body.exit == Code::Ok as u8 { Code::Failed as u8 } else { body.exit };
        let (code, hint) = (Some(body.code.clone()), body.hint.clone());
        Self { exit, code, hint, more_causes: body.causes.clone() }
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
        | CliError::RevisionForgotten { .. }
        | CliError::RevisionAmbiguous { .. }
        | CliError::HistoryEnds { .. }
        | CliError::NotInSnapshot { .. }
        | CliError::ObjectNotFound { .. } => Code::NotFound,
        CliError::ProblemsFound { .. }
        | CliError::GcIncomplete { .. }
        | CliError::RebuildIncomplete { .. }
        | CliError::MachineUnfit { .. }
        | CliError::SnapshotUnfit { .. }
        | CliError::NoLab { .. }
        | CliError::SelftestFailed { .. } => Code::ProblemsFound,
        CliError::WritersBusy { .. } | CliError::StillStopping { .. } | CliError::StoreInUse { .. } => {
            Code::Busy
        }
        CliError::NothingYet { .. } => Code::NoStore,
        CliError::BadSnapshot(_) => Code::Corruption,
        CliError::KernelspecTaken { .. } => Code::Conflict,
        CliError::NoDaemon { .. }
        | CliError::NotStarted { .. }
        | CliError::NoDaemonProgram { .. }
        | CliError::DaemonLeft { .. }
        | CliError::JobLost { .. } => Code::NoDaemon,
        CliError::Interrupted | CliError::JobGoesOn { .. } => Code::Interrupted,
        CliError::Output(_)
        | CliError::Answer { .. }
        | CliError::NoServiceManager { .. }
        | CliError::LabFailed { .. }
        | CliError::Place(_)
        | CliError::Mount(_)
        | CliError::Settings(_) => Code::Failed,
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

fn of_remote(error: &RemoteError) -> Code {
    match error {
        RemoteError::Store(error) => of_store(error),
        other => match other.class() {
            Class::Usage => Code::Usage,
            Class::NotFound => Code::NotFound,
            class => of_class(class),
        },
    }
}

/// An archive of others that is damaged says nothing about our own store.
fn of_archive(error: &ArchiveError) -> Code {
    match error.class() {
        Class::Usage => Code::Usage,
        Class::Refused => Code::ProblemsFound,
        _ => Code::Failed,
    }
}

const fn of_jupyter(error: &JupyterError) -> Code {
    match error {
        JupyterError::NotFound { .. } => Code::NotFound,
        JupyterError::Name { .. } => Code::Usage,
        _ => Code::Failed,
    }
}

const fn of_detect(error: &DetectError) -> Code {
    match error {
        DetectError::NoProcess { .. } => Code::NotFound,
        _ => Code::Failed,
    }
}

const fn of_container(error: &ContainerError) -> Code {
    match error {
        ContainerError::NotAQuery { .. } => Code::Usage,
        ContainerError::NotFound { .. } | ContainerError::Ambiguous { .. } => Code::NotFound,
        other => of_class(other.class()),
    }
}

const fn of_class(class: Class) -> Code {
    match class {
        Class::Corruption => Code::Corruption,
        Class::Key => Code::Key,
        Class::Conflict => Code::Conflict,
        Class::Usage | Class::NotFound | Class::Refused | Class::Environment | Class::Bug => Code::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cas_core::ObjectId;
    use manifest::ReadError;
    use std::path::PathBuf;

    fn exit(error: impl Into<anyhow::Error>) -> u8 {
        Facts::of(&error.into()).exit
    }

    #[test]
    fn each_class_has_its_code_however_deep_it_is() {
        let path = PathBuf::from("x");
        let id = ObjectId::from_bytes([1; 32]);
        assert_eq!(exit(StoreError::NotAStore { path: path.clone() }), Code::NoStore as u8);
        assert_eq!(exit(StoreError::KeyNeeded { path: path.clone() }), Code::Key as u8);
        assert_eq!(exit(StoreError::WrongKey { path: path.clone() }), Code::Key as u8);
        assert_eq!(exit(StoreError::Locked { path, holder: "gc".into() }), Code::Busy as u8);
        assert_eq!(exit(StoreError::damaged("pack", "p", "x")), Code::Corruption as u8);
        assert_eq!(exit(StoreError::RefMissing { name: "tags/x".into() }), Code::NotFound as u8);
        let conflict = StoreError::RefConflict { name: "tags/x".into(), expected: None, found: Some(id) };
        assert_eq!(exit(anyhow::Error::from(conflict).context("while tagging")), Code::Conflict as u8);
        let deep = ReadError::Source { what: "commit", id, source: StoreError::MissingObject { id } };
        assert_eq!(exit(deep), Code::Corruption as u8);
        assert_eq!(exit(anyhow::anyhow!("whatever")), Code::Failed as u8);
    }

    #[test]
    fn what_the_daemon_says_is_passed_on() {
        let body = |exit| api::ErrorBody {
            code: "IJ-L010".into(),
            message: "no session `x`".into(),
            causes: vec!["why".into()],
            hint: Some("look".into()),
            exit,
            field: None,
            files: Vec::new(),
        };
        let facts = Facts::of(&anyhow::Error::from(DaemonError(body(15))).context("outside"));
        assert_eq!(
            (facts.exit, facts.code.as_deref(), facts.hint.as_deref()),
            (15, Some("IJ-L010"), Some("look"))
        );
        assert_eq!(facts.more_causes, ["why"]);
        assert_eq!(exit(DaemonError(body(0))), Code::Failed as u8);
    }

    #[test]
    fn a_broken_pipe_is_found_behind_both_doors() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&CliError::Output(pipe()).into()));
        assert!(is_broken_pipe(&StoreError::io("write", "the export file")(pipe()).into()));
        assert!(!is_broken_pipe(&CliError::Output(io::ErrorKind::StorageFull.into()).into()));
    }
}
