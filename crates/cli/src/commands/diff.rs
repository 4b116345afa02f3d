//! `diff`

use anyhow::Result;
use api::{Change, Diff, FileDiff, MappingDiff, ProcessDiff, Variable, VariableDiff};
use history::UserStore;

use super::online::{Message, show};
use super::target;
use crate::args::DiffArgs;
use crate::context::Context;
use crate::output::Style;
use crate::{format, objects, revision};

pub(crate) fn run(context: &Context, args: &DiffArgs) -> Result<()> {
    let store = target::open(context)?;
    let (a, b) = (revision::resolve(&store, Some(&args.a))?, revision::resolve(&store, Some(&args.b))?);
    let diff = UserStore::over(store).diff(&a, &b).map_err(objects::of_history)?;
    let lines = lines(context.printer.style(), &diff);
    Ok(context.printer.data(&Message { message_type: "diff", content: &diff }, &lines)?)
}

fn lines(style: Style, diff: &Diff) -> Vec<String> {
    let mut lines = vec![format!("from {} to {}", show::short(&diff.a), show::short(&diff.b))];
    let mut section = |title: &str, rows: Vec<Vec<String>>, right: &[bool]| {
        if !rows.is_empty() {
            lines.push(style.bold(title));
            lines.extend(format::table(&rows, right).into_iter().map(|line| format!("  {line}")));
        }
    };
    section("processes", diff.processes.iter().map(process).collect(), &[false, true]);
    section("memory", diff.memory.iter().map(mapping).collect(), &[false, true, true]);
    section("files", diff.files.iter().map(file).collect(), &[false, true, true]);
    section("variables", diff.variables.iter().flatten().map(variable).collect(), &[]);
    let totals = &diff.totals;
    lines.push(format!(
        "{} of memory, {}, {}",
        format::size(totals.memory_bytes),
        format::plural(totals.files, "file"),
        if totals.processes == 1 {
            "1 process".to_owned()
        } else {
            format!("{} processes", totals.processes)
        }
    ));
    lines
}

fn sign(change: Change) -> String {
    match change {
        Change::Added => "+",
        Change::Removed => "-",
        Change::Changed => "~",
    }
    .to_owned()
}

fn process(process: &ProcessDiff) -> Vec<String> {
    vec![sign(process.change), process.pid.to_string(), format::safe(&process.name)]
}

fn mapping(mapping: &MappingDiff) -> Vec<String> {
    let place = format!("{:x}-{:x}", mapping.start, mapping.end);
    vec![
        sign(mapping.change),
        mapping.pid.to_string(),
        format::size(mapping.changed_bytes),
        place,
        show::text(&mapping.name),
    ]
}

fn file(file: &FileDiff) -> Vec<String> {
    let size = |bytes: Option<u64>| bytes.map(format::size).unwrap_or_default();
    vec![sign(file.change), size(file.before_bytes), size(file.after_bytes), show::text(&file.path)]
}

fn variable(variable: &VariableDiff) -> Vec<String> {
    let told = |one: &Variable| format!("{} {}", format::safe(&one.kind), format::safe(&one.summary));
    let change = match (&variable.before, &variable.after) {
        (Some(before), Some(after)) => format!("{} -> {}", told(before), told(after)),
        (before, after) => before.iter().chain(after).map(told).collect(),
    };
    vec![sign(variable.change), format::safe(&variable.name), change]
}
