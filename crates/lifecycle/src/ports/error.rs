//! What an engine behind a port says.

use std::error::Error;
use std::fmt;

use base::Class;

/// An error of an engine that the pipelines do not know, in its own words and with its own code.
#[derive(Debug)]
pub struct EngineError {
    pub(crate) code: &'static str,
    pub(crate) class: Class,
    pub(crate) hint: Option<String>,
    pub(crate) means: Means,
    error: Box<dyn Error + Send + Sync>,
}

/// What a pipeline has to know of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// It did not work.
    Failure,
    /// A process was missed that had just been there.
    ProcessGone,
    /// What a process had is lost: trying again cannot help.
    Lost,
}

impl EngineError {
    /// `code` is stable and has a page in `docs/errors/`; `hint` is the way out, where there is one.
    pub fn new(
        code: &'static str,
        class: Class,
        hint: Option<String>,
        means: Means,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self { code, class, hint, means, error: Box::new(error) }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(out)
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}
