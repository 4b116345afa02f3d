//! Judgements that no public sample shows. The samples themselves are tried in `tests/fixtures.rs`.

use super::*;
use crate::seen::{SeenFile, SeenMapping};

fn mapping(path: &str) -> SeenMapping {
    SeenMapping {
        object: Object::of(path.as_bytes()).unwrap(),
        start: 0x1000,
        end: 0x2000,
        permissions: "rw-s".to_owned(),
        offset: 0,
        path: path.to_owned(),
    }
}

fn file(number: i32, path: &str) -> SeenFile {
    SeenFile { object: Object::of(path.as_bytes()).unwrap(), number, path: path.to_owned() }
}

fn kinds(report: &ProcessReport) -> Vec<Kind> {
    report.findings.iter().map(|finding| finding.kind).collect()
}

#[test]
fn a_descriptor_of_unified_memory_says_nothing() {
    let seen = Seen {
        mappings: vec![mapping("/usr/lib/libcuda.so.1")],
        files: vec![file(3, "/dev/nvidiactl"), file(4, "/dev/nvidia-uvm")],
        ..Seen::default()
    };
    let report = judge(&seen, None, None);
    assert_eq!(kinds(&report), [Kind::Context]);
    assert_eq!(report.findings[0].confidence, Confidence::Likely);
    assert_eq!(report.strategy, Strategy::Driver);
}

#[test]
fn a_mapping_elsewhere_in_unified_memory_is_not_managed() {
    let seen = Seen {
        mappings: vec![mapping("/dev/nvidia-uvm"), mapping("/usr/lib/libcuda.so.1")],
        ..Seen::default()
    };
    let report = judge(&seen, None, None);
    assert_eq!(kinds(&report), [Kind::Uvm]);
    assert_eq!(report.strategy, Strategy::Driver);
}

#[test]
fn an_older_driver_does_not_name_its_threads() {
    let parent = Seen {
        pid: 1,
        mappings: vec![mapping("/usr/lib/libcuda.so.1"), mapping("/dev/nvidiactl")],
        files: vec![file(3, "/dev/nvidia0")],
        threads: vec!["python".to_owned(); 4],
        ..Seen::default()
    };
    let child = Seen { pid: 2, parent: 1, threads: vec!["python".to_owned()], ..parent.clone() };
    assert_eq!(kinds(&judge(&child, Some(&parent), None)), [Kind::InheritedDescriptors]);
    // Two processes of the same kind are two contexts.
    let sibling = Seen { pid: 3, ..parent.clone() };
    assert_eq!(kinds(&judge(&sibling, Some(&parent), None)), [Kind::Context]);
}

#[test]
fn the_drivers_word_makes_a_context() {
    let seen = Seen { pid: 7, mappings: vec![mapping("/usr/lib/libcuda.so.1")], ..Seen::default() };
    let using = crate::host::GpuUse { pid: 7, bytes: Some(5 << 20), ..Default::default() };
    let gpu = HostGpu { uuid: "GPU-1".to_owned(), processes: vec![using], ..HostGpu::default() };
    let host = Host { gpus: vec![gpu], ..Host::default() };
    let report = judge(&seen, None, Some(&host));
    assert!(report.uses_gpu);
    assert_eq!(kinds(&report), [Kind::Context]);
    assert_eq!(report.vram_bytes, 5 << 20);
}

#[test]
fn a_process_that_the_driver_lists_with_nothing_is_no_context() {
    let using = crate::host::GpuUse { pid: 7, bytes: Some(0), ..Default::default() };
    let gpu = HostGpu { processes: vec![using], ..HostGpu::default() };
    let host = Host { gpus: vec![gpu], ..Host::default() };
    let report = judge(&Seen { pid: 7, ..Seen::default() }, None, Some(&host));
    assert_eq!((kinds(&report), report.strategy), (vec![], Strategy::Skip));
}

#[test]
fn lines_of_one_sort_are_cut() {
    let mut draft = Draft::of(Kind::Uvm);
    let lines: Vec<String> = (0..50).map(|line| line.to_string()).collect();
    draft.add_some(Confidence::Certain, &lines);
    let finding = draft.done(None).unwrap();
    assert_eq!(finding.evidence.len(), MOST_LINES + 1);
    assert_eq!(finding.evidence[MOST_LINES], "… and 44 more like these");
}
