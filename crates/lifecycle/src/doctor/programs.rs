//! Programs that are used.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::{Finding, Machine};

const INSTALL_CRIU: &str =
    "install CRIU 4.2 (scripts/install-criu.sh puts it beside the system), or name it in INFINIJUP_CRIU";

pub(super) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    vec![criu(machine), criu_check(machine), helper(machine), archivers(), pasta(), firewall()]
}

fn criu(machine: &Machine<'_>) -> Finding {
    let Some(criu) = machine.criu else {
        return Finding::fail("criu", "not found", INSTALL_CRIU);
    };
    match criu.probe() {
        Ok(probe) => {
            let (major, minor, sub) = probe.version;
            Finding::ok("criu", format!("{major}.{minor}.{sub} at {}", criu.path().display()))
        }
        Err(error) => Finding::fail("criu", format!("{}: {error}", criu.path().display()), INSTALL_CRIU),
    }
}

/// CRIU's own check of the kernel.
fn criu_check(machine: &Machine<'_>) -> Finding {
    let item = "criu check";
    let Some(criu) = machine.criu else {
        return Finding::fail(item, "there is no CRIU to ask", INSTALL_CRIU);
    };
    let output =
        Command::new("timeout").arg("30").arg(criu.path()).arg("check").stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Finding::ok(item, "looks good"),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let telling =
                said.lines().find(|line| line.contains("Error")).or(said.lines().last()).unwrap_or("nothing");
            Finding::warn(
                item,
                format!("CRIU said: {telling}"),
                "what it names is missing in the kernel; the trial below shows whether it matters",
            )
        }
        Err(error) => Finding::warn(item, format!("cannot be run: {error}"), INSTALL_CRIU),
    }
}

fn helper(machine: &Machine<'_>) -> Finding {
    match machine.program {
        Some(program) => Finding::ok("infinijup-box", format!("at {}", program.path().display())),
        None => Finding::fail(
            "infinijup-box",
            "not found",
            "install it beside infinijupd or in /usr/lib/infinijup, or name it in INFINIJUP_BOX",
        ),
    }
}

/// CRIU packs what is in a session's `/dev/shm` with these.
fn archivers() -> Finding {
    let missing: Vec<&str> = ["tar", "gzip"].into_iter().filter(|name| in_path(name).is_none()).collect();
    if missing.is_empty() {
        return Finding::ok("tar and gzip", "there: shared memory of sessions can be kept");
    }
    Finding::fail(
        "tar and gzip",
        format!("missing: {}", missing.join(", ")),
        "install the packages tar and gzip",
    )
}

fn pasta() -> Finding {
    match sandbox::Pasta::find() {
        Some(path) => Finding::ok("pasta", format!("at {}", path.display())),
        None => Finding::warn(
            "pasta",
            "not found: sessions with a private network cannot reach the outside",
            "install the package passt, or start sessions with `--network host`",
        ),
    }
}

fn firewall() -> Finding {
    let found = ["iptables", "nft"].into_iter().filter_map(in_path).map(|path| path.display().to_string());
    let found = found.collect::<Vec<_>>();
    let shown = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    Finding::ok("firewall tools", format!("not needed (there: {shown})"))
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
