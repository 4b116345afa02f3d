//! Files that belong to a session's user, in directories of ours and in theirs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::Path;

use base::io_error;
use sandbox::User;

use crate::error::{RecordError, Result};

/// Refuses what is no directory that its user can work in.
pub fn check_directory(path: &Path) -> Result<()> {
    // To read it is asked too: a directory that is closed to the user is nobody's workspace.
    let look = || fs::read_dir(path).and_then(|_| fs::metadata(path));
    let detail = match look() {
        Ok(found) if found.is_dir() && path.is_absolute() => return Ok(()),
        Ok(_) => format!("`{}` is not a directory", path.display()),
        Err(error) => format!("`{}`: {error}", path.display()),
    };
    Err(RecordError::BadRequest { detail })
}

/// A new file of root's making that belongs to the user and that nobody else can read.
pub fn write_for(path: &Path, user: &User, content: &[u8]) -> Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(io_error("create", path))?;
    file.write_all(content).map_err(io_error("write", path))?;
    Ok(chown(path, Some(user.uid), Some(user.gid)).map_err(io_error("change the owner of", path))?)
}

/// Replaces a file in a directory of root's, for a user, in one piece.
pub fn replace_for(path: &Path, user: &User, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    // Left by somebody who was cut short.
    let _nothing = fs::remove_file(&new);
    write_for(&new, user, content)?;
    Ok(fs::rename(&new, path).map_err(io_error("rename", &new))?)
}

/// Replaces a file in a directory that the user may write to, with the user's rights.
pub fn replace_as(path: &Path, content: &[u8]) -> Result<()> {
    let new = path.with_extension("new");
    let replace = || {
        let _nothing = fs::remove_file(&new);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        fs::rename(&new, path)
    };
    Ok(replace().map_err(io_error("replace", path))?)
}

/// Removes a directory with everything below it, unless something is mounted there: what is below a mount is not ours.
pub fn remove_directory(path: &Path) -> Result<()> {
    if !sandbox::leftover_mounts(path)?.is_empty() {
        return Err(RecordError::Bug(format!("something is still mounted below `{}`", path.display())));
    }
    remove_if_there(path)
}

/// Removes a directory with everything below it.
pub fn remove_if_there(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => Ok(other.map_err(io_error("remove", path))?),
    }
}
