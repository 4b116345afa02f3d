//! `doctor`: all but the first item is the daemon's answer, because only it has the rights to try.

use anyhow::Result;
use api::{Doctor, Finding, FindingState, Version};

use super::client::Call;
use super::{Message, Online};
use crate::error::CliError;
use crate::format;

pub(super) fn run(online: &Online<'_>) -> Result<()> {
    let found = match online.get::<Version>("/v1/version") {
        Ok(version) => {
            let answer = online.runtime.block_on(online.client.answer::<Doctor>(&Call::get("/v1/doctor")))?;
            with_daemon(online, version, answer)
        }
        Err(error) => match error.downcast::<CliError>()? {
            CliError::NoDaemon { source, .. } => without_daemon(online, &source),
            other => return Err(other.into()),
        },
    };
    let lines: Vec<String> = found.findings.iter().flat_map(|finding| lines(online, finding)).collect();
    online.printer().data(&Message { message_type: "doctor", content: &found }, &lines)?;
    if found.works {
        online.printer().note("snapshots work here");
        return Ok(());
    }
    let failed = found.findings.iter().filter(|finding| finding.state == FindingState::Fail);
    let items = failed.map(|finding| finding.item.clone()).collect();
    Err(CliError::MachineUnfit { items }.into())
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

fn without_daemon(online: &Online<'_>, why: &std::io::Error) -> Doctor {
    let evidence = format!("nobody answers at {}: {why}", online.client.socket().display());
    let fix =
        "start it: `systemctl start infinijupd`; what else this machine can do is seen by the daemon only";
    let state = FindingState::Fail;
    let finding = Finding { item: "daemon".into(), state, evidence, fix: Some(fix.into()) };
    Doctor { works: false, findings: vec![finding] }
}

/// Item, state and evidence in a line, and the fix below.
fn lines(online: &Online<'_>, finding: &Finding) -> Vec<String> {
    let style = online.printer().style();
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
