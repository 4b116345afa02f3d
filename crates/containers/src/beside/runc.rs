//! runc: a bundle of ours.

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use base::io_error;

use super::second::{Made, Second};
use crate::back::{Result, Runc};

impl Runc<'_> {
    /// Makes the bundle of a second one. runc knows nothing of it until it is restored.
    pub(crate) fn beside(&self, second: &Second<'_>) -> Result<Made> {
        second.check()?;
        let bundle = second.home.join("bundle");
        let json = second.specification(Some(second.files))?;
        for directory in [&bundle, second.files] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
            made.map_err(io_error("create", directory))?;
        }
        let path = bundle.join("config.json");
        fs::write(&path, json).map_err(io_error("write", &path))?;
        Ok(Made { id: second.id.clone(), bundle, files: second.files.to_owned() })
    }
}
