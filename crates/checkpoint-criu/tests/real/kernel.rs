//! What CRIU learns about the kernel, with a real CRIU.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::common;

#[test]
fn the_kernel_is_learned_once() {
    let Some(criu) = common::criu() else { return };
    let dir = tempfile::tempdir().unwrap();
    let kdat = criu.learn_kernel(dir.path()).unwrap();
    assert_eq!(kdat, dir.path().join("criu.kdat"));
    let first = fs::metadata(&kdat).unwrap();
    assert!(first.len() > 64);
    assert_eq!(first.mode() & 0o777, 0o600);

    assert_eq!(criu.learn_kernel(dir.path()).unwrap(), kdat);
    assert_eq!(fs::metadata(&kdat).unwrap().ino(), first.ino());

    // One of another boot is made anew.
    fs::write(dir.path().join("criu.kdat.of"), "another boot").unwrap();
    criu.learn_kernel(dir.path()).unwrap();
    assert_ne!(fs::metadata(&kdat).unwrap().ino(), first.ino());
    let mut names: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["criu.kdat", "criu.kdat.of"]);
    // Only this one is asked for: the rest of the table belongs to others, whose tests run at the same time.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(" criu-kdat "), "what CRIU was shown as /run is seen outside:\n{mounts}");
}
