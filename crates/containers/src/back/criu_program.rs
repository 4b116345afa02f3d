//! The CRIU that a runtime finds when we start it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base::io_error;

use super::error::Result;

/// The directory with a program `criu` that is the CRIU here, with options that runc has no word for.
pub(super) fn for_runtimes(criu: &Path, programs: &Path) -> Result<PathBuf> {
    let directory = programs.join("for-runtimes");
    let (program, none) = (directory.join("criu"), directory.join("no-plugins"));
    fs::create_dir_all(&none).map_err(io_error("create", &none))?;
    let quoted = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let text = format!(
        "#!/bin/sh\n# Connections come back closed, and no plugin has a say.\nexec {} --no-default-config --libdir {} \
         --tcp-close --network-lock skip --skip-file-rwx-check \"$@\"\n",
        quoted(criu),
        quoted(&none),
    );
    if fs::read(&program).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(directory);
    }
    // Somebody may be running it.
    let new = directory.join(format!("criu.{}", std::process::id()));
    let written = File::options().write(true).create(true).truncate(true).mode(0o700).open(&new);
    written.and_then(|mut file| file.write_all(text.as_bytes())).map_err(io_error("write", &new))?;
    fs::rename(&new, &program).map_err(io_error("rename", &new))?;
    Ok(directory)
}
