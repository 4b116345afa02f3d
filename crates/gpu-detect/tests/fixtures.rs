//! Processes of public reports, and what they must be judged to be. See `fixtures/README.md`.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::{Path, PathBuf};

use gpu_detect::Confidence::{self, Certain, Likely, Possible};
use gpu_detect::{Detector, GpuUse, Host, HostGpu, Kind, ProcessReport, Strategy};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn look(name: &str, pid: i32, host: Option<Host>) -> ProcessReport {
    Detector::new(&fixture(name), host).process(pid).unwrap()
}

fn findings(report: &ProcessReport) -> Vec<(Kind, Confidence, bool)> {
    report.findings.iter().map(|finding| (finding.kind, finding.confidence, finding.blocks)).collect()
}

fn machine(cuda_version: u32) -> Host {
    let gpu = |minor: u32| HostGpu {
        index: minor,
        minor,
        uuid: format!("GPU-{minor}"),
        bus_id: format!("00000000:{}B:00.0", 3 + minor),
        ..HostGpu::default()
    };
    Host { driver_version: "x".to_owned(), cuda_version, gpus: vec![gpu(0), gpu(1)], ..Host::default() }
}

const OPEN: (Kind, Confidence, bool) = (Kind::Context, Certain, false);
const INHERITED: (Kind, Confidence, bool) = (Kind::InheritedDescriptors, Certain, true);

/// Fixture, process, whether it uses a GPU, and the findings: kind, confidence, whether it blocks.
type Row = (&'static str, i32, bool, &'static [(Kind, Confidence, bool)]);

const TABLE: &[Row] = &[
    ("confidential", 4242, true, &[OPEN, (Kind::Uvm, Certain, false), (Kind::Managed, Likely, true)]),
    ("sandboxed-python", 4242, true, &[OPEN]),
    ("doorbell", 4242, true, &[OPEN]),
    ("managed", 4242, true, &[OPEN, (Kind::Uvm, Certain, false), (Kind::Managed, Likely, true)]),
    ("graphics", 4242, true, &[OPEN, (Kind::Graphics, Likely, true)]),
    ("checkpointed", 4242, false, &[]),
    ("loader", 4242, false, &[]),
    ("loader", 4300, true, &[(Kind::InheritedDescriptors, Likely, true)]),
    ("forked", 4242, true, &[OPEN]),
    ("forked", 4300, true, &[INHERITED]),
    ("forked", 4400, true, &[OPEN]),
    ("executed", 4300, true, &[INHERITED]),
    ("gdrcopy", 4242, true, &[OPEN, (Kind::Gdrcopy, Certain, true), (Kind::Rdma, Certain, true)]),
    ("nccl", 4242, true, &[OPEN, (Kind::Nccl, Certain, true)]),
    ("nccl", 4243, true, &[OPEN, (Kind::Nccl, Certain, true)]),
    ("nccl", 4244, true, &[OPEN, (Kind::Nccl, Likely, false)]),
    ("nccl", 4245, true, &[OPEN, (Kind::Nccl, Possible, false)]),
    ("ipc", 4242, true, &[OPEN, (Kind::Ipc, Likely, true)]),
    ("ipc", 4243, true, &[OPEN, (Kind::Ipc, Possible, false)]),
    ("ipc", 4244, false, &[]),
    ("mps", 4242, true, &[OPEN, (Kind::Mps, Likely, true)]),
    ("mps", 4243, true, &[OPEN, (Kind::Mps, Certain, true)]),
    ("mps", 4244, true, &[OPEN, (Kind::Mps, Possible, false)]),
    ("mig", 4242, true, &[OPEN, (Kind::Mig, Certain, true)]),
    ("window", 4242, false, &[(Kind::BarMapping, Possible, false)]),
    ("monitoring", 4242, true, &[(Kind::Monitoring, Likely, true)]),
    ("plain", 4242, false, &[]),
    ("plain", 4243, false, &[]),
];

#[test]
fn every_sample_is_judged_right() {
    for (name, pid, uses_gpu, expected) in TABLE {
        let report = look(name, *pid, None);
        assert_eq!(findings(&report), *expected, "{name} {pid}: {report:#?}");
        assert_eq!(report.uses_gpu, *uses_gpu, "{name} {pid}");
        let blocks = expected.iter().filter(|(_, _, blocks)| *blocks).count();
        match &report.strategy {
            Strategy::Refuse { reasons } => assert_eq!(reasons.len(), blocks, "{name} {pid}: {reasons:?}"),
            Strategy::Driver => assert!(*uses_gpu && blocks == 0, "{name} {pid}"),
            Strategy::Skip => assert!(!*uses_gpu && blocks == 0, "{name} {pid}"),
            other => panic!("{name} {pid}: {other:?}"),
        }
        for finding in &report.findings {
            assert!(!finding.evidence.is_empty(), "{name} {pid}: {finding:?}");
            assert!(!finding.blocks || finding.way_out.is_some(), "{name} {pid}: {finding:?}");
        }
    }
}

#[test]
fn no_sample_is_forgotten() {
    for entry in std::fs::read_dir(fixture("")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let name = entry.file_name().into_string().unwrap();
            assert!(TABLE.iter().any(|(known, ..)| *known == name), "{name} is not in the table");
        }
    }
}

