//! `detect`: asks nobody but `/proc` and the driver, with the rights of whoever runs it.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use gpu_detect::{DetectError, Detector, Finding, Host, HostGpu, ProcessReport, Report, Strategy};
use serde::Serialize;

use super::detect_container;
use crate::args::DetectArgs;
use crate::context::Context;
use crate::format;
use crate::output::Style;

/// A driver that is well answers in a fraction of a second, in two if it has to wake the GPUs first.
const DRIVER_LIMIT: Duration = Duration::from_secs(10);
/// So many names tell enough in a line.
const MOST_NAMES: usize = 8;

/// What every report says of the machine. Without a driver it has no GPUs to name.
#[derive(Serialize)]
pub(super) struct Machine<'a> {
    driver: Option<&'a str>,
    cuda: Option<String>,
    gpus: &'a [HostGpu],
}

impl<'a> Machine<'a> {
    pub(super) fn of(host: Option<&'a Host>) -> Self {
        Self {
            driver: host.map(|host| host.driver_version.as_str()),
            cuda: host.map(|host| cuda(host.cuda_version)),
            gpus: host.map_or(&[], |host| &host.gpus),
        }
    }
}

#[derive(Serialize)]
struct Message<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    machine: Machine<'a>,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(context: &Context, args: &DetectArgs) -> Result<()> {
    #[cfg(feature = "forensic")]
    if let (Some(from), Some(to)) = (&args.capture, &args.out) {
        return forensic::capture(context, from, args.window, to);
    }
    let host = host(context);
    let detector = Detector::new(Path::new("/proc"), host.clone());
    if let Some(asked) = &args.container {
        return detect_container::run(context, asked, &args.place, &detector, host.as_ref());
    }
    let report = match args.pid {
        Some(pid) if args.tree => detector.tree(pid)?,
        Some(pid) => alone(&detector, pid)?,
        None => detector.all()?,
    };
    let message =
        Message { message_type: "gpu_report", machine: Machine::of(host.as_ref()), report: &report };
    let look = Look {
        style: context.printer.style(),
        verbose: context.global.verbose,
        gpus: message.machine.gpus,
        all: args.all,
    };
    context.printer.data(&message, &look.lines(&report))?;
    unreadable(context, &report);
    let looked_at = format::count(report.looked_at as u64);
    let using = report.processes.iter().filter(|process| process.uses_gpu).count();
    let took = report.took.as_secs_f64() * 1000.0;
    let of = if report.looked_at == 1 { "process" } else { "processes" };
    context.printer.note(&format!("{using} of {looked_at} {of} use a GPU; the look took {took:.1} ms"));
    Ok(())
}

/// A machine without a driver has no GPUs to name; `/proc` speaks for itself.
fn host(context: &Context) -> Option<Host> {
    match gpu_detect::host(DRIVER_LIMIT) {
        Ok(host) => {
            for trouble in &host.trouble {
                context.printer.warning(&format::safe(trouble));
            }
            Some(host)
        }
        Err(error @ (DetectError::NoDriver { .. } | DetectError::NotSupported { .. })) => {
            context.printer.detail(&error.to_string());
            None
        }
        Err(error) => {
            context
                .printer
                .warning(&format!("{}; GPUs have no names here", format::safe(&error.to_string())));
            None
        }
    }
}

fn alone(detector: &Detector, pid: i32) -> Result<Report> {
    let begun = Instant::now();
    let process = detector.process(pid)?;
    Ok(Report {
        strategy: process.strategy.clone(),
        processes: vec![process],
        unreadable: Vec::new(),
        looked_at: 1,
        took: begun.elapsed(),
    })
}

fn cuda(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

/// Programs find them in the data.
fn unreadable(context: &Context, report: &Report) {
    if report.unreadable.is_empty() || context.printer.is_json() {
        return;
    }
    let shown = if context.global.verbose { report.unreadable.len() } else { MOST_NAMES };
    let name = |of: &gpu_detect::Unreadable| format!("{} ({})", of.pid, format::safe(&of.comm));
    let mut names: Vec<String> = report.unreadable.iter().take(shown).map(name).collect();
    if report.unreadable.len() > shown {
        names.push(format!("{} more", report.unreadable.len() - shown));
    }
    let names = names.join(", ");
    context.printer.warning(&format!("could not look at {names}: only their owners and root may"));
}

/// Bytes, never a snapshot: see `gpu_detect::forensic`.
#[cfg(feature = "forensic")]
mod forensic {
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    use anyhow::{Context as _, Result};
    use gpu_detect::forensic::{Aperture, FileAperture, capture as copy};

    use crate::context::Context;
    use crate::format;

    /// The kernel and disks like pieces of this size.
    const PIECE: usize = 1 << 20;

    pub(super) fn capture(context: &Context, from: &Path, window: u64, to: &Path) -> Result<()> {
        let shown = |path: &Path| path.display().to_string();
        let file = File::open(from).with_context(|| format!("cannot open `{}`", shown(from)))?;
        let mut aperture =
            FileAperture::new(file, window).with_context(|| format!("cannot read `{}`", shown(from)))?;
        let mut out = File::create_new(to).with_context(|| format!("cannot create `{}`", shown(to)))?;
        let len = aperture.memory();
        let captured = copy(&mut aperture, 0, len, PIECE, &mut out)
            .and_then(|captured| out.flush().map(|()| captured))
            .with_context(|| format!("cannot copy `{}` to `{}`", shown(from), shown(to)))?;
        for gap in &captured.gaps {
            context.printer.warning(&format!(
                "{} bytes at {:#x} could not be read; zeros stand for them",
                gap.len, gap.start
            ));
        }
        context.printer.note(&format!(
            "copied {}; this is no snapshot and cannot be restored",
            format::size(captured.bytes)
        ));
        Ok(())
    }
}

/// How a report looks.
struct Look<'a> {
    style: Style,
    verbose: bool,
    gpus: &'a [HostGpu],
    all: bool,
}

