//! From what was seen to what it means.
//!
//! Each finding is a function of its own, from everything that was read of one process (and of its parent, and of the machine)
//! to a finding or nothing. What blocks is what NVIDIA says the driver's checkpoint cannot do, or what CRIU cannot dump once
//! the driver has let go: it is refused before anything is locked, because a process that fails half way is lost.

mod context;
mod sharing;
mod special;

use crate::host::{Host, HostGpu};
use crate::object::Object;
use crate::report::{Confidence, Finding, Kind, ProcessReport, Strategy};
use crate::seen::Seen;

/// The first driver with the checkpoint calls, as CUDA writes versions: 12.8 came with 570.
const FIRST_CUDA: u32 = 12_080;
/// The first with custom storage: 13.4.
const STORAGE_CUDA: u32 = 13_040;
/// As many lines of one sort tell enough.
const MOST_LINES: usize = 6;

/// All that a finding may rest on.
pub(crate) struct Case<'a> {
    seen: &'a Seen,
    parent: Option<&'a Seen>,
    host: Option<&'a Host>,
    /// The GPUs it has open.
    gpus: Vec<&'a HostGpu>,
}

/// Judges one process.
pub(crate) fn judge(seen: &Seen, parent: Option<&Seen>, host: Option<&Host>) -> ProcessReport {
    let case = Case { seen, parent, host, gpus: gpus(seen, host) };
    let bytes = |gpu: &&HostGpu| {
        gpu.processes.iter().find(|using| is(using.pid, seen.pid)).and_then(|using| using.bytes)
    };
    let uses_gpu = seen.device_files().next().is_some()
        || seen.device_mappings().next().is_some()
        || case.gpus.iter().filter_map(bytes).any(|bytes| bytes > 0);
    let findings: Vec<Finding> = if uses_gpu || seen.matters() {
        [context::all(&case), sharing::all(&case), special::all(&case)].into_iter().flatten().collect()
    } else {
        Vec::new()
    };
    ProcessReport {
        pid: seen.pid,
        comm: seen.comm.clone(),
        cgroup: seen.cgroup.clone(),
        uses_gpu,
        gpus: case.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
        vram_bytes: case.gpus.iter().filter_map(bytes).sum(),
        strategy: strategy(uses_gpu, &findings, host),
        findings,
    }
}

fn gpus<'a>(seen: &Seen, host: Option<&'a Host>) -> Vec<&'a HostGpu> {
    let opened = |minor| {
        let object = Object::Gpu(minor);
        seen.maps(object) || seen.files.iter().any(|file| file.object == object)
    };
    host.iter()
        .flat_map(|host| &host.gpus)
        .filter(|gpu| opened(gpu.minor) || gpu.processes.iter().any(|using| is(using.pid, seen.pid)))
        .collect()
}

fn is(by_driver: u32, pid: i32) -> bool {
    u32::try_from(pid).is_ok_and(|pid| pid == by_driver)
}

fn strategy(uses_gpu: bool, findings: &[Finding], host: Option<&Host>) -> Strategy {
    let mut reasons: Vec<String> = findings.iter().filter(|finding| finding.blocks).map(reason).collect();
    if !uses_gpu && reasons.is_empty() {
        return Strategy::Skip;
    }
    // 0 is a driver that does not say: whether it can is found out when it is asked to.
    let cuda = host.map_or(0, |host| host.cuda_version);
    if (1..FIRST_CUDA).contains(&cuda) {
        let driver = host.map(|host| host.driver_version.as_str()).unwrap_or_default();
        reasons
            .push(format!("the driver {driver} is too old: its checkpoint calls came with 570 (CUDA 12.8)"));
    }
    match reasons.is_empty() {
        false => Strategy::Refuse { reasons },
        true if cuda >= STORAGE_CUDA => Strategy::DriverToStorage,
        true => Strategy::Driver,
    }
}

fn reason(finding: &Finding) -> String {
    let (title, confidence) = (finding.kind.title(), finding.confidence.word());
    let evidence = finding.evidence.first().map_or("", String::as_str);
    format!("{title} ({confidence}): {evidence}")
}

/// One that cannot be taken refuses all; what is left of the others is the most that any needs.
pub(crate) fn together(processes: &[ProcessReport], unreadable: &[String]) -> Strategy {
    let mut reasons: Vec<String> = unreadable.to_vec();
    for process in processes {
        if let Strategy::Refuse { reasons: own } = &process.strategy {
            let whose = |reason| format!("process {} ({}): {reason}", process.pid, process.comm);
            reasons.extend(own.iter().map(whose));
        }
    }
    let any = |strategy: &Strategy| processes.iter().any(|process| process.strategy == *strategy);
    match () {
        () if !reasons.is_empty() => Strategy::Refuse { reasons },
        () if any(&Strategy::DriverToStorage) => Strategy::DriverToStorage,
        () if any(&Strategy::Driver) => Strategy::Driver,
        () => Strategy::Skip,
    }
}

/// A finding that is put together line by line, and is one only if there is a line.
struct Draft {
    kind: Kind,
    confidence: Option<Confidence>,
    evidence: Vec<String>,
    blocks: bool,
}

impl Draft {
    const fn of(kind: Kind) -> Self {
        Self { kind, confidence: None, evidence: Vec::new(), blocks: false }
    }

    /// One more line; the surest decides.
    fn add(&mut self, confidence: Confidence, line: impl Into<String>) {
        self.confidence = self.confidence.max(Some(confidence));
        self.evidence.push(line.into());
    }

    /// Many lines of one sort, of which the first few are kept.
    fn add_some(&mut self, confidence: Confidence, lines: &[String]) {
        for line in lines.iter().take(MOST_LINES) {
            self.add(confidence, line);
        }
        if lines.len() > MOST_LINES {
            self.add(confidence, format!("… and {} more like these", lines.len() - MOST_LINES));
        }
    }

    fn done(self, way_out: Option<&str>) -> Option<Finding> {
        let Self { kind, confidence, evidence, blocks } = self;
        Some(Finding { kind, confidence: confidence?, evidence, way_out: way_out.map(str::to_owned), blocks })
    }
}

impl Case<'_> {
    /// Mappings and descriptors of one sort, as lines.
    fn lines(&self, of: impl Fn(Object) -> bool) -> Vec<String> {
        let mappings =
            self.seen.mappings.iter().filter(|mapping| of(mapping.object)).map(|mapping| mapping.line());
        let files = self.seen.files.iter().filter(|file| of(file.object));
        mappings.chain(files.map(|file| format!("descriptor {}: {}", file.number, file.path))).collect()
    }

    /// Whether any descriptor or mapping is of that sort.
    fn any(&self, of: impl Fn(Object) -> bool) -> bool {
        self.seen.mappings.iter().any(|mapping| of(mapping.object))
            || self.seen.files.iter().any(|file| of(file.object))
    }
}

#[cfg(test)]
mod tests;
