//! All fuzz targets in one program, which is linked once: `FUZZ_TARGET` says which of them runs. A target is a file beside this one, with
//! a function `run`, and a line in [`TARGETS`].
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

mod archive;
mod checkpoint_archive;
mod chunk_list;
mod criu_images;
mod gpu_helper;
mod kernel_messages;
mod keyring;
mod manifest_objects;
mod map;
mod pack;
mod page_lists;
mod proc_files;
mod remote;
mod salvage;
mod text_files;

type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("archive", archive::run),
    ("checkpoint_archive", checkpoint_archive::run),
    ("chunk_list", chunk_list::run),
    ("criu_images", criu_images::run),
    ("gpu_helper", gpu_helper::run),
    ("kernel_messages", kernel_messages::run),
    ("keyring", keyring::run),
    ("manifest_objects", manifest_objects::run),
    ("map", map::run),
    ("pack", pack::run),
    ("page_lists", page_lists::run),
    ("proc_files", proc_files::run),
    ("remote", remote::run),
    ("salvage", salvage::run),
    ("text_files", text_files::run),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let wanted = std::env::var("FUZZ_TARGET").unwrap_or_default();
    match TARGETS.iter().find(|(name, _)| *name == wanted) {
        Some((_, run)) => *run,
        None => {
            let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            panic!("FUZZ_TARGET is `{wanted}`, and the targets are {}", names.join(", "));
        }
    }
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
