//! The file in which a user sets things for their daemon.
//!
//! What may be set, and what it means, is the daemon's business. Others read one thing: where the key of an encrypted store is.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use toml::{Table, Value};

/// Nobody has more to set.
const LIMIT: u64 = 64 << 10;

/// Why the settings file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The operating system refused.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The operating system refused to have something added.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is there and makes no sense.
    #[error("`{}`: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// The key of the store that it names, if it names one.
pub fn key_file(path: &Path) -> Result<Option<PathBuf>, SettingsError> {
    Ok(table(path)?.get("key_file").and_then(Value::as_str).map(PathBuf::from))
}

/// Adds the key of the store to it, unless one is named there.
pub fn name_key_file(path: &Path, key: &Path) -> Result<(), SettingsError> {
    if key_file(path)?.is_some() {
        return Ok(());
    }
    let before = match read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(|source| SettingsError::Io { path: path.to_owned(), source })?,
    };
    let break_before = if before.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
    // A text of JSON is a text of TOML.
    let key = serde_json::Value::from(key.to_string_lossy());
    let line = format!(
        "{break_before}# Without this file nothing opens the store: keep a copy elsewhere.\nkey_file = {key}\n"
    );
    append(path, line.as_bytes()).map_err(|source| SettingsError::Write { path: path.to_owned(), source })
}

/// Appended, not replaced: people link to such files.
fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(line)?;
    file.sync_all()
}

/// What is in it; nothing if it is not there.
pub fn table(path: &Path) -> Result<Table, SettingsError> {
    let malformed = |why: &str| SettingsError::Malformed { path: path.to_owned(), why: why.to_owned() };
    let bytes = match read(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Table::new());
        }
        read => read.map_err(|source| SettingsError::Io { path: path.to_owned(), source })?,
    };
    let text = String::from_utf8(bytes).map_err(|_| malformed("it is not UTF-8"))?;
    text.parse().map_err(|error: toml::de::Error| malformed(error.message()))
}

/// People keep such files elsewhere and link to them, so links are followed. What is no file is not waited for.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    if file.take(LIMIT + 1).read_to_end(&mut bytes)? as u64 > LIMIT {
        return Err(io::Error::other(format!("it has more than {LIMIT} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_and_nonsense_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.toml");
        assert_eq!(key_file(&path).unwrap(), None, "no file, no settings");
        std::fs::write(&path, "idle_end = 5\nkey_file = '/home/ada/store.key'\n").unwrap();
        assert_eq!(key_file(&path).unwrap(), Some(PathBuf::from("/home/ada/store.key")));
        for (content, said) in [(&b"key_file 5"[..], "settings.toml`: "), (b"\xff", "it is not UTF-8")] {
            std::fs::write(&path, content).unwrap();
            let refused = key_file(&path).unwrap_err();
            assert!(refused.to_string().contains(said), "{refused}");
        }
        std::fs::write(&path, "#".repeat(65 << 10)).unwrap();
        key_file(&path).unwrap_err();
        for no_file in [home.path(), Path::new("/dev/zero")] {
            assert!(matches!(key_file(no_file), Err(SettingsError::Io { .. })), "{no_file:?}");
        }
    }

    #[test]
    fn the_key_is_added_to_what_is_set_and_only_once() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("config/settings.toml");
        let key = PathBuf::from("/home/a \"b\"/store.key");
        for before in [None, Some(""), Some("idle_end = 5"), Some("# mine\nreserve = '1 MiB'\n")] {
            let _ = std::fs::remove_file(&path);
            if let Some(before) = before {
                std::fs::write(&path, before).unwrap();
            }
            name_key_file(&path, &key).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(text.starts_with(before.unwrap_or_default()), "{text}");
            assert_eq!(key_file(&path).unwrap().as_ref(), Some(&key), "{text}");
            name_key_file(&path, &key).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }
}
