//! What the server is: its tools together, and what it says of itself.

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use rmcp::{ServerHandler, tool_handler};

use super::daemon::Daemon;

/// What a model is told before it sees the tools.
const INSTRUCTIONS: &str = "Live Jupyter kernels with a history. A session is one kernel with its processes, memory and files. \
A snapshot keeps all of that as it is while the kernel runs on; `restore` puts a session back to one, `branch` makes copies of a session \
that live side by side. So try things: take a snapshot before something risky and restore it if it goes wrong; or branch into several, \
run another idea in each, compare, and `keep_best`. Snapshots are never deleted by these tools. What code did outside of its session \
(network, databases, files elsewhere) is not undone by a restore. Branches take memory of their own for what they write: remove or \
suspend those that are not needed.";

/// The server of one client.
pub(super) struct Server {
    pub(super) daemon: Daemon,
    tools: ToolRouter<Self>,
}

impl Server {
    pub(super) fn new(daemon: Daemon) -> Self {
        Self { daemon, tools: Self::all_tools() }
    }

    fn all_tools() -> ToolRouter<Self> {
        Self::session_tools() + Self::cell_tools() + Self::history_tools() + Self::branch_tools()
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let itself = Implementation::new("infinijup", env!("CARGO_PKG_VERSION")).with_title("infinijup");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(itself)
            .with_instructions(INSTRUCTIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_it_costs_and_whether_it_can_be_undone() {
        let tools = Server::all_tools().list_all();
        let page = include_str!("../../../../../docs/agents.md");
        assert_eq!(tools.len(), 12);
        for tool in tools {
            let description = tool.description.unwrap_or_default();
            let hints = tool.annotations.unwrap_or_default();
            assert!(page.contains(&format!("| `{}` |", tool.name)), "docs/agents.md lacks {}", tool.name);
            assert!(description.contains("Cost: "), "{}: {description}", tool.name);
            assert!(
                hints.read_only_hint.is_some()
                    && hints.destructive_hint.is_some()
                    && hints.idempotent_hint.is_some(),
                "{}",
                tool.name
            );
            if hints.read_only_hint == Some(false) {
                assert!(description.contains("Undo: "), "{}: {description}", tool.name);
            }
            assert!(tool.output_schema.is_some(), "{}", tool.name);
        }
    }
}
