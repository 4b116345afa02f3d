//! What images of a container ask for, in the words of the crate that holds it against the specification.

use std::path::{Path, PathBuf};

use checkpoint_criu::images::{Credentials, Images, ThreadCore};
use containers::back::{Claimed, ClaimedMount, ClaimedThread};
use lifecycle::Result;

/// `SECCOMP_FILTER_FLAG_TSYNC`.
const FOR_ALL_THREADS: u32 = 1;

/// What they ask for.
pub(super) fn claimed(images: &Path) -> Result<Claimed> {
    let images = Images::open(images)?;
    let mut found = Claimed::default();
    for (_, mounts) in images.mountpoints()? {
        found.mounts.extend(mounts.iter().map(|mount| ClaimedMount {
            at: absolute(mount.mountpoint()),
            kind: mount.fs_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            given_as: mount.external_key().map(PathBuf::from),
        }));
    }
    let filters = images.seccomp()?.map(|all| all.filters).unwrap_or_default();
    for process in images.pstree()? {
        let of_first = thread_of(&images, process.pid)?;
        // CRIU writes a filter that all threads have down for the first one alone, and gives it to all again.
        let for_all = of_first.and_then(|first| filters.get(usize::try_from(first.seccomp_filter?).ok()?));
        let for_all = for_all.is_some_and(|filter| filter.flags.unwrap_or(0) & FOR_ALL_THREADS != 0);
        for thread in process.threads {
            let Some(of_thread) = thread_of(&images, thread)? else { continue };
            let credentials = of_thread.credentials.unwrap_or_default();
            found.threads.push(ClaimedThread {
                who: format!("thread {thread} of process {}", process.pid),
                bounding: bits(&credentials.cap_bnd),
                has: has(&credentials),
                no_new_privileges: credentials.no_new_privs.unwrap_or(0) != 0,
                filtered: for_all || of_thread.seccomp_mode.unwrap_or(0) != 0,
            });
        }
    }
    Ok(found)
}

/// What there is of a thread; `None` for one that is over.
fn thread_of(images: &Images, thread: u32) -> Result<Option<ThreadCore>> {
    // A zombie has no such image; what else is missing is CRIU's to complain about.
    if !images.dir().join(format!("core-{thread}.img")).exists() {
        return Ok(None);
    }
    Ok(images.core(thread)?.thread)
}

/// CRIU writes `./data` for `/data`.
fn absolute(path: &Path) -> PathBuf {
    let below = path.strip_prefix(".").or_else(|_| path.strip_prefix("/")).unwrap_or(path);
    Path::new("/").join(below)
}

/// What a thread has in any set but the bounding one.
fn has(credentials: &Credentials) -> u64 {
    let Credentials { cap_inh, cap_prm, cap_eff, cap_amb, .. } = credentials;
    [cap_inh, cap_prm, cap_eff, cap_amb].into_iter().fold(0, |all, set| all | bits(set))
}

/// Words of 32 bits, the low one first.
fn bits(words: &[u32]) -> u64 {
    let low = words.first().copied().map_or(0, u64::from);
    words.get(1).copied().map_or(low, |high| (u64::from(high) << 32) | low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_as_the_container_sees_them() {
        assert_eq!(absolute(Path::new("./")), Path::new("/"));
        assert_eq!(absolute(Path::new("./data")), Path::new("/data"));
        assert_eq!(absolute(Path::new("/data")), Path::new("/data"));
    }

    #[test]
    fn capabilities_are_read_from_both_words() {
        assert_eq!(bits(&[1, 1]), (1 << 32) | 1);
        let credentials = Credentials { cap_amb: vec![2], cap_eff: vec![0, 4], ..Credentials::default() };
        assert_eq!(has(&credentials), (4 << 32) | 2);
    }
}
