//! Compiles `src/keepname.c` to a shared library that `src/keepname.rs` embeds.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let source = "src/keepname.c";
    println!("cargo::rerun-if-changed={source}");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?).join("keepname.so");
    // The compiler that also builds SQLite and zstd, with its flags for this target.
    let mut compiler = cc::Build::new().pic(true).opt_level(2).warnings(true).get_compiler().to_command();
    compiler.args(["-shared", "-Wl,-s", source, "-ldl", "-o"]).arg(&out);
    let status = compiler.status().map_err(|error| format!("{compiler:?} cannot be run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{compiler:?} failed").into()) }
}
