//! The pipelines: snapshot, rollback, branch, suspend, resume.
#![forbid(unsafe_code)]
