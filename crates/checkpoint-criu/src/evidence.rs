//! What CRIU's log says about a failure.
//!
//! CRIU logs thousands of lines, and its `cr_errmsg` is the *first* error, which is often harmless noise. What tells is a
//! handful of `Error` lines near the end. They are picked out here, and compared with the table of [`crate::explain`].

use std::path::{Path, PathBuf};

use crate::explain::{self, Explanation};

/// CRIU's log, its telling lines and, for a well-known failure, what they mean.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// The whole log.
    pub log_path: PathBuf,
    /// The lines that tell, in CRIU's order.
    pub lines: Vec<String>,
    /// What they mean, if this failure is a well-known one.
    pub explanation: Option<&'static Explanation>,
}

impl Evidence {
    /// Reads the log at `log_path`, and `stderr` beside it for a CRIU that failed before it had a log.
    #[expect(dead_code, reason = "used by the next commit")]
    pub(crate) fn gather(log_path: &Path, first_error: Option<&str>) -> Self {
        let _ = (log_path, first_error);
        Self::default()
    }

    /// The meaning, or the last telling line, as the tail of a sentence.
    pub(crate) fn summary(&self) -> String {
        match (self.explanation, self.lines.last()) {
            (Some(explanation), _) => format!(": {}", explanation.meaning),
            (None, Some(line)) => format!(": {line}"),
            (None, None) => String::new(),
        }
    }

    /// A way out.
    pub(crate) fn hint(&self) -> String {
        match self.explanation {
            Some(explanation) => explanation.way_out.to_owned(),
            None => format!("CRIU's log is at `{}`", self.log_path.display()),
        }
    }
}

#[expect(dead_code, reason = "used by the next commit")]
fn explain(lines: &[String]) -> Option<&'static Explanation> {
    explain::explain(lines)
}
