//! `setup-gpu`: installs the helper that makes the driver's checkpoint calls as root, and takes it away again.
//!
//! It is three files and one unit to start, and every step that is taken is printed. Files are written beside their place and moved
//! into it, so that a helper that runs, or a unit that is read, is never half a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use api::Text;
use rustix::process::geteuid;
use serde::Serialize;

use crate::args::SetupGpuArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

const HELPER: &str = "infinijup-gpu-helper";
/// Where it goes: root's place, whoever owns the one that it is copied from.
const PROGRAMS: &str = "usr/libexec/infinijup";
const UNITS: &str = "etc/systemd/system";
const SOCKET_UNIT: &str = "infinijup-gpu.socket";
const TEXTS: [(&str, &str); 2] = [
    (SOCKET_UNIT, include_str!("../../../../deploy/systemd/infinijup-gpu.socket")),
    ("infinijup-gpu@.service", include_str!("../../../../deploy/systemd/infinijup-gpu@.service")),
];
/// More than any build of it has.
const LARGEST: u64 = 256 << 20;

/// One thing that was done.
#[derive(Serialize)]
struct Step {
    action: &'static str,
    /// A path, or a command line.
    object: Text,
}

#[derive(Serialize)]
struct Done<'a> {
    message_type: &'static str,
    steps: &'a [Step],
    /// Whether systemd was told: it listens now, or does no more.
    systemd: bool,
}

/// What is done, said as it is done.
struct Doing<'a> {
    context: &'a Context,
    root: PathBuf,
    steps: Vec<Step>,
}

pub(super) fn run(context: &Context, args: &SetupGpuArgs) -> Result<()> {
    let root = args.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let verb = if args.remove { "remove" } else { "install" };
    if args.root.is_none() && !geteuid().is_root() {
        let what = format!(
            "only root can {verb} the GPU helper: run `sudo infinijup setup-gpu` with the same options"
        );
        return Err(CliError::Usage { what }.into());
    }
    // Of another root nothing runs here.
    let systemd = args.root.is_none() && Path::new("/run/systemd/system").is_dir();
    let mut doing = Doing { context, root, steps: Vec::new() };
    let message_type = if args.remove {
        doing.remove(systemd)?;
        "gpu_helper_removed"
    } else {
        doing.install(systemd)?;
        "gpu_helper_installed"
    };
    if context.printer.is_json() {
        context.printer.json(&Done { message_type, steps: &doing.steps, systemd })?;
    }
    Ok(())
}

impl Doing<'_> {
    fn install(&mut self, systemd: bool) -> Result<()> {
        let (from, program) = read_helper()?;
        self.write(PROGRAMS, HELPER, &program, 0o755, &format!("a copy of {}", from.display()))?;
        for (name, text) in TEXTS {
            self.write(UNITS, name, text.as_bytes(), 0o644, "a unit of systemd")?;
        }
        if systemd {
            self.systemctl(&["daemon-reload"])?;
            self.systemctl(&["enable", SOCKET_UNIT])?;
            // Not only started: it may run as an earlier version wrote it.
            return self.systemctl(&["restart", SOCKET_UNIT]);
        }
        let enable = format!("`systemctl enable --now {SOCKET_UNIT}`");
        self.context
            .printer
            .note(&format!("systemd does not run here, so nothing was started: {enable} does where it runs"));
        Ok(())
    }

    fn remove(&mut self, systemd: bool) -> Result<()> {
        if systemd && self.place(UNITS).join(SOCKET_UNIT).exists() {
            self.systemctl(&["disable", "--now", SOCKET_UNIT])?;
        }
        for (name, _) in TEXTS {
            self.delete(&self.place(UNITS).join(name), |path| fs::remove_file(path))?;
        }
        self.delete(&self.place(PROGRAMS).join(HELPER), |path| fs::remove_file(path))?;
        // Others may have put something there.
        self.delete(&self.place(PROGRAMS), |path| match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Err(io::ErrorKind::NotFound.into())
            }
            removed => removed,
        })?;
        if systemd { self.systemctl(&["daemon-reload"]) } else { Ok(()) }
    }

    fn place(&self, directory: &str) -> PathBuf {
        self.root.join(directory)
    }

    fn did(&mut self, action: &'static str, object: &[u8], detail: &str) -> Result<()> {
        let shown = format::safe_bytes(object);
        let detail = if detail.is_empty() { String::new() } else { format!(" ({})", format::safe(detail)) };
        self.steps.push(Step { action, object: object.to_vec().into() });
        if self.context.printer.is_json() {
            return Ok(());
        }
        Ok(self.context.printer.line(&format!("{action} {shown}{detail}"))?)
    }

    fn write(&mut self, directory: &str, name: &str, bytes: &[u8], mode: u32, detail: &str) -> Result<()> {
        let directory = self.place(directory);
        let path = directory.join(name);
        let failed = || format!("cannot write `{}`", path.display());
        fs::create_dir_all(&directory).with_context(failed)?;
        let new = directory.join(format!(".{name}.new"));
        // Left behind by one that was cut short.
        let _absent = fs::remove_file(&new);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).with_context(failed)?;
        let written = file
            .write_all(bytes)
            // Whatever the umask is.
            .and_then(|()| file.set_permissions(fs::Permissions::from_mode(mode)))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&new, &path));
        written.with_context(failed)?;
        self.did("write", path.as_os_str().as_encoded_bytes(), detail)
    }

    fn delete(&mut self, path: &Path, how: impl FnOnce(&Path) -> io::Result<()>) -> Result<()> {
        match how(path) {
            Ok(()) => self.did("remove", path.as_os_str().as_encoded_bytes(), ""),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error).with_context(|| format!("cannot remove `{}`", path.display())),
        }
    }

    fn systemctl(&mut self, words: &[&str]) -> Result<()> {
        let line = format!("systemctl {}", words.join(" "));
        let output =
            Command::new("systemctl").args(words).output().with_context(|| format!("cannot run `{line}`"))?;
        if !output.status.success() {
            bail!("`{line}` failed: {}", format::safe_bytes(output.stderr.trim_ascii()));
        }
        self.did("run", line.as_bytes(), "")
    }
}

/// The program beside this one.
fn read_helper() -> Result<(PathBuf, Vec<u8>)> {
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let path = own.with_file_name(HELPER);
    let failed = || format!("cannot read `{}`, which is installed beside this program", path.display());
    let file = File::open(&path).with_context(failed)?;
    ensure!(file.metadata().with_context(failed)?.is_file(), "`{}` is not a file", path.display());
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes).with_context(failed)?;
    Ok((path, bytes))
}
