//! The same images, with other paths in them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use base::io_error;
use checkpoint_criu::images::{FileKind, Images, rewrite};

use crate::error::Result;

/// Which open files lead elsewhere if each path of `moved` becomes the one beside it. Empty: nothing has to be rewritten.
pub fn moved_files(images: &Path, moved: &[(PathBuf, PathBuf)]) -> Result<BTreeMap<u32, PathBuf>> {
    let mut names = BTreeMap::new();
    if moved.is_empty() {
        return Ok(names);
    }
    for file in Images::open(images)?.files()? {
        if let FileKind::Reg(regular) = &file.kind
            && let Some((_, copy)) = moved.iter().find(|(path, _)| path == regular.path())
        {
            names.insert(file.id, copy.clone());
        }
    }
    Ok(names)
}

/// Puts images with these names for files into `to`, which is empty.
pub fn lay_out_moved(images: &Path, names: &BTreeMap<u32, PathBuf>, to: &Path) -> Result<()> {
    for item in fs::read_dir(images).map_err(io_error("list", images))? {
        let name = item.map_err(io_error("list", images))?.file_name();
        let (from, to) = (images.join(&name), to.join(&name));
        // Pages are large and may lie on another file system; the rest is small.
        if name.as_encoded_bytes().starts_with(b"pages-") {
            symlink(&from, &to).map_err(io_error("link", &to))?;
        } else {
            fs::copy(&from, &to).map_err(io_error("copy", &from))?;
        }
    }
    Ok(rewrite::set_paths(to, names)?)
}
