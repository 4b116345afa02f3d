//! `remote`, `push`, `fetch`, `pull`, `clone`.
//!
//! They work on the store by themselves, as `import` does, whether or not a daemon runs: credentials are then those of whoever types the
//! command, and no daemon has to be told them.

mod manage;
mod receive;
mod sealed;
mod send;

use std::sync::Arc;

use anyhow::Result;
use cas_core::Store;
use manifest::{Tag, Thread};
use remote::{Limited, Named, Objects, Patience, Remote};

pub(super) use manage::run;
pub(super) use receive::{clone, fetch, pull};
pub(super) use send::push;

use crate::error::CliError;

/// The server of a remote.
fn server(named: &Named, limit_rate: Option<u64>) -> Result<Arc<dyn Objects>> {
    let objects: Arc<dyn Objects> = Arc::new(named.address.open()?);
    Ok(match limit_rate {
        Some(rate) => Arc::new(Limited::new(objects, rate)),
        None => objects,
    })
}

fn open(store: &Arc<Store>, named: &Named, limit_rate: Option<u64>) -> Result<Remote> {
    Ok(Remote::open(server(named, limit_rate)?, store.clone(), Patience::default())?)
}

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
