//! Where a path leads inside of a root that is not ours.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// More links in one path are a circle.
const MOST_LINKS: usize = 255;

/// The path with all links in it followed, as a process sees it whose root is `root`: `..` stops there, and a link to `/x` leads to `x` below it.
/// Parts that are not there are kept as they are written. So runc names mount points, and so do the kernel's lists of mounts.
pub(crate) fn inside(root: &Path, path: &Path) -> PathBuf {
    let parts = |path: &Path| -> Vec<OsString> {
        let text = |part: Component<'_>| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        };
        path.components().filter_map(text).collect()
    };
    let mut left: VecDeque<OsString> = parts(path).into();
    let (mut found, mut links) = (PathBuf::new(), 0);
    while let Some(part) = left.pop_front() {
        if part == ".." {
            found.pop();
            continue;
        }
        let next = found.join(&part);
        match fs::read_link(root.join(&next)) {
            Ok(target) if links < MOST_LINKS => {
                links += 1;
                if target.is_absolute() {
                    found = PathBuf::new();
                }
                for part in parts(&target).into_iter().rev() {
                    left.push_front(part);
                }
            }
            _ => found = next,
        }
    }
    Path::new("/").join(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_below_the_root_and_never_out_of_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("run/lock")).unwrap();
        fs::create_dir_all(at("var")).unwrap();
        symlink("/run", at("var/run")).unwrap();
        symlink("../../../../etc", at("var/out")).unwrap();
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        let told = |path: &str| inside(root.path(), Path::new(path)).to_str().unwrap().to_owned();
        assert_eq!(told("/var/run/lock"), "/run/lock");
        assert_eq!(told("/var/run/./lock/../new/file"), "/run/new/file");
        assert_eq!(told("/var/out/shadow"), "/etc/shadow");
        assert_eq!(told("/../.."), "/");
        assert!(matches!(told("/a").as_str(), "/a" | "/b"));
    }
}
