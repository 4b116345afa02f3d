//! `diff`

use anyhow::Result;
use api::{Change, Diff, FileDiff, MappingDiff, ProcessDiff, Variable, VariableDiff};
use history::{ChangedText, UserStore};
use serde::Serialize;

use super::online::{Message, show};
use super::target;
use crate::args::DiffArgs;
use crate::context::Context;
use crate::output::Style;
use crate::{format, lines, objects, revision};

/// What is printed as JSON.
#[derive(Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    diff: &'a Diff,
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<FileLines>>,
}

/// The lines of a file that changed.
#[derive(Serialize)]
struct FileLines {
    path: api::Text,
    /// As `diff -u` shows them; null of what is no text.
    lines: Option<Vec<String>>,
}

pub(crate) fn run(context: &Context, args: &DiffArgs) -> Result<()> {
    let store = target::open(context)?;
    let (a, b) = (revision::resolve(&store, Some(&args.a))?, revision::resolve(&store, Some(&args.b))?);
    let store = UserStore::over(store);
    let diff = store.diff(&a, &b).map_err(objects::of_history)?;
    let texts =
        if args.text { Some(store.changed_texts(&a, &b).map_err(objects::of_history)?) } else { None };
    let texts: Option<Vec<FileLines>> = texts.map(|texts| texts.into_iter().map(compared).collect());
    let style = context.printer.style();
    let mut lines = summary(style, &diff);
    lines.extend(texts.iter().flatten().flat_map(|file| of_file(style, file)));
    let content = &Told { diff: &diff, texts };
    Ok(context.printer.data(&Message { message_type: "diff", content }, &lines)?)
}

fn compared(file: ChangedText) -> FileLines {
    let lines = file.texts.map(|(before, after)| lines::unified(&before, &after));
    FileLines { path: file.path.into(), lines }
}

fn of_file(style: Style, file: &FileLines) -> Vec<String> {
    let name = show::text(&file.path);
    let Some(lines) = &file.lines else {
        return vec![String::new(), format!("{name} is not text, or too long to be compared")];
    };
    if lines.is_empty() {
        return vec![String::new(), format!("{name}: no line changed")];
    }
    // A tab moves nothing but what follows it.
    let plain = |line: &str| line.split('\t').map(format::safe).collect::<Vec<_>>().join("\t");
    let painted = lines.iter().map(|line| match line.chars().next() {
        Some('-') => style.bad(&plain(line)),
        Some('+') => style.name(&plain(line)),
        Some('@') => style.faint(&plain(line)),
        _ => plain(line),
    });
    let head = [String::new(), style.bold(&format!("--- {name}")), style.bold(&format!("+++ {name}"))];
    head.into_iter().chain(painted).collect()
}

fn summary(style: Style, diff: &Diff) -> Vec<String> {
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
