//! The parent that claims every page.

use std::fs;
use std::path::Path;

use super::doubt::Doubt;
use super::wire::{Entry, Head, inventory, pagemap};
use crate::pages::{PAGE, Task};

/// Every page that a program can have, in one run.
const FIRST: u64 = PAGE;
const COUNT: u64 = (1 << 47) / PAGE - 2;

/// Numbers of pages files that no dump of ours comes near.
const FIRST_PAGES_ID: u32 = 900_000;

/// Fills an empty directory, to be given to CRIU as the directory of the images before. A task that is not named here CRIU dumps in full.
pub fn write_parent(directory: &Path, tasks: impl IntoIterator<Item = Task>) -> Result<(), Doubt> {
    let write = |name: String, bytes: &[u8]| {
        let path = directory.join(name);
        fs::write(&path, bytes).map_err(Doubt::io("write", path))
    };
    write("inventory.img".to_owned(), &inventory())?;
    for (task, pages_id) in tasks.into_iter().zip(FIRST_PAGES_ID..) {
        let list = pagemap(Head { pages_id }, &[Entry::written(FIRST, COUNT)]);
        write(format!("pagemap-{task}.img"), &list)?;
        // Opened, never read.
        write(format!("pages-{pages_id}.img"), &[])?;
    }
    Ok(())
}
