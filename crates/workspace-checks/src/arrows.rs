//! Who may use whom.
//!
//! [`LAYERS`] is the drawing in `docs/architecture.md` as data, for every crate of the design, also those that are still
//! to come. Four rules follow from it:
//! * [`GROUND`] lies below everything: every crate may use it, and it uses none.
//! * An ordinary or build dependency of a crate on another must be listed in the crate's row.
//! * A dev-dependency may go anywhere, so long as it does not close a circle: a test of `cas-core` that needs
//!   `manifest` belongs to `manifest`.
//! * Packages under `tests/`, `bench/` and `fuzz/` may use everything, and nothing may use them.
//!
//! Crates live in `crates/`, but for [`STAND_INS`], which live in `testing/`: parts that tests and demos run against, with a row
//! like any other crate, in nobody's row.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::metadata::{Metadata, Package};

/// What everybody needs. It is not repeated in the rows of [`LAYERS`].
pub const GROUND: &str = "base";

/// Each crate with the crates it may use beside [`GROUND`], lowest layer first.
pub const LAYERS: &[(&str, &[&str])] = &[
    ("workspace-checks", &[]),
    (GROUND, &[]),
    // The words of the wire, which those use that answer in them.
    ("api", &[]),
    // The store and what lies in it.
    ("cas-core", &[]),
    ("manifest", &["cas-core"]),
    ("remote", &["cas-core"]),
    // Files of other people's making, which hold neither store nor engine.
    ("checkpoint-archive", &[]),
    // The engines know neither the store nor each other.
    ("gpu-detect", &[]),
    ("checkpoint-cuda", &[]),
    ("checkpoint-criu", &[]),
    ("memory-path", &[]),
    ("sandbox", &[]),
    ("jupyter-bridge", &[]),
    // Containers of other runtimes, and what their processes have on GPUs.
    ("containers", &["gpu-detect"]),
    // A stand-in for the driver, for tests and demos: only ever a dev-dependency.
    ("cuda-sim", &[]),
    // What images of strangers may ask for, in the terms of a session's user.
    ("image-trust", &["sandbox"]),
    // What a machine can do for all of them.
    ("doctor", &["gpu-detect", "checkpoint-cuda", "checkpoint-criu", "sandbox", "cas-core"]),
    // Files go from a user's directories into the store and back.
    ("workspace", &["sandbox", "manifest", "cas-core"]),
    // Images go from CRIU's directories into the store and back.
    ("image-store", &["checkpoint-criu", "manifest", "cas-core"]),
    // All of it as a folder, for those who look.
    ("past", &["image-store", "manifest", "cas-core"]),
    // Where those directories are meanwhile.
    ("staging", &["cas-core"]),
    // What stands in the way of a snapshot, room for its images too.
    ("preflight", &["sandbox", "staging"]),
    // Who is taken off GPUs and who gets which, decided before anything is touched.
    ("gpu-plan", &["gpu-detect", "checkpoint-cuda", "sandbox", "preflight", "manifest"]),
    // What is done with commits, in the name of a session's user, and how they are shown; as archives of others they are looked at first.
    (
        "history",
        &["api", "sandbox", "image-store", "image-trust", "checkpoint-archive", "manifest", "cas-core"],
    ),
    // Rules for what happens by itself, which depends on what a kernel does.
    ("policy", &["jupyter-bridge"]),
    // What is written down of a session, and follows its history when that is encrypted.
    (
        "session-record",
        &[
            "api",
            "sandbox",
            "containers",
            "workspace",
            "staging",
            "history",
            "policy",
            "manifest",
            "cas-core",
        ],
    ),
    // Whether a snapshot would come up here.
    (
        "verdict",
        &["checkpoint-criu", "doctor", "workspace", "image-store", "session-record", "manifest", "cas-core"],
    ),
    // The pipelines, and what they need of a machine.
    (
        "lifecycle",
        &[
            "api",
            "checkpoint-criu",
            "sandbox",
            "jupyter-bridge",
            "doctor",
            "workspace",
            "image-store",
            "staging",
            "preflight",
            "history",
            "policy",
            "session-record",
            "verdict",
            "manifest",
            "cas-core",
        ],
    ),
    // The machine that the pipelines work on: the engines in their ports.
    (
        "machine",
        &[
            "api",
            "gpu-detect",
            "checkpoint-cuda",
            "checkpoint-criu",
            "memory-path",
            "sandbox",
            "containers",
            "image-trust",
            "doctor",
            "workspace",
            "preflight",
            "gpu-plan",
            "verdict",
            "lifecycle",
            "manifest",
        ],
    ),
    ("remote-history", &["history", "remote", "manifest", "cas-core"]),
    // The two programs at the ends of the wire.
    ("infinijupd", &["lifecycle", "machine", "api", "policy", "remote", "remote-history"]),
    (
        "cli",
        &[
            "api",
            "gpu-detect",
            "containers",
            "jupyter-bridge",
            "checkpoint-archive",
            "history",
            "past",
            "manifest",
            "remote",
            "remote-history",
            "cas-core",
        ],
    ),
];

