//! `daemon install`: units for the user's own systemd, which holds the socket and starts the daemon when something connects.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use api::{Places, Text, places};
use serde::Serialize;

use super::starter;
use crate::context::Context;
use crate::error::CliError;

const SERVICE: &str = include_str!("../../../../../deploy/systemd/user/infinijupd.service");
const SOCKET: &str = include_str!("../../../../../deploy/systemd/user/infinijupd.socket");
const NAMES: [&str; 2] = ["infinijupd.service", "infinijupd.socket"];
/// What is there in the units for the place of what is known here.
const PROGRAM: &str = "ExecStart=/usr/bin/infinijupd";
const LISTEN: &str = "ListenStream=%t/infinijup/infinijupd.sock";
/// What moves a daemon's things, and must be known to the one that systemd starts too.
const VARIABLES: [&str; 3] = [places::STATE_VARIABLE, places::RUN_VARIABLE, places::SETTINGS_VARIABLE];

#[derive(Serialize)]
struct Units {
    message_type: &'static str,
    units: Vec<Text>,
}

pub(super) fn install(context: &Context, places: &Places) -> Result<()> {
    systemctl(&["show-environment"])?;
    let program = starter::find()?;
    let directory = directory()?;
    fs::create_dir_all(&directory).with_context(|| format!("cannot create `{}`", directory.display()))?;
    let set =
        |name: &str| Some(format!("{name}={}", std::env::var(name).ok().filter(|value| !value.is_empty())?));
    let environment: Vec<String> = VARIABLES.iter().filter_map(|name| set(name)).collect();
    for (name, content) in [(NAMES[0], service(&program, &environment)), (NAMES[1], socket(&places.socket))] {
        let path = directory.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    // One that was started otherwise has the socket; systemd takes it over.
    super::end(context, places)?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["enable", "--now", NAMES[1]])?;
    tell(context, "daemon_installed", installed(), "systemd starts the daemon when something connects")
}

pub(super) fn uninstall(context: &Context) -> Result<()> {
    let there = installed();
    if there.is_empty() {
        return tell(context, "daemon_uninstalled", there, "nothing was installed");
    }
    // Where systemd does not run any more, the files can go all the same.
    let _ = systemctl(&["disable", "--now", NAMES[1]]);
    let _ = systemctl(&["stop", NAMES[0]]);
    for path in &there {
        fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    let _ = systemctl(&["daemon-reload"]);
    tell(context, "daemon_uninstalled", there, "commands start the daemon by themselves again")
}

fn tell(context: &Context, message_type: &'static str, units: Vec<PathBuf>, line: &str) -> Result<()> {
    let units = units.into_iter().map(Into::into).collect();
    Ok(context.printer.data(&Units { message_type, units }, &[line.to_owned()])?)
}

/// The units that are there.
pub(super) fn installed() -> Vec<PathBuf> {
    let Ok(directory) = directory() else { return Vec::new() };
    NAMES.iter().map(|name| directory.join(name)).filter(|path| path.exists()).collect()
}

/// Where the user's units are.
fn directory() -> Result<PathBuf> {
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = match config {
        Some(config) => config,
        None => std::env::home_dir().context("cannot tell which directory is your home")?.join(".config"),
    };
    Ok(config.join("systemd/user"))
}

fn systemctl(words: &[&str]) -> Result<()> {
    let refused = |why: String| CliError::NoServiceManager { why };
    let output = Command::new("systemctl")
        .arg("--user")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| refused(format!("systemctl cannot be run: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or("it does not say why").to_owned();
    Err(refused(format!("systemctl --user {}: {said}", words.join(" "))).into())
}

fn service(program: &Path, environment: &[String]) -> String {
    let mut lines = format!("ExecStart={}", quoted(&program.to_string_lossy()));
    for variable in environment {
        lines.push_str(&format!("\nEnvironment={}", quoted(variable)));
    }
    SERVICE.replace(PROGRAM, &lines)
}

fn socket(path: &Path) -> String {
    SOCKET.replace(LISTEN, &format!("ListenStream={}", path.to_string_lossy().replace('%', "%%")))
}

/// A word as systemd reads it.
fn quoted(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_name_what_is_here() {
        let service =
            service(Path::new("/home/ada lovelace/50%/infinijupd"), &["INFINIJUP_STATE=/s".to_owned()]);
        assert!(service.contains(
            "ExecStart=\"/home/ada lovelace/50%%/infinijupd\"\nEnvironment=\"INFINIJUP_STATE=/s\"\n"
        ));
        assert!(!service.contains("/usr/bin"), "{service}");
        assert!(service.contains("KillMode=process"), "sessions outlive the daemon");
        // Any filter of system calls makes CRIU fail.
        for option in
            ["SystemCallFilter", "RestrictNamespaces", "Protect", "Private", "MemoryDeny", "LockPersonality"]
        {
            assert!(!service.lines().any(|line| line.starts_with(option)), "{option}");
        }
        assert!(
            socket(Path::new("/run/user/7/infinijup/infinijupd.sock"))
                .contains("ListenStream=/run/user/7/infinijup/")
        );
        assert!(SOCKET.contains("SocketMode=0600") && SOCKET.contains("DirectoryMode=0700"));
    }
}
