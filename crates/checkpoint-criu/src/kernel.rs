//! What CRIU learns about the running kernel, learned ahead of time.
//!
//! CRIU probes the kernel at each start (30 ms, and more in a box, where its notes are gone with every box) and keeps the result in
//! `criu.kdat`. What it finds depends on the kernel, on its own build and on its rights. So the file is made once, by a CRIU that
//! runs as later ones will, and lent to those.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{CriuError, Result};

const MAGIC: u32 = 0x5702_3458;
const LIMIT: Duration = Duration::from_secs(60);

/// `$1` is CRIU; the file goes to standard output. What `criu check` thinks of the machine does not matter here.
const SCRIPT: &str = "mount -t tmpfs -o size=4m,mode=0700 criu-kdat /run || exit 10
\"$1\" --no-default-config check >/dev/null 2>&1
cat /run/criu.kdat || exit 11";

/// What CRIU notes about the kernel when it runs as the machine's root, outside of boxes. CRIU trusts its notes only on a tmpfs,
/// because they must not outlive the boot, so it gets one over `/run`, in a mount namespace of its own.
pub fn kernel_notes_of_host(criu: &Path) -> Result<Vec<u8>> {
    let output = Command::new("timeout")
        .arg(LIMIT.as_secs().to_string())
        .args(["unshare", "--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"])
        .arg(criu)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|source| CriuError::Start { program: "unshare".into(), source })?;
    let detail = match output.status.code() {
        Some(0) => return Ok(output.stdout),
        Some(10) => "a tmpfs could not be mounted in a namespace of its own".to_owned(),
        Some(11) => "criu did not write it".to_owned(),
        Some(124) => format!("it took longer than {} s", LIMIT.as_secs()),
        _ => format!("unshare failed with {} (it needs root)", output.status),
    };
    Err(CriuError::Kernel { detail })
}

pub(crate) fn learn(
    criu: &Path,
    dir: &Path,
    probe: impl FnOnce(&Path) -> Result<Vec<u8>>,
) -> Result<PathBuf> {
    let kdat = dir.join("criu.kdat");
    let label_path = dir.join("criu.kdat.of");
    let label = label(criu)?;
    if fs::read_to_string(&label_path).is_ok_and(|old| old == label) && is_kdat(&kdat) {
        return Ok(kdat);
    }
    // Two of us at the same time make the same file: each under a name of its own, and the last rename wins.
    let fresh = dir.join(format!("criu.kdat.{}", std::process::id()));
    let result = probe(criu).and_then(|content| make(&content, &fresh)).and_then(|()| {
        fs::rename(&fresh, &kdat).map_err(CriuError::io("rename", &fresh))?;
        fs::write(&label_path, label).map_err(CriuError::io("write", &label_path))
    });
    if result.is_err() {
        // It may not exist; what is reported is why there is no file.
        let _ = fs::remove_file(&fresh);
    }
    result.map(|()| kdat)
}

fn make(content: &[u8], fresh: &Path) -> Result<()> {
    if !(content.len() > 64 && content.starts_with(&MAGIC.to_ne_bytes())) {
        return Err(CriuError::Kernel { detail: "what criu wrote is not what it should be".to_owned() });
    }
    let mut options = File::options();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(fresh)
        .map_err(CriuError::io("create", fresh))?;
    file.write_all(content).map_err(CriuError::io("write", fresh))
}

fn is_kdat(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.len() > 64 && bytes.starts_with(&MAGIC.to_ne_bytes()))
}

/// What the file depends on: this boot, and this build of CRIU.
fn label(criu: &Path) -> Result<String> {
    let boot_path = "/proc/sys/kernel/random/boot_id";
    let boot = fs::read_to_string(boot_path).map_err(CriuError::io("read", boot_path))?;
    let data = fs::metadata(criu).map_err(CriuError::io("look at", criu))?;
    Ok(format!(
        "{} {} {} {} {}.{}\n",
        boot.trim(),
        criu.display(),
        data.ino(),
        data.len(),
        data.ctime(),
        data.ctime_nsec()
    ))
}
