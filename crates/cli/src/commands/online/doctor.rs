//! `doctor`: all but the first item is the daemon's answer, because it tries what it would do.

use anyhow::Result;
use api::{Doctor, Finding, FindingState, Version};

use super::{Message, Online};
use crate::context::Context;
use crate::error::CliError;
use crate::exit::Facts;
use crate::format;
use crate::output::Printer;

pub(super) fn run(context: &Context) -> Result<()> {
    let printer = &context.printer;
    let found = ask_or_explain(context)?;
    let verdict = if found.works { "snapshots work here" } else { "snapshots do not work here" };
    let items = found.findings.iter().flat_map(|finding| lines(printer, finding));
    let lines: Vec<String> = std::iter::once(verdict.to_owned()).chain(items).collect();
    printer.data(&Message { message_type: "doctor", content: &found }, &lines)?;
    if found.works {
        return Ok(());
    }
    let failed = found.findings.iter().filter(|finding| finding.state == FindingState::Fail);
    let items = failed.map(|finding| finding.item.clone()).collect();
    Err(CliError::MachineUnfit { items }.into())
}

/// What was found; that there is no daemon is a finding, too.
pub(in crate::commands) fn ask_or_explain(context: &Context) -> Result<Doctor> {
    match ask(context) {
        Ok(found) => Ok(found),
        Err(error) => match error.downcast::<CliError>()? {
            error @ (CliError::NoDaemon { .. }
            | CliError::NotStarted { .. }
            | CliError::NoDaemonProgram { .. }) => Ok(without_daemon(&error.into())),
            other => Err(other.into()),
        },
    }
}

fn ask(context: &Context) -> Result<Doctor> {
    let online = Online::new(context)?;
    let version = online.get::<Version>("/v1/version")?;
    let answer = online.get::<Doctor>("/v1/doctor")?;
    Ok(with_daemon(&online, version, answer))
}

fn with_daemon(online: &Online<'_>, version: Version, answer: Doctor) -> Doctor {
    let socket = online.client.socket().display();
    let evidence = format!("infinijupd {} answers at {socket}", version.version);
    let (state, evidence, fix) = match version.refusal {
        Some(refusal) => {
            (FindingState::Fail, format!("{evidence}, but refuses work: {}", refusal.message), refusal.hint)
        }
        None => (FindingState::Ok, evidence, None),
    };
    let works = answer.works && state == FindingState::Ok;
    let mut findings = vec![Finding { item: "daemon".into(), state, evidence, fix }];
    findings.extend(answer.findings);
    Doctor { works, findings }
}

fn without_daemon(error: &anyhow::Error) -> Doctor {
    let facts = Facts::of(error);
    let chain = error.chain().map(ToString::to_string).chain(facts.more_causes);
    let evidence = chain.collect::<Vec<_>>().join(": ");
    let finding = Finding { item: "daemon".into(), state: FindingState::Fail, evidence, fix: facts.hint };
    Doctor { works: false, findings: vec![finding] }
}

/// Item, state and evidence in a line, and the fix below.
pub(super) fn lines(printer: &Printer, finding: &Finding) -> Vec<String> {
    let style = printer.style();
    let state = match finding.state {
        FindingState::Ok => style.name("ok  "),
        FindingState::Warn => style.warn("warn"),
        FindingState::Fail => style.bad("fail"),
    };
    let (item, evidence) = (format::safe(&finding.item), format::safe(&finding.evidence));
    let mut lines = vec![format!("{state}  {}: {evidence}", style.bold(&item))];
    for fix in finding.fix.iter().flat_map(|fix| fix.lines()) {
        lines.push(format!("      fix: {}", format::safe(fix)));
    }
    lines
}
