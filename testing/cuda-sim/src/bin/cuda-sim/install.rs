//! `cuda-sim install`: the library under the names that programs look for.
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::Words;

/// Copies the library into a directory, with the driver's version in its names and the usual links.
pub(super) fn install(words: &Words) -> Result<(), String> {
    let (directory, level) = (words.directory()?, words.level()?);
    let library = library()?;
    std::fs::create_dir_all(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    for (name, links) in [
        ("libcuda.so", &["libcuda.so.1", "libcuda.so"][..]),
        ("libnvidia-ml.so", &["libnvidia-ml.so.1", "libnvidia-ml.so"]),
    ] {
        let file = format!("{name}.{}", level.driver());
        put(&directory, &file, links, &library)
            .map_err(|cause| format!("{}: {cause}", directory.join(&file).display()))?;
    }
    Ok(())
}

fn put(directory: &Path, file: &str, links: &[&str], library: &Path) -> std::io::Result<()> {
    let target = directory.join(file);
    // A program may have the old one mapped: never write into it.
    let fresh = directory.join(format!(".{file}.new"));
    std::fs::copy(library, &fresh)?;
    std::fs::rename(&fresh, &target)?;
    for link in links {
        let link = directory.join(link);
        if link.symlink_metadata().is_ok() {
            std::fs::remove_file(&link)?;
        }
        symlink(file, &link)?;
    }
    Ok(())
}

/// The newest library beside this program or, where Cargo leaves it when it builds tests, one directory further down or up.
fn library() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|cause| format!("own path: {cause}"))?;
    let beside = program.parent().unwrap_or(Path::new("/"));
    let places = [beside.to_owned(), beside.join("deps"), beside.join("..")];
    let found = places.iter().filter_map(|place| {
        let path = place.join("libcuda_sim.so");
        let changed = path.metadata().ok()?.modified().ok()?;
        Some((changed, path))
    });
    let newest = found.max_by_key(|(changed, _)| *changed).map(|(_, path)| path);
    newest.ok_or_else(|| format!("no libcuda_sim.so beside {}", program.display()))
}
