//! `way-out`: becomes pasta, with pipes of the ordinary size.
//!
//! A user's pipes may hold 16,384 pages together (`fs.pipe-user-pages-soft`). pasta keeps 32 pipes ready for connections between
//! two loopbacks, which we never ask it for, and makes each as large as it may: 8,240 pages for one session. Two sessions with
//! a way out used up what their user may have; from then on CRIU could not dump a pipe of any of that user's sessions, because it
//! gives its own pipe the size of the one that it copies. pasta has no option for this. It does take a no for an answer, so it gets
//! one: `fcntl(F_SETPIPE_SZ)` is not permitted to it, its pipes stay at 16 pages.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

use super::{Outcome, while_doing};

/// Words: the program and its own.
pub(super) fn way_out(words: Vec<OsString>) -> Outcome {
    let mut words = words.into_iter();
    let program = words.next().ok_or_else(|| "there is no program to run".to_owned())?;
    let filter = no_larger_pipes().map_err(while_doing("write the rule against large pipes"))?;
    seccompiler::apply_filter(&filter).map_err(while_doing("refuse large pipes"))?;
    Err(while_doing(format!("run `{}`", program.display()))(Command::new(&program).args(words).exec()))
}

fn no_larger_pipes() -> Result<BpfProgram, seccompiler::BackendError> {
    let resize = u64::from(libc::F_SETPIPE_SZ.unsigned_abs());
    let resize = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, resize)?;
    let rules = [(libc::SYS_fcntl, vec![SeccompRule::new(vec![resize])?])];
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let here = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules.into(), SeccompAction::Allow, refused, here)?.try_into()
}
