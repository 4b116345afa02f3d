//! The rules by which two machines are compared. Each has a test that fails without it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::verdict::{Findings, reason};
use super::{HostFingerprint, Verdict, gpus, version};

/// Whether a snapshot that was taken on one machine can be restored on another. The order in which GPUs, features and MIG
/// instances are listed does not matter.
pub fn compare(taken: &HostFingerprint, here: &HostFingerprint) -> Verdict {
    let mut findings = Findings::default();
    cpu(taken, here, &mut findings);
    kernel(taken, here, &mut findings);
    page_size(taken, here, &mut findings);
    criu(taken, here, &mut findings);
    gpus::compare(taken, here, &mut findings);
    findings.verdict()
}

const CPU_WAY_OUT: &str = "restore on a machine with the same or a newer CPU of this vendor; in a virtual machine, give it the CPU model \
     of the old one";

fn cpu(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) {
    if taken.architecture != here.architecture {
        let found = reason(
            "architecture",
            "The snapshot holds machine code of another architecture.",
            &taken.architecture,
            &here.architecture,
        );
        findings.block(found.way_out("restore on a machine of the same architecture"));
        return;
    }
    let (old, new) = (&taken.cpu, &here.cpu);
    if old.vendor != new.vendor {
        let sentence = "The CPU is of another vendor, and libraries choose their code by that.";
        findings.block(reason("cpu-vendor", sentence, &old.vendor, &new.vendor).way_out(CPU_WAY_OUT));
    }
    let list = |features: &[&String]| features.iter().map(|f| f.as_str()).collect::<Vec<_>>().join(" ");
    let missing: BTreeSet<_> = old.features.difference(&new.features).collect();
    let (kernel_only, missing): (Vec<_>, Vec<_>) = missing
        .into_iter()
        .partition(|feature| KERNEL_ONLY.split(' ').any(|known| known == feature.as_str()));
    if !missing.is_empty() {
        let sentence = "The CPU here lacks features that the processes may be using.";
        findings
            .block(reason("cpu-features-missing", sentence, list(&missing), "absent").way_out(CPU_WAY_OUT));
    }
    if !kernel_only.is_empty() {
        let sentence = "The CPU or kernel here lacks features that only a kernel uses.";
        findings.note(reason("cpu-features-kernel", sentence, list(&kernel_only), "absent"));
    }
    let extra: Vec<_> = new.features.difference(&old.features).collect();
    if !extra.is_empty() {
        let sentence = "The CPU here has more features; restored processes will not use them.";
        findings.note(reason("cpu-features-extra", sentence, "absent", list(&extra)));
    }
    let model = |cpu: &super::Cpu| {
        format!("{} (family {}, model {}, stepping {})", cpu.model_name, cpu.family, cpu.model, cpu.stepping)
    };
    if model(old) != model(new) {
        findings.note(reason("cpu-model", "The CPU is another model.", model(old), model(new)));
    }
}

/// Flags that a process cannot make use of: paging and privilege, virtualisation, power and timers, mitigations that the
/// kernel applies. They come and go with boot options and microcode. A flag that is not listed counts as usable.
const KERNEL_ONLY: &str = "\
    acpi aperfmperf apic arat arch_capabilities arch_perfmon art bts bus_lock_detect cat_l2 cat_l3 cdp_l3 \
    constant_tsc cpb cpuid_fault cqm cqm_llc cqm_mbm_local cqm_mbm_total cqm_occup_llc dca de ds_cpl dtes64 \
    dtherm dts epb ept ept_ad est flexpriority flush_l1d hw_pstate hwp hwp_act_window hwp_epp hwp_notify \
    hwp_pkg_req hypervisor ibpb ibpb_brtype ibrs ibrs_enhanced ibt ida intel_ppin intel_pt invpcid lbrv mba \
    mca mce md_clear monitor msr mtrr nonstop_tsc nonstop_tsc_s3 npt nrip_save pae pat pbe pcid pconfig pdcm \
    pebs pge pln proc_feedback pse pse36 pti pts rdt_a rep_good retpoline sdbg smap smep smx \
    split_lock_detect srbds_ctrl ss ssbd stibp svm svm_lock tm tm2 tme tpr_shadow tsc_adjust \
    tsc_deadline_timer tsc_known_freq tsc_reliable tsx_force_abort umip virt_ssbd vme vmx vnmi vpid wbnoinvd \
    x2apic xtopology xtpr";

