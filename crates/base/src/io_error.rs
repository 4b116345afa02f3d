//! What the operating system refused: what was tried, on what, and what it said.

use std::io;
use std::path::PathBuf;

/// The operating system refused. Errors of other crates have it as a variant: `Io(#[from] IoError)`, transparent.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} `{}`", path.display())]
pub struct IoError {
    /// A verb: "open", "create" …
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// For `map_err`: what was done, to what. `?` makes the error of the crate of it.
pub fn io_error<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> IoError {
    let path = path.into();
    move |source| IoError { action, path, source: source.into() }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::path::Path;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Ours {
        #[error(transparent)]
        Io(#[from] IoError),
    }

    fn read(path: &Path) -> Result<Vec<u8>, Ours> {
        Ok(std::fs::read(path).map_err(io_error("read", path))?)
    }

    #[test]
    fn it_names_the_thing_and_leaves_the_cause_to_the_chain() {
        let error = read(Path::new("/nowhere/x")).unwrap_err();
        assert_eq!(error.to_string(), "cannot read `/nowhere/x`");
        let cause = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!(cause.kind(), io::ErrorKind::NotFound);
        let Ours::Io(error) = error;
        assert_eq!(error.source.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_only_becomes_an_error_of_the_system_will_do() {
        let refused = io_error("open", "/x")(rustix::io::Errno::ACCESS);
        assert_eq!(refused.source.kind(), io::ErrorKind::PermissionDenied);
    }
}
