//! Programs that are used.

use std::path::PathBuf;

use crate::{Finding, Machine};

const INSTALL_CRIU: &str =
    "install CRIU 4.2 (`pip install \"infinijup[criu]\"` brings one along), or name one in INFINIJUP_CRIU";

pub(crate) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    vec![criu(machine), helper(machine), archiver(), pasta()]
}

fn criu(machine: &Machine<'_>) -> Finding {
    let Some(criu) = machine.criu else {
        return Finding::fail("criu", "not found", INSTALL_CRIU);
    };
    match criu.version() {
        Ok((major, minor, sub)) => {
            Finding::ok("criu", format!("{major}.{minor}.{sub} at {}", criu.path().display()))
        }
        Err(error) => Finding::fail("criu", format!("{}: {error}", criu.path().display()), INSTALL_CRIU),
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

/// What is in a session's `/dev/shm` is packed with it.
fn archiver() -> Finding {
    match in_path("tar") {
        Some(path) => Finding::ok("tar", format!("at {}", path.display())),
        None => Finding::fail(
            "tar",
            "not found: shared memory of sessions cannot be kept",
            "install the package tar",
        ),
    }
}

fn pasta() -> Finding {
    match sandbox::Pasta::find() {
        Some(path) if !sandbox::Pasta::has_node() => Finding::warn(
            "pasta",
            format!(
                "at {}, but /dev/net/tun cannot be opened: sessions cannot reach the outside",
                path.display()
            ),
            "as root, chmod 666 /dev/net/tun",
        ),
        Some(path) => Finding::ok("pasta", format!("at {}", path.display())),
        None => Finding::warn(
            "pasta",
            "not found: sessions with a private network cannot reach the outside",
            "install the package passt, or start sessions with `--network host`",
        ),
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
