//! Moments at which something has come true on the machine: a line is on disk, processes were made or ended, a commit is named.
//!
//! A daemon can be killed between any two of them, and recovery must cope. So each is marked by [`happened`], which does nothing; in the
//! tests of `crate::trial` the process kills itself there, once at each, and the list of moments is the one that the pipelines
//! themselves pass: a new step is covered as soon as it is written.

/// Something has come true.
#[cfg(not(test))]
pub(crate) fn happened(_moment: &str) {}

/// Something has come true, and the daemon may end here.
#[cfg(test)]
pub(crate) fn happened(moment: &str) {
    crate::trial::fuse::pass(moment);
}
