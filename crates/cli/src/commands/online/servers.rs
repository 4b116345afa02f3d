//! `servers`

use anyhow::Result;
use api::Servers;

use super::client::session_path;
use super::{Message, OfSession, Online};
use crate::args::ServersArgs;

pub(super) fn run(online: &Online<'_>, args: &ServersArgs) -> Result<()> {
    let session = args.which.session.as_str();
    let found: Servers = online.get(format!("{}/servers", session_path(session)))?;
    let lines: Vec<String> = found
        .servers
        .iter()
        .map(|server| format!("port {:<5}  http://127.0.0.1:{}/", server.port, server.outside_port))
        .collect();
    let message = Message { message_type: "servers", content: OfSession { session, content: &found } };
    Ok(online.printer().data(&message, &lines)?)
}
