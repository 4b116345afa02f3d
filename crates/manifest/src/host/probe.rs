//! Finding out what this machine is, from `/proc`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{Cpu, Gpu, HostFingerprint};
use crate::error::{ManifestError, Result};

/// What `/proc` does not say.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Given {
    /// Version of the CRIU that is used.
    pub criu_version: Option<String>,
    /// Version of the NVIDIA driver.
    pub driver_version: Option<String>,
    /// GPUs that the session can see.
    pub gpus: Vec<Gpu>,
}

/// The first processor's paragraph has some kilobytes; no other is needed, because Linux shows only the features that all
/// processors have.
const READ_LIMIT: u64 = 64 << 10;

/// Describes this machine.
pub fn probe(given: Given) -> Result<HostFingerprint> {
    probe_in(Path::new("/proc"), given)
}

fn probe_in(proc: &Path, given: Given) -> Result<HostFingerprint> {
    let text =
        |file: &str| read(&proc.join(file)).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
    let auxv = proc.join("self/auxv");
    let cpuinfo = proc.join("cpuinfo");
    Ok(HostFingerprint {
        hostname: text("sys/kernel/hostname")?,
        architecture: std::env::consts::ARCH.to_owned(),
        cpu: parse_cpuinfo(&text("cpuinfo")?)
            .ok_or(ManifestError::ProbeText { what: "the CPU's features", path: cpuinfo })?,
        kernel_release: text("sys/kernel/osrelease")?,
        page_size: parse_page_size(&read(&auxv)?)
            .ok_or(ManifestError::ProbeText { what: "the page size", path: auxv })?,
        criu_version: given.criu_version,
        driver_version: given.driver_version,
        gpus: given.gpus,
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| ManifestError::Probe { path: path.to_path_buf(), source };
    let mut content = Vec::new();
    File::open(path).map_err(failed)?.take(READ_LIMIT).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

/// The first processor of `/proc/cpuinfo`. Arm writes other words than x86 for the same things.
fn parse_cpuinfo(text: &str) -> Option<Cpu> {
    let paragraph = text.lines().take_while(|line| !line.trim().is_empty());
    let fields: BTreeMap<&str, &str> = paragraph
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let field = |names: &[&str]| names.iter().find_map(|name| fields.get(name)).copied();
    let number = |names: &[&str]| {
        let text = field(names)?;
        match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    Some(Cpu {
        vendor: field(&["vendor_id", "CPU implementer"])?.to_owned(),
        model_name: field(&["model name", "Processor"]).unwrap_or_default().to_owned(),
        family: number(&["cpu family", "CPU architecture"]).unwrap_or_default(),
        model: number(&["model", "CPU part"]).unwrap_or_default(),
        stepping: number(&["stepping", "CPU revision"]).unwrap_or_default(),
        features: field(&["flags", "Features"])?.split_ascii_whitespace().map(str::to_owned).collect(),
    })
}

/// `AT_PAGESZ` in the auxiliary vector: pairs of words, type and value.
fn parse_page_size(auxv: &[u8]) -> Option<u32> {
    const WORD: usize = size_of::<usize>();
    const AT_PAGESZ: usize = 6;
    let (words, _) = auxv.as_chunks::<WORD>();
    let (pairs, _) = words.as_chunks::<2>();
    let value =
        pairs.iter().find(|[kind, _]| usize::from_ne_bytes(*kind) == AT_PAGESZ).map(|[_, value]| value)?;
    u32::try_from(usize::from_ne_bytes(*value)).ok().filter(|size| size.is_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const X86: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\n\
        model name\t: Intel(R) Xeon(R)\nstepping\t: 2\nflags\t\t: sse2 fpu avx2\nbugs\t\t:\n\n\
        processor\t: 1\nvendor_id\t: Other\nflags\t\t: none\n";

    #[test]
    fn the_first_processor_counts() {
        let cpu = parse_cpuinfo(X86).unwrap();
        assert_eq!((cpu.vendor.as_str(), cpu.family, cpu.model, cpu.stepping), ("GenuineIntel", 6, 207, 2));
        assert_eq!(cpu.model_name, "Intel(R) Xeon(R)");
        assert_eq!(cpu.features, ["avx2", "fpu", "sse2"].map(String::from).into());
    }

    #[test]
    fn arm_writes_other_words() {
        let text = "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n";
        let cpu = parse_cpuinfo(text).unwrap();
        assert_eq!((cpu.vendor.as_str(), cpu.family, cpu.model), ("0x41", 8, 0xd40));
        assert_eq!(parse_cpuinfo("processor: 0\n"), None);
    }

    #[test]
    fn a_made_up_proc_is_read() {
        let proc = tempfile::tempdir().unwrap();
        let put = |file: &str, content: &[u8]| {
            let path = proc.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        put("cpuinfo", X86.as_bytes());
        put("sys/kernel/hostname", b"box\n");
        put("sys/kernel/osrelease", b"6.8.0\n");
        let error = probe_in(proc.path(), Given::default()).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("auxv")), ("IJ-M020", true));
        put("self/auxv", &[3_usize, 1, 6, 16384, 0, 0].map(usize::to_ne_bytes).concat());
        let given =
            Given { criu_version: Some("4.2".into()), gpus: vec![Gpu::default()], ..Given::default() };
        let host = probe_in(proc.path(), given).unwrap();
        assert_eq!(
            (host.hostname.as_str(), host.kernel_release.as_str(), host.page_size),
            ("box", "6.8.0", 16384)
        );
        assert_eq!((host.criu_version.as_deref(), host.gpus.len()), (Some("4.2"), 1));
        put("self/auxv", &[6_usize, 5000].map(usize::to_ne_bytes).concat());
        assert_eq!(probe_in(proc.path(), Given::default()).unwrap_err().code(), "IJ-M021");
    }

    #[test]
    fn this_machine_is_itself() {
        let host = probe(Given::default()).unwrap();
        assert!(!host.kernel_release.is_empty() && !host.cpu.features.is_empty());
        assert_eq!(crate::host::compare(&host, &host), crate::host::Verdict::Same);
    }
}
