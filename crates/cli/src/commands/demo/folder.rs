//! The folder with the notebook. What a person has there is never overwritten: files are only ever made where there is none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::error::CliError;

pub(super) const NOTEBOOK: &str = "demo.ipynb";

/// All of its files.
const FILES: [(&str, &str); 3] = [
    (NOTEBOOK, include_str!("files/demo.ipynb")),
    ("measurements.csv", include_str!("files/measurements.csv")),
    ("chart.py", include_str!("files/chart.py")),
];

/// How many folders are looked at beside the one that was named.
const BESIDE: u32 = 100;

pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Whether the notebook was there already.
    pub(super) known: bool,
}

impl Folder {
    /// The one that is named if it has the notebook already, else a new one: there or, if it holds something else, beside it.
    pub(super) fn prepare(named: &Path, fresh: bool) -> Result<Self> {
        if !fresh && named.join(NOTEBOOK).is_file() {
            return Ok(Self { path: named.to_owned(), known: true });
        }
        for number in 1..=BESIDE {
            let path = numbered(named, number);
            if is_free(&path).with_context(|| format!("cannot look into `{}`", path.display()))? {
                fill(&path).with_context(|| format!("cannot make the demo in `{}`", path.display()))?;
                return Ok(Self { path, known: false });
            }
        }
        let what = format!("there are {BESIDE} folders like `{}` already", named.display());
        Err(CliError::Usage { what }.into())
    }
}

/// `infinijup-demo`, `infinijup-demo-2`, …
fn numbered(named: &Path, number: u32) -> PathBuf {
    if number == 1 {
        return named.to_owned();
    }
    let mut name = named.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    named.with_file_name(name)
}

/// Whether nobody has anything there. What is no directory is somebody's.
fn is_free(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(fs::symlink_metadata(path).is_err()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        Err(error) => Err(error),
    }
}

fn fill(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, text) in FILES {
        let mut file = OpenOptions::new().write(true).create_new(true).open(directory.join(name))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_visit_finds_the_notebook_as_it_was_left() {
        let home = tempfile::tempdir().unwrap();
        let named = home.path().join("demo");
        let first = Folder::prepare(&named, false).unwrap();
        assert!(!first.known && first.path == named);
        assert_eq!(fs::read_dir(&named).unwrap().count(), FILES.len());
        fs::write(named.join(NOTEBOOK), "mine").unwrap();
        fs::remove_file(named.join("chart.py")).unwrap();
        let again = Folder::prepare(&named, false).unwrap();
        assert!(again.known && again.path == named);
        assert_eq!(fs::read_to_string(named.join(NOTEBOOK)).unwrap(), "mine");
        assert_eq!(fs::read_dir(&named).unwrap().count(), FILES.len() - 1, "nothing was put back");
    }

    #[test]
    fn a_fresh_one_and_one_in_a_full_folder_are_beside() {
        let home = tempfile::tempdir().unwrap();
        let named = home.path().join("demo");
        Folder::prepare(&named, false).unwrap();
        assert_eq!(Folder::prepare(&named, true).unwrap().path, home.path().join("demo-2"));
        let full = home.path().join("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("thesis.txt"), "precious").unwrap();
        assert_eq!(Folder::prepare(&full, false).unwrap().path, home.path().join("full-2"));
        assert_eq!(fs::read_dir(&full).unwrap().count(), 1);
        // A file, and a link that leads nowhere, are somebody's too.
        fs::write(home.path().join("file"), "").unwrap();
        assert_eq!(
            Folder::prepare(&home.path().join("file"), false).unwrap().path,
            home.path().join("file-2")
        );
        std::os::unix::fs::symlink("nowhere", home.path().join("link")).unwrap();
        assert_eq!(
            Folder::prepare(&home.path().join("link"), false).unwrap().path,
            home.path().join("link-2")
        );
        // An empty one is as good as none.
        fs::create_dir(home.path().join("empty")).unwrap();
        assert_eq!(
            Folder::prepare(&home.path().join("empty"), true).unwrap().path,
            home.path().join("empty")
        );
    }

    #[test]
    fn the_notebook_is_one_and_has_run_nowhere() {
        let notebook: serde_json::Value = serde_json::from_str(FILES[0].1).unwrap();
        assert_eq!(notebook["nbformat"], 4);
        for cell in notebook["cells"].as_array().unwrap() {
            assert!(cell["id"].is_string(), "{cell}");
            if cell["cell_type"] == "code" {
                assert_eq!(
                    (&cell["outputs"], &cell["execution_count"]),
                    (&serde_json::json!([]), &serde_json::Value::Null)
                );
            }
        }
    }
}