/// Crates that take the place of something which the machine of a test does not have.
pub const STAND_INS: &[&str] = &["cuda-sim"];

/// Directories whose packages are tests: free to use everything, used by nothing.
const TEST_DIRECTORIES: &[&str] = &["tests", "bench", "fuzz"];

/// What breaks the rules above.
pub fn broken_arrows(metadata: &Metadata) -> Vec<String> {
    let members: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let tests: BTreeSet<&str> = metadata
        .packages
        .iter()
        .filter(|package| is_test_directory(metadata.directory(package)))
        .map(|package| package.name.as_str())
        .collect();

    let mut findings = Vec::new();
    for package in &metadata.packages {
        let directory = metadata.directory(package);
        if tests.contains(package.name.as_str()) {
            continue;
        }
        let Some(may_use) = row(&package.name) else {
            findings.push(format!(
                "the crate `{}` ({}) is not in the design: give it a row in LAYERS in \
                 crates/workspace-checks/src/arrows.rs and a place in docs/architecture.md, or move it under tests/ or bench/",
                package.name,
                directory.display()
            ));
            continue;
        };
        let home = home(&package.name);
        if directory != home {
            findings.push(format!(
                "the crate `{}` lives in {}, not in {}",
                package.name,
                directory.display(),
                home.display()
            ));
        }
        findings.extend(arrows_of(package, may_use, &members, &tests));
    }
    findings
}

fn arrows_of(
    package: &Package,
    may_use: &[&str],
    members: &BTreeSet<&str>,
    tests: &BTreeSet<&str>,
) -> Vec<String> {
    let from = package.name.as_str();
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let to = dependency.name.as_str();
        if !members.contains(to) {
            continue;
        }
        if tests.contains(to) {
            findings.push(format!("`{from}` uses `{to}`, which is a test package"));
        } else if dependency.is_dev() {
            if from != to && reach(to).contains(from) {
                findings.push(format!(
                    "the dev-dependency of `{from}` on `{to}` closes a circle: move the test that needs it up into `{to}`"
                ));
            }
        } else if !may_use.contains(&to) && (to != GROUND || from == GROUND) {
            findings.push(format!(
                "`{from}` uses `{to}`, but may use only [{}]: let `{from}` declare the trait it needs and the layer above \
                 wire it, or change the design first (docs/architecture.md, then LAYERS in \
                 crates/workspace-checks/src/arrows.rs)",
                may_use.join(", ")
            ));
        }
    }
    findings
}

/// Who may parse a command line: the programs that people start. Every library can be used without it.
const PARSERS: [&str; 2] = ["cli", "infinijupd"];

