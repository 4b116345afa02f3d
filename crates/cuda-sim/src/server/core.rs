//! The server's side of the requests of `wire::Core`.
use std::sync::Arc;

use serde_json::Value;

use super::{Process, Server, body};
use crate::code::{Code, Result};
use crate::wire::Core;

pub(super) fn handle(server: &Arc<Server>, _process: &Arc<Process>, request: Core) -> Result<Value> {
    match request {
        Core::Hello => body(server.host()),
        Core::Info { gpu } => body(server.gpu(gpu)?.memory()),
        _ => Err(Code::NOT_SUPPORTED),
    }
}
