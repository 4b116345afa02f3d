//! Images of CRIU. The input is a whole image file; its magic number decides which reader does more than refuse it. Whatever the
//! readers accept, they still accept after a path in it was changed, or pages were taken out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use checkpoint_criu::images::{check, pagemap_without, rewrite};

const NAMES: &[&str] = &[
    "inventory.img",
    "pstree.img",
    "files.img",
    "core-1.img",
    "ids-1.img",
    "mm-1.img",
    "fs-1.img",
    "fdinfo-2.img",
    "pagemap-1.img",
    "mountpoints-12.img",
    "userns-12.img",
    "ghost-file-a.img",
    "remap-fpath.img",
    "memfd.img",
    "tty-info.img",
    "seccomp.img",
    "stats-dump",
];

pub(crate) fn run(bytes: &[u8]) {
    for name in NAMES {
        let _ = check(name, bytes);
    }
    let path = Path::new("files.img");
    for id in 1..4 {
        let names = BTreeMap::from([(id, PathBuf::from("/somewhere/else"))]);
        if let (Ok(entries), Ok(fresh)) = (check("files.img", bytes), rewrite::rewrite(path, bytes, &names)) {
            assert_eq!(check("files.img", &fresh).unwrap(), entries);
            assert_eq!(rewrite::rewrite(path, &fresh, &names).unwrap(), fresh);
        }
    }
    let gone = [0x2000..0x5000, 0x9000..0x1_0000];
    let path = Path::new("pagemap-1.img");
    if let (Ok(_), Ok(fresh)) = (check("pagemap-1.img", bytes), pagemap_without(path, bytes, &gone)) {
        check("pagemap-1.img", &fresh).unwrap();
        assert_eq!(pagemap_without(path, &fresh, &gone).unwrap(), fresh);
    }
}
