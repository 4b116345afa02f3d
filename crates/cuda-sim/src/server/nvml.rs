//! The server's side of the requests of `wire::Nvml`.
use std::sync::Arc;

use serde_json::Value;

use super::{Process, Server};
use crate::code::Result;
use crate::wire::Nvml;

pub(super) fn handle(_server: &Arc<Server>, _process: &Arc<Process>, request: Nvml) -> Result<Value> {
    match request {
        Nvml::Nothing => Ok(Value::Null),
    }
}
