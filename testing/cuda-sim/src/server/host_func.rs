//! Host functions: a stream stops, the client runs a function, the stream goes on.
use std::sync::{Arc, PoisonError};

use super::process::HostFunc;
use super::{Process, lock};
use crate::code::{Code, Result};

/// Queues the stop.
pub(super) fn queue(process: &Arc<Process>, stream: u64, token: u64) -> Result<()> {
    lock(&process.host_funcs).insert(token, HostFunc::Queued);
    let owner = process.clone();
    let queued = process.enqueue(
        stream,
        Box::new(move || {
            let mut functions = lock(&owner.host_funcs);
            if let Some(function) = functions.get_mut(&token) {
                *function = HostFunc::Reached;
                owner.host_func_moved.notify_all();
            }
            // An entry that is gone: the function has returned, or the process has ended.
            while functions.contains_key(&token) {
                functions = owner.host_func_moved.wait(functions).unwrap_or_else(PoisonError::into_inner);
            }
            Ok(())
        }),
    );
    if queued.is_err() {
        lock(&process.host_funcs).remove(&token);
    }
    queued.map(drop)
}

/// Answers when the stream has stopped for this function.
pub(super) fn await_turn(process: &Arc<Process>, token: u64) -> Result<()> {
    let mut functions = lock(&process.host_funcs);
    loop {
        match functions.get(&token) {
            None => return Err(Code::INVALID_VALUE),
            Some(HostFunc::Reached) => return Ok(()),
            Some(HostFunc::Queued) => {
                functions = process.host_func_moved.wait(functions).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// The function has returned.
pub(super) fn done(process: &Arc<Process>, token: u64) {
    lock(&process.host_funcs).remove(&token);
    process.host_func_moved.notify_all();
}
