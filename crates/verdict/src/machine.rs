//! The machine itself: CPU, kernel, CRIU, GPUs and their driver. The rules are `manifest`'s.

use doctor::{Finding, FindingState};
use manifest::host::{HostFingerprint, Reason, Verdict, compare};

/// No list of features is shown longer.
const SHOWN: usize = 120;

/// What differs between the machine of a snapshot and this one.
pub fn machine(taken: &HostFingerprint, here: &HostFingerprint) -> Vec<Finding> {
    let verdict = compare(taken, here);
    let state = match verdict {
        Verdict::Incompatible(_) => FindingState::Fail,
        Verdict::Same | Verdict::Compatible(_) => FindingState::Warn,
    };
    verdict.reasons().iter().map(|reason| finding(reason, state)).collect()
}

fn finding(reason: &Reason, state: FindingState) -> Finding {
    let evidence = format!(
        "{}: there {}, here {}",
        reason.sentence.trim_end_matches('.'),
        shortened(&reason.taken),
        shortened(&reason.here)
    );
    Finding { item: reason.code, state, evidence, fix: reason.way_out.map(str::to_owned) }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None if text.is_empty() => "unknown".to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in_the_way;
    use manifest::host::{Cpu, Gpu};

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let features = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let taken = HostFingerprint {
            cpu: Cpu { features: features(&["avx512f", "sse2"]), ..Cpu::default() },
            gpus: vec![Gpu { uuid: "GPU-1".into(), pci_id: "10de:2330".into(), ..Gpu::default() }],
            driver_version: Some("580.2".into()),
            ..HostFingerprint::default()
        };
        let mut here =
            HostFingerprint { cpu: Cpu { features: features(&["sse2"]), ..Cpu::default() }, ..taken.clone() };
        let found = machine(&taken, &here);
        assert_eq!(
            (found.len(), found[0].item, found[0].state),
            (1, "cpu-features-missing", FindingState::Fail),
            "{found:?}"
        );
        assert!(
            found[0].evidence.contains("there avx512f, here absent") && found[0].fix.is_some(),
            "{found:?}"
        );
        // Force is about GPUs only.
        here.gpus.clear();
        let found = machine(&taken, &here);
        assert_eq!(
            (stand_in_the_way(&found, false).len(), stand_in_the_way(&found, true).len()),
            (2, 1),
            "{found:?}"
        );
    }
}
