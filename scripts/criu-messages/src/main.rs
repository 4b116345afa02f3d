//! Makes `crates/checkpoint-criu/src/messages/*.rs` from `crates/checkpoint-criu/proto/*.proto`, without a `protoc` program.
//!
//! ```console
//! $ cargo run --manifest-path scripts/criu-messages/Cargo.toml
//! ```
//!
//! Each file begins with two fingerprints, of the description and of what was made from it. A test compares both
//! (`crates/checkpoint-criu/tests/messages.rs`), so that neither is changed without the other.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/checkpoint-criu");
    let (proto, out) = (crate_dir.join("proto"), crate_dir.join("src/messages"));
    let mut names = Vec::new();
    for entry in fs::read_dir(&proto).with_context(|| format!("cannot list {}", proto.display()))? {
        let path = entry?.path();
        names.push(path.file_stem().context("a file without a name")?.to_string_lossy().into_owned());
    }
    let descriptions = protox::compile(names.iter().map(|name| format!("{name}.proto")), [&proto])?;
    // One file for each package, which is named as its description is.
    prost_build::Config::new().out_dir(&out).compile_fds(descriptions)?;
    for name in names {
        let description = fs::read(proto.join(format!("{name}.proto")))?;
        let path = out.join(format!("{name}.rs"));
        let made = fs::read_to_string(&path).with_context(|| format!("{name}.proto is of another package"))?;
        let head = format!(
            "// From proto/{name}.proto: {}\n// What follows: {}\n",
            blake3::hash(&description),
            blake3::hash(made.as_bytes()),
        );
        fs::write(&path, head + &made)?;
    }
    Ok(())
}
