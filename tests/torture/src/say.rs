//! What a worker says, one line each, so that the test knows what was under way and what was promised when it was
//! killed. A line is one `write` to a pipe and shorter than 4096 bytes, so it arrives whole or not at all.

use std::fmt;
use std::str::FromStr;

use cas_core::ObjectId;

/// What a worker does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Job {
    /// Opens the store.
    Open,
    /// Writes a snapshot of a generation to a thread and perhaps a tag.
    Write {
        /// The ref of the thread.
        thread: String,
        /// The ref of the tag.
        tag: Option<String>,
        /// What is written.
        generation: u64,
    },
    /// Removes a ref.
    Delete {
        /// Its name.
        name: String,
    },
    /// Collects garbage.
    Gc,
    /// The part of it that copies and removes packs.
    Repack,
    /// Collects garbage and destroys the keys of what is gone.
    Erase,
    /// Replaces the passphrase.
    Rotate {
        /// By this one.
        to: u32,
    },
    /// Exports a snapshot to a file.
    Export {
        /// Its name.
        file: String,
    },
    /// Checks the store.
    Verify,
}

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A job begins.
    Begin(Job),
    /// It returned `Ok`. For a write: what the refs point at now.
    Done(Option<ObjectId>),
    /// It failed: always a defect, for workers only do what must go well.
    Failed(String),
}

impl Job {
    /// One word for tables.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Write { .. } => "write",
            Self::Delete { .. } => "delete",
            Self::Gc => "gc",
            Self::Repack => "repack",
            Self::Erase => "erase",
            Self::Rotate { .. } => "rotate",
            Self::Export { .. } => "export",
            Self::Verify => "verify",
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::Write { thread, tag, generation } => {
                write!(f, " {thread} {} {generation}", tag.as_deref().unwrap_or("-"))
            }
            Self::Delete { name } => write!(f, " {name}"),
            Self::Rotate { to } => write!(f, " {to}"),
            Self::Export { file } => write!(f, " {file}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(job) => write!(f, "begin {job}"),
            Self::Done(None) => write!(f, "done"),
            Self::Done(Some(id)) => write!(f, "done {id}"),
            Self::Failed(text) => write!(f, "failed {}", text.replace('\n', " ")),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let unknown = || format!("a worker said `{line}`");
        if let Some(text) = line.strip_prefix("failed ") {
            return Ok(Self::Failed(text.to_owned()));
        }
        let words: Vec<&str> = line.split(' ').collect();
        let job = match words[..] {
            ["done"] => return Ok(Self::Done(None)),
            ["done", id] => return Ok(Self::Done(Some(id.parse().map_err(|_| unknown())?))),
            ["begin", "open"] => Job::Open,
            ["begin", "write", thread, tag, generation] => Job::Write {
                thread: thread.to_owned(),
                tag: (tag != "-").then(|| tag.to_owned()),
                generation: generation.parse().map_err(|_| unknown())?,
            },
            ["begin", "delete", name] => Job::Delete { name: name.to_owned() },
            ["begin", "gc"] => Job::Gc,
            ["begin", "repack"] => Job::Repack,
            ["begin", "erase"] => Job::Erase,
            ["begin", "rotate", to] => Job::Rotate { to: to.parse().map_err(|_| unknown())? },
            ["begin", "export", file] => Job::Export { file: file.to_owned() },
            ["begin", "verify"] => Job::Verify,
            _ => return Err(unknown()),
        };
        Ok(Self::Begin(job))
    }
}
