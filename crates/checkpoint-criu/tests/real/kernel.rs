//! What CRIU learns about the kernel, with a real CRIU.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use checkpoint_criu::kernel_notes_of_host;

use crate::common;

#[test]
fn the_kernel_is_learned_once() {
    let Some(criu) = common::criu() else { return };
    let before = mounts_at_run().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let kdat = criu.learn_kernel(dir.path(), kernel_notes_of_host).unwrap();
    assert_eq!(kdat, dir.path().join("criu.kdat"));
    let first = fs::metadata(&kdat).unwrap();
    assert!(first.len() > 64);
    assert_eq!(first.mode() & 0o777, 0o600);

    assert_eq!(criu.learn_kernel(dir.path(), kernel_notes_of_host).unwrap(), kdat);
    assert_eq!(fs::metadata(&kdat).unwrap().ino(), first.ino());

    // One of another boot is made anew.
    fs::write(dir.path().join("criu.kdat.of"), "another boot").unwrap();
    criu.learn_kernel(dir.path(), kernel_notes_of_host).unwrap();
    assert_ne!(fs::metadata(&kdat).unwrap().ino(), first.ino());
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["criu.kdat", "criu.kdat.of"]);
    // What is no such file is not kept.
    fs::write(dir.path().join("criu.kdat.of"), "another boot").unwrap();
    let error = criu.learn_kernel(dir.path(), |_| Ok(vec![0; 4096])).unwrap_err();
    assert_eq!(error.code(), "IJ-K005", "{error}");
    assert_eq!(mounts_at_run().unwrap(), before, "what CRIU was shown as /run is seen outside");
}

/// What is mounted right at `/run`. The rest of the table belongs to others, whose tests run at the same time.
fn mounts_at_run() -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let right_there = |line: &&str| line.split(' ').nth(4) == Some("/run");
    Ok(table.lines().filter(right_there).map(str::to_owned).collect())
}
