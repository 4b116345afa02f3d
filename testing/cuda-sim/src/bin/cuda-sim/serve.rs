//! `cuda-sim serve`: the device server, until a signal ends it.
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use cuda_sim::faults::control;
use cuda_sim::server::{Config, Server, chips, listen};
use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::io::Errno;

use super::Words;

/// Removes the device nodes that it made.
struct Nodes(Vec<PathBuf>);

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &self.0 {
            drop(std::fs::remove_file(node));
        }
    }
}

pub(super) fn serve(words: &Words) -> Result<(), String> {
    let directory = words.directory()?;
    let config = config(words)?;
    // Before any thread starts, so that all have them blocked and only `wait` sees them.
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGTERM);
    ends.add(Signal::SIGINT);
    ends.thread_block().map_err(|cause| format!("signals: {cause}"))?;

    let server = Server::new(&config).map_err(|chip| format!("no chip {chip}"))?;
    server.set_root_only(match words.get("root-only") {
        Some("yes") => true,
        Some("no") | None => false,
        Some(word) => return Err(format!("--root-only is yes or no, not {word}")),
    });
    let count = server.gpus.len();
    let _nodes = words.get("devices").map(|at| make_nodes(Path::new(at), count)).transpose()?;
    let _listening =
        listen(&server, &directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    control::listen(&server, &directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    if let Ok(faults) = std::env::var("CUDA_SIM_FAULTS") {
        control::script(&server, &faults).map_err(|cause| format!("CUDA_SIM_FAULTS: {cause}"))?;
    }
    let uuids: Vec<String> = server.gpus.iter().map(|gpu| chips::uuid_text(&gpu.info.uuid)).collect();
    let ready =
        serde_json::json!({ "ready": true, "pid": std::process::id(), "level": config.level, "gpus": uuids });
    let _written = writeln!(std::io::stdout(), "{ready}");
    let _flushed = std::io::stdout().flush();
    ends.wait().map_err(|cause| format!("signals: {cause}"))?;
    Ok(())
}

fn config(words: &Words) -> Result<Config, String> {
    let chips: Vec<&str> = words.get("chip").unwrap_or("h100").split(',').collect();
    let count = match words.get("gpus") {
        Some(word) => word.parse().map_err(|_| format!("--gpus {word} is no number"))?,
        None => chips.len().max(2),
    };
    // More GPUs than names: the last name goes on.
    let chip = |index: usize| chips.get(index).or(chips.last()).copied().unwrap_or("h100").to_owned();
    Ok(Config {
        chips: (0..count).map(chip).collect(),
        memory: words.get("memory").map(bytes).transpose()?,
        level: words.level()?,
        uuid_seed: words.get("uuid-seed").unwrap_or("host").to_owned(),
        pcie: words.get("pcie").map(bytes).transpose()?,
    })
}

/// `24GiB`, `512MiB`, or plain bytes.
fn bytes(word: &str) -> Result<u64, String> {
    let (number, unit) =
        word.split_at(word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len()));
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("no size: {word}")),
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("no size: {word}"))
}

/// Device nodes with the names of the real ones. They are aliases of loop-control: everybody can open it, and CRIU cannot dump it.
///
/// Who may not make device nodes gets plain files. Clients open them all the same, but CRIU dumps a file that was left open
/// without a word: whether a checkpoint closes its devices can only be seen with real nodes.
fn make_nodes(at: &Path, gpus: usize) -> Result<Nodes, String> {
    let names = ["nvidiactl".to_owned(), "nvidia-uvm".to_owned()].into_iter();
    let mut made = Nodes(Vec::new());
    for name in names.chain((0..gpus).map(|index| format!("nvidia{index}"))) {
        let path = at.join(name);
        let ours = |known: std::fs::Metadata| known.file_type().is_char_device() || is_stand_in(&known);
        if path.symlink_metadata().is_ok_and(ours) {
            drop(std::fs::remove_file(&path));
        }
        let mode = Mode::from_raw_mode(0o666);
        let make = |kind, device| mknodat(rustix::fs::CWD, &path, kind, mode, device);
        match make(FileType::CharacterDevice, makedev(10, 237)) {
            Err(Errno::PERM) => make(FileType::RegularFile, 0),
            made => made,
        }
        .and_then(|()| rustix::fs::chmod(&path, mode))
        .map_err(|cause| format!("{}: {cause}", path.display()))?;
        made.0.push(path);
    }
    Ok(made)
}

/// What is made where no device node can be.
fn is_stand_in(known: &std::fs::Metadata) -> bool {
    known.is_file() && known.len() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("24GiB"), Ok(24 << 30));
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("2GB"), Err("no size: 2GB".to_owned()));
        assert_eq!(bytes("99999999999GiB"), Err("no size: 99999999999GiB".to_owned()));
    }
}
