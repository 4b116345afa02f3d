//! All pipelines, as data: what docs/architecture.md shows of them is held here, and what whoever waits is told of.

use crate::branch::BRANCH;
use crate::pipeline::Stage;
use crate::remove::REMOVE;
use crate::restart::RESTART;
use crate::rollback::ROLLBACK;
use crate::snapshot::SNAPSHOT;
use crate::start::START;
use crate::stop::STOP;
use crate::suspend::{RESUME, SUSPEND};

/// A pipeline without what it knows.
pub(super) struct Listed {
    pub(super) name: &'static str,
    /// A row for each stage: phase, steps, way out.
    rows: Vec<[String; 3]>,
    /// Steps that no run leaves out.
    pub(super) always: Vec<&'static str>,
    /// What whoever waits is told of.
    pub(super) told: Vec<&'static str>,
}

fn list<C>(name: &'static str, stages: &[Stage<C>]) -> Listed {
    Listed {
        name,
        rows: stages.iter().map(Stage::row).collect(),
        always: stages.iter().flat_map(Stage::always).collect(),
        told: stages.iter().flat_map(Stage::told).collect(),
    }
}

/// All of them.
pub(super) fn pipelines() -> Vec<Listed> {
    vec![
        list("start", START),
        list("snapshot", SNAPSHOT),
        list("suspend", SUSPEND),
        list("resume", RESUME),
        list("rollback", ROLLBACK),
        list("branch", BRANCH),
        list("restart", RESTART),
        list("stop", STOP),
        list("remove", REMOVE),
    ]
}

#[test]
fn documentation_shows_every_pipeline_as_it_is() {
    let head = "| operation | the journal says | steps | cut short |\n|---|---|---|---|\n".to_owned();
    let table = pipelines().iter().fold(head, |table, pipeline| {
        let rows = pipeline
            .rows
            .iter()
            .map(|[phase, steps, out]| format!("| {} | {phase} | {steps} | {out} |\n", pipeline.name));
        table + &rows.collect::<String>()
    });
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/architecture.md");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(&format!("{table}\n")), "docs/architecture.md should show:\n{table}");
}