/// Among the crates of the product, who uses clap and is none of `PARSERS`. Test packages may parse their own.
pub fn clap_elsewhere(metadata: &Metadata) -> Vec<String> {
    metadata
        .packages
        .iter()
        .filter(|package| {
            !PARSERS.contains(&package.name.as_str()) && !is_test_directory(metadata.directory(package))
        })
        .flat_map(|package| package.dependencies.iter().map(move |dependency| (package, dependency)))
        .filter(|(_, dependency)| dependency.name == "clap" || dependency.name.starts_with("clap_"))
        .map(|(package, dependency)| {
            format!(
                "`{}` uses `{}`, which only programs may: {}",
                package.name,
                dependency.name,
                PARSERS.join(", ")
            )
        })
        .collect()
}

/// Where a crate belongs.
fn home(name: &str) -> PathBuf {
    Path::new(if STAND_INS.contains(&name) { "testing" } else { "crates" }).join(name)
}

fn is_test_directory(directory: &Path) -> bool {
    TEST_DIRECTORIES.iter().any(|tests| directory.starts_with(tests))
}

fn row(name: &str) -> Option<&'static [&'static str]> {
    LAYERS.iter().find(|(layer, _)| *layer == name).map(|(_, may_use)| *may_use)
}

/// Every crate that `name` may use, directly or through others.
fn reach(name: &str) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    let mut todo: Vec<&'static str> = row(name).unwrap_or_default().to_vec();
    if name != GROUND {
        todo.push(GROUND);
    }
    while let Some(next) = todo.pop() {
        if seen.insert(next) {
            todo.extend(row(next).unwrap_or_default());
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of `(directory, [(dependency, kind)])`; a package is named after its directory.
    fn workspace(packages: &[(&str, &[(&str, &str)])]) -> Metadata {
        let packages: Vec<_> = packages
            .iter()
            .map(|(directory, dependencies)| {
                let dependencies: Vec<_> = dependencies
                    .iter()
                    .map(|(name, kind)| {
                        let kind = if *kind == "normal" { None } else { Some(*kind) };
                        serde_json::json!({ "name": name, "kind": kind })
                    })
                    .collect();
                serde_json::json!({
                    "name": directory.rsplit('/').next(),
                    "version": "0.1.0",
                    "manifest_path": format!("/repo/{directory}/Cargo.toml"),
                    "rust_version": null,
                    "dependencies": dependencies,
                })
            })
            .collect();
        let json = serde_json::json!({ "packages": packages, "workspace_root": "/repo" });
        Metadata::parse(json.to_string().as_bytes()).unwrap()
    }

    #[track_caller]
    fn only_finding(metadata: &Metadata, text: &str) {
        let findings = broken_arrows(metadata);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains(text), "{findings:?}");
    }

    #[test]
    fn the_design_points_downward_only() {
        for (place, (name, may_use)) in LAYERS.iter().enumerate() {
            for used in *may_use {
                let below = LAYERS.iter().position(|(layer, _)| layer == used);
                assert!(
                    below.is_some_and(|below| below < place),
                    "`{name}` may use `{used}`, which is not below it"
                );
            }
        }
    }

    #[test]
    fn arrows_of_the_design_are_accepted() {
        let metadata = workspace(&[
            ("crates/cas-core", &[("blake3", "normal")]),
            ("crates/manifest", &[("cas-core", "normal")]),
            ("crates/cli", &[("manifest", "normal"), ("cas-core", "normal")]),
            ("tests/torture", &[("cli", "normal")]),
        ]);
        assert_eq!(broken_arrows(&metadata), Vec::<String>::new());
    }

    #[test]
    fn the_ground_is_for_everybody_and_uses_nobody() {
        let base: (&str, &[_]) = ("crates/base", &[]);
        for name in ["crates/cas-core", "crates/sandbox", "crates/cli"] {
            let metadata = workspace(&[(name, &[("base", "normal")]), base]);
            assert_eq!(broken_arrows(&metadata), Vec::<String>::new());
        }
        let upward: (&str, &[_]) = ("crates/base", &[("cas-core", "normal")]);
        only_finding(&workspace(&[upward, ("crates/cas-core", &[])]), "`base` uses `cas-core`");
        let circle: (&str, &[_]) = ("crates/base", &[("sandbox", "dev")]);
        only_finding(&workspace(&[circle, ("crates/sandbox", &[])]), "closes a circle");
    }

    #[test]
    fn an_arrow_upward_is_found() {
        let cas_core: (&str, &[_]) = ("crates/cas-core", &[("manifest", "normal")]);
        only_finding(&workspace(&[cas_core, ("crates/manifest", &[])]), "`cas-core` uses `manifest`");
    }

    #[test]
    fn an_engine_that_uses_another_or_the_store_is_found() {
        let engine: (&str, &[_]) = ("crates/checkpoint-criu", &[("checkpoint-cuda", "normal")]);
        only_finding(
            &workspace(&[engine, ("crates/checkpoint-cuda", &[])]),
            "`checkpoint-criu` uses `checkpoint-cuda`",
        );
        let engine: (&str, &[_]) = ("crates/sandbox", &[("cas-core", "build")]);
        only_finding(&workspace(&[engine, ("crates/cas-core", &[])]), "`sandbox` uses `cas-core`");
    }

    #[test]
    fn the_simulated_driver_is_for_tests_only() {
        let cuda_sim: (&str, &[_]) = ("testing/cuda-sim", &[]);
        let tested = workspace(&[("crates/checkpoint-cuda", &[("cuda-sim", "dev")]), cuda_sim]);
        assert_eq!(broken_arrows(&tested), Vec::<String>::new());
        let shipped = workspace(&[("crates/lifecycle", &[("cuda-sim", "normal")]), cuda_sim]);
        only_finding(&shipped, "`lifecycle` uses `cuda-sim`");
        only_finding(&workspace(&[("crates/cuda-sim", &[])]), "not in testing/cuda-sim");
        only_finding(&workspace(&[("testing/cas-core", &[])]), "not in crates/cas-core");
    }

    #[test]
    fn a_dev_dependency_may_not_close_a_circle() {
        let metadata = workspace(&[
            ("crates/cas-core", &[("lifecycle", "dev")]),
            ("crates/lifecycle", &[("manifest", "normal")]),
            ("crates/manifest", &[("cas-core", "normal")]),
        ]);
        only_finding(&metadata, "closes a circle");
    }

    #[test]
    fn an_unknown_crate_is_told_where_to_be_added() {
        only_finding(&workspace(&[("crates/utils", &[])]), "crates/workspace-checks/src/arrows.rs");
    }

    #[test]
    fn a_crate_in_the_wrong_place_and_a_used_test_package_are_found() {
        only_finding(&workspace(&[("tools/cas-core", &[])]), "lives in tools/cas-core");
        let api: (&str, &[_]) = ("crates/api", &[("torture", "dev")]);
        only_finding(&workspace(&[api, ("tests/torture", &[])]), "is a test package");
    }

    #[test]
    fn clap_is_for_programs_only() {
        let cli: (&str, &[_]) = ("crates/cli", &[("clap", "normal"), ("clap_complete", "normal")]);
        let daemon: (&str, &[_]) = ("crates/infinijupd", &[("clap", "normal")]);
        let bench: (&str, &[_]) = ("bench", &[("clap", "normal")]);
        assert_eq!(clap_elsewhere(&workspace(&[cli, daemon, bench])), Vec::<String>::new());
        for (name, kind) in [("clap", "normal"), ("clap_mangen", "build"), ("clap", "dev")] {
            let found = clap_elsewhere(&workspace(&[cli, ("crates/manifest", &[(name, kind)])]));
            assert_eq!(
                found,
                [format!("`manifest` uses `{name}`, which only programs may: cli, infinijupd")]
            );
        }
    }
}
