//! How a tool fails: with the code, the causes and the hint that the command would print, as text for a model and as data for a program.

use anyhow::Error;
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::DaemonError;
use crate::exit::Facts;
use crate::format;

/// The most files that are named.
const FILES: usize = 20;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Refusal {
    /// A stable code; docs/errors has a page for each.
    code: Option<String>,
    /// What happened.
    message: String,
    /// Why, from the nearest to the deepest.
    causes: Vec<String>,
    /// What to do next, where there is something to do.
    hint: Option<String>,
    /// Files that are in the way, at most 20.
    files: Vec<String>,
}

impl<E: Into<Error>> From<E> for Refusal {
    fn from(error: E) -> Self {
        let error = error.into();
        let facts = Facts::of(&error);
        let chain = error.chain().skip(1).map(ToString::to_string);
        let body = error.chain().find_map(|cause| cause.downcast_ref::<DaemonError>());
        let files = body.map(|DaemonError(body)| body.files.as_slice()).unwrap_or_default();
        Self {
            code: facts.code,
            message: format::safe(&error.to_string()),
            causes: chain.chain(facts.more_causes).map(|cause| format::safe(&cause)).collect(),
            hint: facts.hint,
            files: files.iter().take(FILES).map(|file| format::safe_bytes(file.as_bytes())).collect(),
        }
    }
}

impl Refusal {
    fn text(&self) -> String {
        let code = self.code.as_ref().map(|code| format!("[{code}]")).unwrap_or_default();
        let mut lines = vec![format!("error{code}: {}", self.message)];
        lines.extend(self.causes.iter().map(|cause| format!("caused by: {cause}")));
        lines.extend(self.files.iter().map(|file| format!("in the way: {file}")));
        lines.extend(self.hint.iter().map(|hint| format!("hint: {hint}")));
        lines.join("\n")
    }
}

impl IntoCallToolResult for Refusal {
    fn into_call_tool_result(self) -> Result<CallToolResponse, rmcp::ErrorData> {
        let mut result = CallToolResult::error(vec![ContentBlock::text(self.text())]);
        result.structured_content = serde_json::to_value(&self).ok();
        Ok(result.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_daemon_refuses_is_passed_on_with_code_hint_and_files() {
        let body = api::ErrorBody {
            code: "IJ-L030".into(),
            message: "files were changed".into(),
            causes: vec!["by somebody\u{7}".into()],
            hint: Some("look first".into()),
            exit: 14,
            field: None,
            files: (0..30).map(|number| format!("f{number}").as_str().into()).collect(),
        };
        let refusal = Refusal::from(Error::from(DaemonError(body)));
        assert_eq!(refusal.files.len(), FILES);
        let text = refusal.text();
        assert!(
            text.starts_with(
                "error[IJ-L030]: files were changed\ncaused by: by somebody\\u{7}\nin the way: f0\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("\nhint: look first"), "{text}");
    }
}
