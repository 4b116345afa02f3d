//! A copy of `infinijup-box` for each version that sessions were started with.
//!
//! It is the first process of every box, so its file belongs to every snapshot as much as the user's Python does: CRIU opens
//! it again at a restore, and refuses one of another size. An upgrade replaces the installed program; so boxes run from a copy
//! that is named after its content and never changes.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandbox::Program;

use crate::error::{Result, io_error};
use crate::place::make;

/// The program, copied below `directory` if this version of it is not there yet.
pub(crate) fn settle(program: &Program, directory: &Path) -> Result<Program> {
    let content = fs::read(program.path()).map_err(io_error("read", program.path()))?;
    let own = directory.join(blake3::hash(&content).to_hex().as_str());
    let name = program.path().file_name().unwrap_or_default();
    let (copy, new) = (own.join(name), own.join("new"));
    make(directory, 0o711)?;
    if !copy.exists() {
        make(&own, 0o711)?;
        let mut file = File::create(&new).map_err(io_error("create", &new))?;
        file.write_all(&content).map_err(io_error("write", &new))?;
        file.set_permissions(fs::Permissions::from_mode(0o755)).map_err(io_error("set the mode of", &new))?;
        file.sync_all().map_err(io_error("sync", &new))?;
        fs::rename(&new, &copy).map_err(io_error("rename", &new))?;
    }
    Ok(Program::find(Some(&copy))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_a_copy_that_stays() {
        let home = tempfile::tempdir().unwrap();
        let installed = home.path().join("infinijup-box");
        fs::write(&installed, "one").unwrap();
        let program = Program::find(Some(&installed)).unwrap();
        let one = settle(&program, &home.path().join("programs")).unwrap();
        fs::write(&installed, "another").unwrap();
        let two = settle(&program, &home.path().join("programs")).unwrap();
        assert_ne!(one.path(), two.path());
        assert_eq!(fs::read(one.path()).unwrap(), b"one");
        assert_eq!(fs::read(two.path()).unwrap(), b"another");
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(settle(&program, &home.path().join("programs")).unwrap(), two);
    }
}
