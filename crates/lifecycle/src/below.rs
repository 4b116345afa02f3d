//! Errors of crates that have no codes of their own: what they say gets ours.

use history::HistoryError;
use image_store::ImageError;
use preflight::PreflightError;
use session_record::RecordError;
use staging::StagingError;
use workspace::WorkspaceError;

use crate::error::LifecycleError;

impl From<HistoryError> for LifecycleError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Io(error) => error.into(),
            HistoryError::Store(error) => error.into(),
            HistoryError::Manifest(error) => error.into(),
            HistoryError::Images(error) => error.into(),
            HistoryError::BadSnapshot { commit, detail } => Self::BadSnapshot { commit, detail },
            HistoryError::BadRequest { detail } | HistoryError::Ambiguous { detail } => {
                Self::BadRequest { detail }
            }
            HistoryError::NoRoom { path, needed, available } => Self::NoRoom { path, needed, available },
            HistoryError::Damaged { path, detail } => Self::DamagedRecord { path, detail },
            error => Self::History(error),
        }
    }
}

impl From<ImageError> for LifecycleError {
    fn from(error: ImageError) -> Self {
        match error {
            ImageError::Io(error) => error.into(),
            ImageError::NotWhole { commit, detail } => Self::BadSnapshot { commit, detail },
            ImageError::Store(error) => error.into(),
            ImageError::Manifest(error) => error.into(),
            ImageError::Criu(error) => error.into(),
        }
    }
}

impl From<RecordError> for LifecycleError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Io(error) => error.into(),
            RecordError::Damaged { path, detail } => Self::DamagedRecord { path, detail },
            RecordError::WrongState { session, state, action } => Self::WrongState { session, state, action },
            RecordError::Busy { session, doing } => Self::Busy { session, doing },
            RecordError::BadRequest { detail } => Self::BadRequest { detail },
            RecordError::Unfinished { sessions } => Self::Unfinished { sessions },
            RecordError::History(error) => error.into(),
            RecordError::NotKept { path } => Self::FilesChanged { paths: vec![path] },
            RecordError::Workspace(error) => error.into(),
            RecordError::Sandbox(error) => error.into(),
            RecordError::Staging(error) => error.into(),
            RecordError::Bug(what) => Self::Bug(what),
        }
    }
}

impl From<PreflightError> for LifecycleError {
    fn from(error: PreflightError) -> Self {
        match error {
            PreflightError::Refused { problems } => Self::Preflight { problems },
            PreflightError::Room(error) => error.into(),
            PreflightError::Sandbox(error) => error.into(),
        }
    }
}

impl From<StagingError> for LifecycleError {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::Io(error) => error.into(),
            StagingError::NoRoom { path, needed, available } => Self::NoRoom { path, needed, available },
            StagingError::Random(error) => error.into(),
        }
    }
}

impl From<WorkspaceError> for LifecycleError {
    fn from(error: WorkspaceError) -> Self {
        match error {
            WorkspaceError::Io(error) => error.into(),
            error @ WorkspaceError::Volume { .. } => Self::BadRequest { detail: error.to_string() },
            WorkspaceError::Changed { paths } => Self::FilesChanged { paths },
            WorkspaceError::Store(error) => error.into(),
            WorkspaceError::Manifest(error) => error.into(),
            WorkspaceError::Sandbox(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_crates_below_say_has_the_codes_that_it_always_had() {
        let (commit, detail) = (String::new, || "it has no images".to_owned());
        let errors: Vec<(LifecycleError, &str)> = vec![
            (HistoryError::BadSnapshot { commit: commit(), detail: detail() }.into(), "IJ-L060"),
            (HistoryError::NotInSnapshot { commit: commit(), what: "has no notebook" }.into(), "IJ-L063"),
            (HistoryError::NoSuchSnapshot { which: commit() }.into(), "IJ-L061"),
            (HistoryError::BadRequest { detail: detail() }.into(), "IJ-L015"),
            (HistoryError::Ambiguous { detail: detail() }.into(), "IJ-L015"),
            (HistoryError::Forgotten { commit: commit() }.into(), "IJ-L064"),
            (HistoryError::GcIncomplete { count: 1 }.into(), "IJ-L065"),
            (HistoryError::WritersBusy { count: 1 }.into(), "IJ-L066"),
            (HistoryError::NoRoom { path: "/".into(), needed: 2, available: 1 }.into(), "IJ-L041"),
            (HistoryError::NotSealed { commit: commit() }.into(), "IJ-L051"),
            (HistoryError::Damaged { path: "/".into(), detail: detail() }.into(), "IJ-L070"),
            (HistoryError::StoreKey { path: "/".into(), why: detail() }.into(), "IJ-L090"),
            (HistoryError::NotEncrypted { store: "/".into() }.into(), "IJ-L091"),
            (ImageError::NotWhole { commit: commit(), detail: detail() }.into(), "IJ-L060"),
            (StagingError::NoRoom { path: "/".into(), needed: 2, available: 1 }.into(), "IJ-L041"),
            (RecordError::Damaged { path: "/".into(), detail: detail() }.into(), "IJ-L070"),
            (
                RecordError::WrongState { session: commit(), state: "ended", action: "go on" }.into(),
                "IJ-L012",
            ),
            (RecordError::Busy { session: commit(), doing: "a snapshot" }.into(), "IJ-L013"),
            (RecordError::BadRequest { detail: detail() }.into(), "IJ-L015"),
            (RecordError::Unfinished { sessions: vec![commit()] }.into(), "IJ-L092"),
            (RecordError::Bug(detail()).into(), "IJ-L099"),
            (PreflightError::Refused { problems: Vec::new() }.into(), "IJ-L040"),
            (WorkspaceError::Changed { paths: vec!["/a".into()] }.into(), "IJ-L030"),
        ];
        for (error, code) in errors {
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
