//! The server's side of the requests of `wire::Checkpoint`.
use std::sync::Arc;

use serde_json::Value;

use super::{Process, Server};
use crate::code::Result;
use crate::wire::Checkpoint;

pub(super) fn handle(_server: &Arc<Server>, _process: &Arc<Process>, request: Checkpoint) -> Result<Value> {
    match request {
        Checkpoint::Nothing => Ok(Value::Null),
    }
}
