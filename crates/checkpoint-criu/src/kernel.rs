//! What CRIU learns about the running kernel, learned ahead of time.
//!
//! CRIU probes the kernel at each start (30 ms) and keeps the result in `/run/criu.kdat`, but only if `/run` is a tmpfs, because the
//! file must not outlive the boot. One of the probes ends the program if real and effective user differ, as they do where CRIU is
//! run with a user's real ids. So the file is made once by plain root, in a mount namespace with a tmpfs over `/run`, and lent to
//! such a CRIU later.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{CriuError, Result};

const MAGIC: u32 = 0x5702_3458;
const LIMIT: Duration = Duration::from_secs(60);

/// `$1` is CRIU; the file goes to standard output. What `criu check` thinks of the machine does not matter here.
const SCRIPT: &str = "mount -t tmpfs -o size=4m,mode=0700 criu-kdat /run || exit 10
\"$1\" --no-default-config check >/dev/null 2>&1
cat /run/criu.kdat || exit 11";

pub(crate) fn learn(criu: &Path, dir: &Path) -> Result<PathBuf> {
    let kdat = dir.join("criu.kdat");
    let label_path = dir.join("criu.kdat.of");
    let label = label(criu)?;
    if fs::read_to_string(&label_path).is_ok_and(|old| old == label) && is_kdat(&kdat) {
        return Ok(kdat);
    }
    // Two of us at the same time make the same file: each under a name of its own, and the last rename wins.
    let fresh = dir.join(format!("criu.kdat.{}", std::process::id()));
    let result = make(criu, &fresh).and_then(|()| {
        fs::rename(&fresh, &kdat).map_err(CriuError::io("rename", &fresh))?;
        fs::write(&label_path, label).map_err(CriuError::io("write", &label_path))
    });
    if result.is_err() {
        // It may not exist; what is reported is why there is no file.
        let _ = fs::remove_file(&fresh);
    }
    result.map(|()| kdat)
}

fn make(criu: &Path, fresh: &Path) -> Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let output = options.open(fresh).map_err(CriuError::io("create", fresh))?;
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "sh"])
        .arg(criu)
        .stdin(Stdio::null())
        .stdout(Stdio::from(output))
        .stderr(Stdio::null())
        .spawn()
        .map_err(|source| CriuError::Start { program: "unshare".into(), source })?;
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        let status = child.try_wait().map_err(CriuError::io("wait for", "unshare"))?;
        if let Some(status) = status {
            break status;
        }
        if Instant::now() >= deadline {
            // Nothing but probes of its own process; the mount goes with the namespace.
            let _ = child.kill();
            let _ = child.wait();
            return Err(CriuError::Kernel { detail: format!("it took longer than {} s", LIMIT.as_secs()) });
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let reason = match status.code() {
        Some(0) if is_kdat(fresh) => return Ok(()),
        Some(0) => "what criu wrote is not what it should be".to_owned(),
        Some(10) => "a tmpfs could not be mounted in a namespace of its own".to_owned(),
        Some(11) => "criu did not write it".to_owned(),
        _ => format!("unshare failed with {status} (it needs root)"),
    };
    Err(CriuError::Kernel { detail: reason })
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
