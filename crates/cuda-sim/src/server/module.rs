//! The server's side of the requests of `wire::Module`.
use std::sync::Arc;

use serde_json::Value;

use super::{Process, Server};
use crate::code::Result;
use crate::wire::Module;

pub(super) fn handle(_server: &Arc<Server>, _process: &Arc<Process>, request: Module) -> Result<Value> {
    match request {
        Module::Nothing => Ok(Value::Null),
    }
}
