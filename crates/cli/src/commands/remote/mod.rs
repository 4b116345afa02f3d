//! `remote`, `push`, `fetch`, `pull`, `clone`.
//!
//! They work on the store by themselves, as `import` does, whether or not a daemon runs: credentials are then those of whoever types the
//! command, and no daemon has to be told them.

mod manage;
mod receive;
mod sealed;
mod send;

use anyhow::Result;
use manifest::{Tag, Thread};

pub(super) use manage::run;
pub(super) use receive::{clone, fetch, pull};
pub(super) use send::push;

use crate::error::CliError;

/// The refs that names mean: threads first, then tags. `there` says which refs there are.
fn refs_of(names: &[String], there: &dyn Fn(&str) -> Result<bool>) -> Result<Vec<String>> {
    let mut refs = Vec::with_capacity(names.len());
    for name in names {
        let candidates = if name.starts_with(Thread::PREFIX) || name.starts_with(Tag::PREFIX) {
            vec![name.clone()]
        } else {
            vec![format!("{}{name}", Thread::PREFIX), format!("{}{name}", Tag::PREFIX)]
        };
        let mut found = None;
        for candidate in candidates {
            if found.is_none() && there(&candidate)? {
                found = Some(candidate);
            }
        }
        refs.push(found.ok_or_else(|| CliError::RevisionNotFound { revision: name.clone() })?);
    }
    Ok(refs)
}
