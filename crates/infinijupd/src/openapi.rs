//! The OpenAPI document, from the types of `api` and the handlers.
//!
//! `docs/openapi.json` is a copy of it, and a test compares the two.

use utoipa::OpenApi;

use crate::routes::{control, files, history, jobs, log, sessions, system};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "infinijupd",
        description = "Sessions of live processes: snapshot, roll back, branch, suspend and resume. Spoken over a Unix \
                       socket to the user whose daemon it is. See docs/daemon.md.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "http://localhost", description = "the socket infinijup/infinijupd.sock in the runtime directory; the host's name does not matter")),
    paths(
        system::version, system::daemon, system::stop, system::doctor, system::openapi, system::store, system::metrics,
        history::history, history::diff, history::commit, history::check, history::check_mapped, history::trust, history::notebook, history::variables, history::tag,
        history::untag, history::forget, history::gc, files::of_session, files::of_snapshot, files::copy_out,
        sessions::list, sessions::start, sessions::show, sessions::remove, sessions::history,
        sessions::servers, log::log, sessions::snapshot, sessions::rollback, sessions::branch,
        sessions::branch_snapshot, sessions::suspend, sessions::resume, sessions::stop, files::text,
        control::change, control::give_up, control::signal, control::restart, sessions::exec, sessions::attach, sessions::checkpoint, sessions::restore,
        jobs::list, jobs::show, jobs::job_events, jobs::events,
    ),
)]
struct Document;

/// The document, as JSON.
pub fn document() -> String {
    // It is made of our own types, and none of them has a key that is not a string.
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let made = document();
        if std::env::var_os("INFINIJUP_UPDATE").is_some() {
            std::fs::write(path, &made).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == made,
            "docs/openapi.json is not up to date: run this test with INFINIJUP_UPDATE=1"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document: serde_json::Value = serde_json::from_str(&document()).unwrap();
        let text = document.to_string();
        for (at, prefix) in text.match_indices("#/components/schemas/") {
            let name = text[at + prefix.len()..].split('"').next().unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{name}");
        }
    }
}
