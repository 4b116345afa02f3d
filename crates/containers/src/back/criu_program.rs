//! The CRIU that a runtime finds when we start it.

use std::fs;
use std::path::{Path, PathBuf};

use base::io_error;

use super::error::Result;
use super::own_mounts::{quoted, write_program};

/// The directory with a program `criu` that is the CRIU here, with options that runc has no word for.
pub(super) fn for_runtimes(criu: &Path, programs: &Path) -> Result<PathBuf> {
    let directory = programs.join("for-runtimes");
    let (program, none) = (directory.join("criu"), directory.join("no-plugins"));
    fs::create_dir_all(&none).map_err(io_error("create", &none))?;
    let text = [
        &b"#!/bin/sh\n# Connections come back closed, and no plugin has a say.\nexec "[..],
        &quoted(criu),
        b" --no-default-config --libdir ",
        &quoted(&none),
        b" --tcp-close --network-lock skip --skip-file-rwx-check \"$@\"\n",
    ];
    write_program(&program, &text.concat())?;
    Ok(directory)
}
