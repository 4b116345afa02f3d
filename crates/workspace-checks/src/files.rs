//! Finding the files that the rules look at.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A text file with its path as seen from the root.
#[derive(Debug, Clone)]
pub struct TextFile {
    /// For people: `crates/cas-core/src/error.rs`.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
}

impl TextFile {
    /// A file that a test made up.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

/// All files below `root` whose name ends in `suffix`, in order of their paths. Build directories and hidden ones are
/// left out; `.cargo`, `.config` and `.ci` are ours and are read.
pub fn below(root: &Path, suffix: &str) -> io::Result<Vec<TextFile>> {
    let mut found = Vec::new();
    let mut todo = vec![root.to_path_buf()];
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let ours = !name.starts_with('.') || matches!(&*name, ".cargo" | ".config" | ".ci");
                if ours && name != "target" && name != "node_modules" {
                    todo.push(entry.path());
                }
            } else if kind.is_file() && name.ends_with(suffix) {
                let path = entry.path();
                let text = fs::read_to_string(&path)?;
                found.push(TextFile::new(path.strip_prefix(root).unwrap_or(&path), text));
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}
