//! A copy of `infinijup-box`, and of the library that a session's processes load, for each version that sessions were started with.
//!
//! It is the first process of every tree, so its file belongs to every snapshot as much as the user's Python does: CRIU opens
//! it again at a restore, and refuses one of another size. An upgrade replaces the installed program; so boxes run from a copy
//! that is named after its content and never changes.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base::io_error;
use lifecycle::Result;
use lifecycle::ports::make_private;
use sandbox::{KEEPNAME, KEEPNAME_FILE, Program};

/// The program, copied below `directory` if this version of it is not there yet.
pub(crate) fn settle(program: &Program, directory: &Path) -> Result<Program> {
    let content = fs::read(program.path()).map_err(io_error("read", program.path()))?;
    let mut version = blake3::Hasher::new();
    version.update(&content).update(KEEPNAME);
    let own = directory.join(version.finalize().to_hex().as_str());
    let copy = own.join(program.path().file_name().unwrap_or_default());
    make_private(directory)?;
    if !copy.exists() {
        make_private(&own)?;
        write_once(&own.join(KEEPNAME_FILE), KEEPNAME, 0o644)?;
        // Last: who finds it finds the other, too.
        write_once(&copy, &content, 0o755)?;
    }
    Ok(Program::find(Some(&copy))?)
}

fn write_once(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(io_error("create", &new))?;
    file.write_all(content).map_err(io_error("write", &new))?;
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(io_error("set the mode of", &new))?;
    file.sync_all().map_err(io_error("sync", &new))?;
    Ok(fs::rename(&new, path).map_err(io_error("rename", &new))?)
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
