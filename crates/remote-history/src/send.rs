//! Threads and tags are sent to a remote, and it is written down how that went.

use std::sync::Arc;

use cas_core::Store;
use cas_core::progress::Progress;
use manifest::stored::ManifestReferences;
use remote::{LastPush, Named, PushReport, Pushed, RemoteError, Result};

use crate::connect;

/// What is sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sending<'a> {
    /// These threads and tags, `threads/main`; all if there are none.
    pub names: &'a [String],
    /// Also if somebody else has moved them elsewhere.
    pub force: bool,
    /// No more than so many bytes a second.
    pub limit_rate: Option<u64>,
    /// Nobody asked for it: then what cannot be sent because somebody else has moved it does not keep the rest from being sent.
    pub by_itself: bool,
}

/// Sends what the remote lacks, and moves its threads and tags.
pub fn send(
    store: &Arc<Store>,
    named: &Named,
    sending: Sending<'_>,
    progress: &dyn Progress,
) -> Result<PushReport> {
    let sent = try_send(store, named, sending, progress);
    let noted = LastPush::note(store, named, (sending.by_itself, sending.names.is_empty()), sent.as_ref());
    // Why it was not sent matters more than that this could not be written down.
    let report = sent?;
    noted.map(|()| report)
}

fn try_send(
    store: &Arc<Store>,
    named: &Named,
    sending: Sending<'_>,
    progress: &dyn Progress,
) -> Result<PushReport> {
    if !store.format().encrypted && !named.unencrypted {
        return Err(RemoteError::Unencrypted);
    }
    let mut pushed: Vec<Pushed> = named.chosen(store, sending.names, sending.force)?;
    let remote = connect(store, named, sending.limit_rate)?;
    // Where something was forgotten, history ends: what is behind it has names of its own, or none.
    let references = ManifestReferences::ending_at_gaps();
    let mut in_the_way = None;
    let report = loop {
        match remote.push(&pushed, &references, false, progress) {
            Err(RemoteError::RefMoved { name, found }) if sending.by_itself && pushed.len() > 1 => {
                pushed.retain(|one| one.name != name);
                in_the_way.get_or_insert(RemoteError::RefMoved { name, found });
            }
            done => break done?,
        }
    };
    named.arrived(store, &pushed, &report)?;
    in_the_way.map_or(Ok(report), Err)
}