impl Look<'_> {
    fn lines(&self, report: &Report) -> Vec<String> {
        let mut lines: Vec<String> =
            report.processes.iter().flat_map(|process| self.process(process)).collect();
        // For processes that have nothing to do with each other there is no common answer.
        if report.processes.len() > 1 && !self.all {
            lines.push(format!("{}: {}", self.style.bold("the whole tree"), self.strategy(&report.strategy)));
        }
        lines
    }

    fn process(&self, process: &ProcessReport) -> Vec<String> {
        let mut head =
            format!("{} {}", self.style.bold(&process.pid.to_string()), format::safe(&process.comm));
        for uuid in &process.gpus {
            let gpu = self.gpus.iter().find(|gpu| gpu.uuid == *uuid);
            head.push_str(&gpu.map_or_else(|| format!("  {uuid}"), |gpu| format!("  GPU {}", gpu.index)));
        }
        if process.vram_bytes > 0 {
            head.push_str(&format!("  {}", format::size(process.vram_bytes)));
        }
        head.push_str(&format!("  {}", self.strategy(&process.strategy)));
        let mut lines = vec![head];
        if self.verbose && !process.cgroup.is_empty() {
            lines.push(format!("  cgroup {}", self.style.faint(&format::safe(&process.cgroup))));
        }
        lines.extend(process.findings.iter().flat_map(|finding| self.finding(finding)));
        // The findings have said the rest.
        if let Strategy::Refuse { reasons } = &process.strategy {
            let blocking = process.findings.iter().filter(|finding| finding.blocks).count();
            lines.extend(reasons.iter().skip(blocking).map(|reason| format!("  {}", format::safe(reason))));
        }
        lines
    }

    fn finding(&self, finding: &Finding) -> Vec<String> {
        let title = finding.kind.title();
        let title = if finding.blocks { self.style.warn(title) } else { title.to_owned() };
        let mut lines = vec![format!("  {title} ({})", finding.confidence.word())];
        let shown = match (self.verbose, finding.blocks) {
            (true, _) => finding.evidence.len(),
            (false, blocks) => usize::from(blocks),
        };
        for line in finding.evidence.iter().take(shown) {
            lines.push(format!("    {}", self.style.faint(&format::safe(line))));
        }
        if let Some(way_out) = finding.way_out.as_ref().filter(|_| finding.blocks || self.verbose) {
            lines.push(format!("    way out: {way_out}"));
        }
        lines
    }

    fn strategy(&self, strategy: &Strategy) -> String {
        match strategy {
            Strategy::Skip => self.style.faint("nothing on a GPU"),
            Strategy::Driver => self.style.name("the driver can capture it"),
            Strategy::DriverToStorage => self.style.name("the driver can capture it, straight into storage"),
            Strategy::Refuse { .. } => self.style.bad("cannot be captured"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(verbose: bool) -> Vec<String> {
        let proc = concat!(env!("CARGO_MANIFEST_DIR"), "/../gpu-detect/tests/fixtures/forked");
        let gpus = vec![HostGpu { uuid: "GPU-0".to_owned(), ..HostGpu::default() }];
        let host = Host { gpus: gpus.clone(), ..Host::default() };
        let report = Detector::new(Path::new(proc), Some(host)).tree(4242).unwrap();
        let style = Style::plain();
        Look { style, verbose, gpus: &gpus, all: false }.lines(&report)
    }

    #[test]
    fn a_tree_is_shown_with_the_way_out() {
        let lines = look(false);
        assert_eq!(
            lines[..2],
            ["4242 python3  GPU 0  the driver can capture it", "  CUDA context (certain)"]
        );
        assert_eq!(
            lines[2..4],
            ["4300 python3  GPU 0  cannot be captured", "  GPU descriptors inherited by fork (certain)"]
        );
        assert!(lines[5].starts_with("    way out: start worker processes by `spawn`"), "{lines:#?}");
        assert_eq!(lines.last().unwrap(), "the whole tree: cannot be captured");
        assert_eq!(lines.len(), 9, "{lines:#?}");
    }

    #[test]
    fn more_is_said_if_asked() {
        let lines = look(true);
        assert!(lines.iter().any(|line| line.contains("/dev/nvidiactl ×3")), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("  cgroup /user.slice")), "{lines:#?}");
    }

    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!((cuda(12_080), cuda(13_000)), ("12.8".to_owned(), "13.0".to_owned()));
    }
}
