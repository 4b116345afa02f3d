//! `store verify`

use anyhow::Result;
use cas_core::verify::{Depth, VerifyReport};
use serde::Serialize;

use super::target;
use crate::args::VerifyArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;
use crate::objects::ManifestReferences;

#[derive(Serialize)]
struct Found<'a> {
    message_type: &'static str,
    problem: &'a str,
    data_lost: bool,
    code: Option<&'static str>,
    detail: Option<String>,
}

#[derive(Serialize)]
struct Summary<'a> {
    message_type: &'static str,
    clean: bool,
    problems: usize,
    affected_refs: &'a [String],
    packs: u64,
    objects: u64,
    objects_read: u64,
    bytes_read: u64,
    reachable_objects: u64,
}

pub(crate) fn run(context: &Context, args: &VerifyArgs) -> Result<()> {
    let store = target::open(context)?;
    let depth = if args.bytes { Depth::Bytes } else { Depth::Structure };
    let report = store.verify(&ManifestReferences::default(), depth, &context.meter)?;
    let printer = &context.printer;
    for problem in &report.problems {
        let detail = problem.error.as_ref().map(|error| base::explain(error));
        let found = Found {
            message_type: "problem",
            problem: &problem.sentence,
            data_lost: problem.data_lost,
            code: problem.error.as_ref().map(cas_core::StoreError::code),
            detail: detail.clone(),
        };
        let sort = if problem.data_lost { "lost" } else { "repairable" };
        let mut lines = vec![format!("{}: {}", printer.style().bad(sort), format::safe(&problem.sentence))];
        lines.extend(detail.map(|detail| format!("  {}", format::safe(&detail))));
        printer.data(&found, &lines)?;
    }
    let summary = Summary {
        message_type: "verify_summary",
        clean: report.is_clean(),
        problems: report.problems.len(),
        affected_refs: &report.affected_refs,
        packs: report.packs,
        objects: report.objects,
        objects_read: report.objects_read,
        bytes_read: report.bytes_read,
        reachable_objects: report.reachable,
    };
    let mut lines = summary_lines(&report, depth);
    let elsewhere = store.elsewhere()?;
    if !elsewhere.is_empty() {
        let snapshots = format::plural(elsewhere.len() as u64, "snapshot");
        lines.push(format!("the data of {snapshots} is in a remote; `infinijup remote verify` looks there"));
    }
    printer.data(&summary, &lines)?;
    match report.problems.len() {
        0 => Ok(()),
        count => Err(CliError::ProblemsFound { count }.into()),
    }
}

fn summary_lines(report: &VerifyReport, depth: Depth) -> Vec<String> {
    let mut lines = Vec::new();
    if !report.affected_refs.is_empty() {
        lines.push("these lead to something that cannot be read:".to_owned());
        lines.extend(report.affected_refs.iter().map(|name| format!("  {}", format::safe(name))));
    }
    lines.push(format!(
        "looked at {} with {}, {} of them needed",
        format::plural(report.packs, "pack"),
        format::plural(report.objects, "object"),
        format::count(report.reachable)
    ));
    match depth {
        Depth::Bytes => lines.push(format!(
            "read {} ({}) and compared the content with the ids",
            format::plural(report.objects_read, "object"),
            format::size(report.bytes_read)
        )),
        Depth::Structure => lines.push("the bulk of the data was not read; --bytes does that".to_owned()),
    }
    if report.is_clean() {
        lines.push("no problems found".to_owned());
    }
    lines
}
