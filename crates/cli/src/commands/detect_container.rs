//! `detect --container`: finds a container by asking the runtimes, and says what stands in the way of a snapshot of it.

use anyhow::Result;
use containers::{Container, Examination, Finding, Places, Query, Weight};
use gpu_detect::{Detector, Host};
use serde::Serialize;
use serde_json::{Value, json};

use super::detect::Machine;
use crate::args::ContainerPlace;
use crate::context::Context;
use crate::format;
use crate::output::Style;

#[derive(Serialize)]
struct Message<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    container: Value,
    #[serde(flatten)]
    examination: &'a Examination,
}

pub(super) fn run(
    context: &Context,
    asked: &str,
    place: &ContainerPlace,
    detector: &Detector,
    host: Option<&Host>,
) -> Result<()> {
    let query = Query::parse(asked)?;
    let container = containers::find(&Places::here(&place.narrowed()), &query)?;
    let examination = containers::examine(&container, detector)?;
    let message = Message {
        message_type: "container_report",
        machine: Machine::of(host),
        container: described(&container)?,
        examination: &examination,
    };
    let look = Look { style: context.printer.style(), verbose: context.global.verbose };
    context.printer.data(&message, &look.lines(&container, &examination))?;
    let count = examination.processes.len();
    let processes = format!("{count} {}", if count == 1 { "process" } else { "processes" });
    let took = examination.took.as_secs_f64() * 1000.0;
    context.printer.note(&format!("{processes}; the look took {took:.1} ms"));
    Ok(())
}

/// Without the specification as a whole: the environment in it often holds secrets, and reports are passed on.
fn described(container: &Container) -> Result<Value> {
    let mut value = serde_json::to_value(container)?;
    if let Some(fields) = value.as_object_mut() {
        let specification = &container.specification;
        fields.remove("specification");
        fields.insert("mounts".to_owned(), json!(specification.mounts()));
        fields.insert("devices".to_owned(), json!(specification.devices()));
        fields.insert("namespaces".to_owned(), json!(specification.namespaces()));
    }
    Ok(value)
}

/// How a report looks.
struct Look {
    style: Style,
    verbose: bool,
}

impl Look {
    fn lines(&self, container: &Container, examination: &Examination) -> Vec<String> {
        let mut head = format!("{}  {}", self.style.bold(container.called()), container.status.word());
        if let Some(pid) = container.pid {
            head.push_str(&format!("  process {pid}"));
        }
        let mut lines = vec![head, format!("  {}", self.style.faint(&format::safe(&container.to_string())))];
        if let Some(image) = &container.image {
            let digest = image.digest.as_deref().unwrap_or("of unknown digest");
            lines.push(format!(
                "  image {} {}",
                format::safe(&image.name),
                self.style.faint(&format::safe(digest))
            ));
        }
        if let Some(cgroup) = container.cgroup.as_ref().filter(|_| self.verbose) {
            lines.push(format!("  cgroup {}", self.style.faint(&format::safe(cgroup))));
        }
        lines.extend(examination.findings.iter().flat_map(|finding| self.finding(finding)));
        lines.push(if examination.can_be_captured {
            self.style.name("it can be captured")
        } else {
            self.style.bad("it cannot be captured as it is")
        });
        lines
    }

    fn finding(&self, finding: &Finding) -> Vec<String> {
        let what = format::safe(&finding.what);
        let mut lines = vec![match finding.weight {
            Weight::Blocks => format!("  {}", self.style.bad(&what)),
            Weight::Warning => format!("  {}", self.style.warn(&what)),
            Weight::Note => format!("  {what}"),
        }];
        if self.verbose || finding.weight != Weight::Note {
            let evidence = finding.evidence.iter().map(|line| self.style.faint(&format::safe(line)));
            lines.extend(evidence.map(|line| format!("    {line}")));
            lines.extend(
                finding.way_out.iter().map(|way_out| format!("    way out: {}", format::safe(way_out))),
            );
        }
        lines
    }
}