fn kernel(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) {
    let (old, new) = (&taken.kernel_release, &here.kernel_release);
    if old == new {
        return;
    }
    let (code, sentence) = match version::numbers(new).cmp(&version::numbers(old)) {
        Ordering::Less => {
            ("kernel-older", "The kernel here is older and may lack something that the processes use.")
        }
        Ordering::Greater => ("kernel-newer", "The kernel here is newer."),
        Ordering::Equal => ("kernel-build", "The kernel here is another build."),
    };
    findings.note(reason(code, sentence, old, new));
}

fn page_size(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) {
    if taken.page_size != here.page_size {
        let sentence = "Memory here has pages of another size, so mappings cannot be put back.";
        let found = reason("page-size", sentence, taken.page_size, here.page_size);
        findings.block(found.way_out("boot a kernel with the page size of the snapshot"));
    }
}

fn criu(taken: &HostFingerprint, here: &HostFingerprint, findings: &mut Findings) {
    // Without a version the snapshot has no processes that CRIU would have to restore.
    let Some(old) = &taken.criu_version else { return };
    let Some(new) = &here.criu_version else {
        let found = reason("criu-missing", "There is no CRIU here to restore the processes.", old, "absent");
        findings.block(found.way_out("install CRIU, at least of the snapshot's version"));
        return;
    };
    if old == new {
        return;
    }
    let (Some(old_numbers), Some(new_numbers)) = (version::numbers(old), version::numbers(new)) else {
        let sentence = "CRIU here is another one, and its version cannot be compared.";
        findings.note(reason("criu-unknown", sentence, old, new));
        return;
    };
    if new_numbers.first() < old_numbers.first() {
        let sentence = "CRIU here is older by a major version and may not read the images.";
        findings.block(
            reason("criu-major", sentence, old, new)
                .way_out("install CRIU of the snapshot's version or newer"),
        );
    } else if new_numbers < old_numbers {
        let sentence = "CRIU here is older than the one that made the images.";
        findings.note(
            reason("criu-older", sentence, old, new)
                .way_out("install CRIU of the snapshot's version or newer"),
        );
    } else if new_numbers > old_numbers {
        findings.note(reason("criu-newer", "CRIU here is newer.", old, new));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Cpu, Gpu};

    fn host() -> HostFingerprint {
        HostFingerprint {
            hostname: "one".into(),
            architecture: "x86_64".into(),
            cpu: Cpu {
                vendor: "GenuineIntel".into(),
                model_name: "Xeon".into(),
                family: 6,
                model: 207,
                stepping: 2,
                features: ["avx2", "sse2", "ibrs"].map(String::from).into(),
            },
            kernel_release: "6.8.0-45-generic".into(),
            page_size: 4096,
            criu_version: Some("4.2".into()),
            ..HostFingerprint::default()
        }
    }

    fn codes(verdict: &Verdict) -> Vec<&'static str> {
        verdict.reasons().iter().map(|reason| reason.code).collect()
    }

    #[track_caller]
    fn compatible(change: impl FnOnce(&mut HostFingerprint), code: &str) {
        let mut here = host();
        change(&mut here);
        let verdict = compare(&host(), &here);
        assert!(matches!(verdict, Verdict::Compatible(_)), "{verdict:?}");
        assert_eq!(codes(&verdict), [code]);
    }

    #[track_caller]
    fn incompatible(change: impl FnOnce(&mut HostFingerprint), code: &str) {
        let mut here = host();
        change(&mut here);
        let verdict = compare(&host(), &here);
        assert!(matches!(verdict, Verdict::Incompatible(_)) && !verdict.allows_restore(), "{verdict:?}");
        assert_eq!(codes(&verdict), [code]);
        assert!(verdict.reasons()[0].way_out.is_some());
    }

    #[test]
    fn the_same_machine_is_the_same_under_another_name() {
        assert_eq!(compare(&host(), &HostFingerprint { hostname: "two".into(), ..host() }), Verdict::Same);
    }

    #[test]
    fn another_architecture() {
        incompatible(|here| here.architecture = "aarch64".into(), "architecture");
    }

    #[test]
    fn another_cpu_vendor() {
        incompatible(|here| here.cpu.vendor = "AuthenticAMD".into(), "cpu-vendor");
    }

    #[test]
    fn missing_features() {
        incompatible(|here| here.cpu.features.retain(|feature| feature != "avx2"), "cpu-features-missing");
        let mut here = host();
        here.cpu.features.clear();
        assert_eq!(compare(&host(), &here).reasons()[0].taken, "avx2 sse2");
    }

    #[test]
    fn a_missing_feature_that_only_a_kernel_uses() {
        compatible(|here| here.cpu.features.retain(|feature| feature != "ibrs"), "cpu-features-kernel");
    }

    #[test]
    fn more_features() {
        compatible(|here| here.cpu.features.extend(["avx512f".into()]), "cpu-features-extra");
    }

    #[test]
    fn another_model() {
        compatible(|here| here.cpu.stepping = 3, "cpu-model");
        compatible(|here| here.cpu.model_name = "Xeon 2".into(), "cpu-model");
    }

    #[test]
    fn another_kernel() {
        compatible(|here| here.kernel_release = "6.1.0".into(), "kernel-older");
        compatible(|here| here.kernel_release = "6.10.0".into(), "kernel-newer");
        compatible(|here| here.kernel_release = "6.8.0-46-generic".into(), "kernel-build");
    }

    #[test]
    fn another_page_size() {
        incompatible(|here| here.page_size = 65536, "page-size");
    }

    #[test]
    fn another_criu() {
        incompatible(|here| here.criu_version = Some("3.19".into()), "criu-major");
        incompatible(|here| here.criu_version = None, "criu-missing");
        compatible(|here| here.criu_version = Some("4.1.1".into()), "criu-older");
        compatible(|here| here.criu_version = Some("4.10".into()), "criu-newer");
        compatible(|here| here.criu_version = Some("git".into()), "criu-unknown");
        let without = HostFingerprint { criu_version: None, ..host() };
        assert_eq!(compare(&without, &host()), Verdict::Same);
    }

    #[test]
    fn gpus_that_the_snapshot_does_not_use_do_not_matter() {
        let here = HostFingerprint { gpus: vec![Gpu::default()], driver_version: Some("1".into()), ..host() };
        assert_eq!(compare(&host(), &here), Verdict::Same);
    }

    #[test]
    fn only_what_stands_in_the_way_is_listed_if_something_does() {
        let mut here = host();
        here.page_size = 65536;
        here.kernel_release = "6.1.0".into();
        assert_eq!(codes(&compare(&host(), &here)), ["page-size"]);
    }

    #[test]
    fn the_json_form_is_stable() {
        assert_eq!(serde_json::to_string(&Verdict::Same).unwrap(), r#"{"verdict":"same"}"#);
        let verdict = compare(&host(), &HostFingerprint { page_size: 65536, ..host() });
        assert_eq!(
            serde_json::to_value(&verdict).unwrap(),
            serde_json::json!({ "verdict": "incompatible", "reasons": [{
                "code": "page-size",
                "sentence": "Memory here has pages of another size, so mappings cannot be put back.",
                "taken": "4096",
                "here": "65536",
                "way_out": "boot a kernel with the page size of the snapshot",
            }] })
        );
    }
}
