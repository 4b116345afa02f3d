//! Where `infinijup-box` is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::{Result, SandboxError};

const NAME: &str = "infinijup-box";

/// The helper program `infinijup-box`: everything that must happen in a process of its own, because it changes
/// namespaces or credentials or has to outlive the daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Finds it: `explicit`, else `$INFINIJUP_BOX`, else beside the running program, else in `/usr/lib/infinijup`.
    ///
    /// An explicit path or the variable decides alone: when there is nothing, no other place is tried.
    pub fn find(explicit: Option<&Path>) -> Result<Self> {
        let named =
            explicit.map(Path::to_owned).or_else(|| std::env::var_os("INFINIJUP_BOX").map(PathBuf::from));
        let looked = match named {
            Some(path) => vec![path],
            None => usual_places(),
        };
        for path in &looked {
            // A test runs from target/debug/deps and finds the program one level higher.
            if path.is_file()
                && let Ok(path) = path.canonicalize()
            {
                return Ok(Self { path });
            }
        }
        Err(SandboxError::NoProgram { looked })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A call of one of its roles, with pipes on all three standard streams.
    pub(crate) fn role(&self, role: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(role).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn usual_places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(here) = std::env::current_exe() {
        places.extend(here.ancestors().skip(1).take(2).map(|directory| directory.join(NAME)));
    }
    places.push(Path::new("/usr/lib/infinijup").join(NAME));
    places
}