#[test]
fn the_evidence_names_what_was_seen() {
    let report = look("managed", 4242, None);
    assert_eq!(report.findings[1].evidence, ["7ea03a000000-7ea03a200000 rw-s 7ea03a000000 /dev/nvidia-uvm"]);
    let report = look("forked", 4300, None);
    assert!(report.findings[0].evidence[1].contains("4242"), "{report:?}");
    assert!(report.findings[0].way_out.as_ref().unwrap().contains("spawn"));
    let report = look("nccl", 4242, None);
    let way_out = report.findings[1].way_out.as_ref().unwrap();
    assert!(way_out.contains("NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NVLS_ENABLE=0"), "{way_out}");
}

#[test]
fn the_driver_decides_what_fits() {
    let strategy = |cuda| look("doorbell", 4242, Some(machine(cuda))).strategy;
    assert_eq!(strategy(0), Strategy::Driver);
    assert_eq!(strategy(12_080), Strategy::Driver);
    assert_eq!(strategy(13_040), Strategy::DriverToStorage);
    let Strategy::Refuse { reasons } = strategy(12_040) else { panic!("12.4 has no checkpoint calls") };
    assert!(reasons[0].contains("570"), "{reasons:?}");
}

#[test]
fn gpus_have_names_where_the_driver_is_there() {
    let mut host = machine(13_000);
    host.gpus[0].processes = vec![GpuUse { pid: 4242, bytes: Some(3 << 30), ..GpuUse::default() }];
    host.gpus[1].processes = vec![GpuUse { pid: 1, bytes: Some(1), ..GpuUse::default() }];
    let report = look("sandboxed-python", 4242, Some(host));
    assert_eq!((report.gpus, report.vram_bytes), (vec!["GPU-0".to_owned()], 3 << 30));
}

#[test]
fn confidential_mode_explains_the_mappings() {
    let mut host = machine(13_000);
    host.gpus[0].confidential = Some(true);
    let report = look("confidential", 4242, Some(host));
    assert_eq!(findings(&report)[2], (Kind::Managed, Possible, true));
}

#[test]
fn the_driver_knows_of_instances_and_services_and_drawing() {
    let mut host = machine(13_000);
    host.gpus[0].mig = Some(vec!["MIG-1".to_owned()]);
    let using = GpuUse { pid: 4242, bytes: Some(1 << 20), mps: true, graphics: true };
    host.gpus[0].processes = vec![using];
    let report = look("sandboxed-python", 4242, Some(host));
    let expected =
        [OPEN, (Kind::Mps, Certain, true), (Kind::Mig, Likely, true), (Kind::Graphics, Certain, true)];
    assert_eq!(findings(&report), expected);
}

#[test]
fn a_window_is_a_finding_if_it_is_a_gpus() {
    let report = look("window", 4242, Some(machine(13_000)));
    assert_eq!(findings(&report), [(Kind::BarMapping, Certain, true)]);
    let mut other = machine(13_000);
    other.gpus[0].bus_id = "00000000:5E:00.0".to_owned();
    assert_eq!(findings(&look("window", 4242, Some(other))), []);
}

#[test]
fn a_tree_is_refused_for_one_of_its_processes() {
    let report = Detector::new(&fixture("forked"), None).tree(4242).unwrap();
    let pids: Vec<i32> = report.processes.iter().map(|process| process.pid).collect();
    assert_eq!((pids, report.looked_at), (vec![4242, 4300, 4400], 3));
    let Strategy::Refuse { reasons } = report.strategy else { panic!("a forked child cannot be dumped") };
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    assert!(reasons[0].starts_with("process 4300 (python3): "), "{reasons:?}");
    let alone = Detector::new(&fixture("forked"), None).tree(4400).unwrap();
    assert_eq!((alone.processes.len(), alone.strategy), (1, Strategy::Driver));
}

#[test]
fn a_tree_keeps_processes_without_a_gpu() {
    let report = Detector::new(&fixture("plain"), None).tree(4242).unwrap();
    assert_eq!((report.processes.len(), report.strategy), (1, Strategy::Skip));
    assert_eq!(report.processes[0].comm, "python3");
}

#[test]
fn all_shows_those_that_matter() {
    let pids = |name: &str| -> Vec<i32> {
        let report = Detector::new(&fixture(name), None).all().unwrap();
        report.processes.iter().map(|process| process.pid).collect()
    };
    assert_eq!(pids("ipc"), [4242, 4243]);
    assert_eq!(pids("executed"), [4242, 4300]);
    assert_eq!(pids("plain"), [0; 0]);
}

#[test]
fn a_report_survives_json() {
    let report = Detector::new(&fixture("nccl"), Some(machine(13_000))).all().unwrap();
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.contains(r#""kind":"nccl","confidence":"certain""#), "{text}");
    assert!(text.contains(r#""strategy":{"do":"refuse","reasons":["#), "{text}");
    let mut back: gpu_detect::Report = serde_json::from_str(&text).unwrap();
    // Microseconds are enough.
    back.took = report.took;
    assert_eq!(back, report);
}

#[test]
fn a_process_that_is_not_there_has_a_name() {
    let error = Detector::new(&fixture("plain"), None).process(1).unwrap_err();
    assert_eq!(error.code(), "IJ-P010");
    assert_eq!(Detector::new(&fixture("plain"), None).tree(1).unwrap_err().code(), "IJ-P010");
    assert_eq!(Detector::new(Path::new("/nowhere"), None).all().unwrap_err().code(), "IJ-P012");
}
