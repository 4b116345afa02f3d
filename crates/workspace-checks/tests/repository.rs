//! The rules of the house, applied to the repository as it is.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use workspace_checks::files::{self, TextFile};
use workspace_checks::metadata::Metadata;
use workspace_checks::{arrows, circles, errors, links, manifests, programs, sizes, unsafe_code};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn metadata(options: &[&str]) -> Metadata {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(options)
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Metadata::parse(&output.stdout).unwrap()
}

fn members() -> Metadata {
    let metadata = metadata(&["--no-deps"]);
    assert!(
        metadata.packages.iter().any(|package| package.name == "cas-core"),
        "cargo listed no crates of ours"
    );
    metadata
}

fn read(path: &str) -> TextFile {
    TextFile::new(path, std::fs::read_to_string(root().join(path)).unwrap())
}

#[track_caller]
fn nothing(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn arrows_between_crates_are_those_of_the_design() {
    nothing(arrows::broken_arrows(&members()));
}

#[test]
fn the_drawing_shows_every_crate_of_the_design() {
    let drawing = read("docs/architecture.md");
    let shown = |name: &str| drawing.text.lines().any(|line| line.starts_with(&format!("| `{name}` |")));
    let missing = arrows::LAYERS.iter().filter(|(name, _)| !shown(name));
    nothing(missing.map(|(name, _)| format!("docs/architecture.md has no row for `{name}`")).collect());
}

#[test]
fn only_the_command_line_parses_command_lines() {
    nothing(arrows::clap_elsewhere(&members()));
}

#[test]
fn no_profile_aborts_on_panic() {
    let tomls = files::below(&root(), ".toml").unwrap();
    assert!(tomls.iter().any(|toml| toml.path == Path::new("Cargo.toml")));
    nothing(manifests::aborting_panics(&tomls));
}

#[test]
fn members_inherit_lints_and_versions() {
    let metadata = members();
    let manifests = metadata.packages.iter().map(|package| metadata.directory(package).join("Cargo.toml"));
    nothing(manifests.flat_map(|path| manifests::not_inherited(&read(path.to_str().unwrap()))).collect());
}

/// There is no old compiler on the build machines, so this and clippy's `incompatible_msrv` stand in for one.
#[test]
fn no_dependency_asks_for_a_newer_compiler_than_we_promise() {
    let root = read("Cargo.toml");
    let everything = metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"]);
    nothing(manifests::newer_than_msrv(&everything, manifests::msrv(&root).unwrap()));
}

#[test]
fn every_error_code_has_a_page() {
    let mut sources = files::below(&root(), ".rs").unwrap();
    // The examples in this crate's own tests are not codes of the product.
    sources
        .retain(|file| file.path.starts_with("crates") && !file.path.starts_with("crates/workspace-checks"));
    assert!(sources.iter().any(|file| file.text.contains("\"IJ-S001\"")), "the store's codes were not found");
    let (index, pages) = files::below(&root(), ".md")
        .unwrap()
        .into_iter()
        .filter(|file| file.path.starts_with("docs/errors"))
        .partition::<Vec<_>, _>(|file| file.path.ends_with("README.md"));
    nothing(errors::broken_pages(&sources, &pages, &index[0].text));
}

#[test]
fn unsafe_stands_only_where_c_is_spoken() {
    let sources = files::below(&root(), ".rs").unwrap();
    let speaks_c = |file: &TextFile| file.path.starts_with("crates/checkpoint-cuda/src/sys");
    assert!(sources.iter().any(speaks_c), "the FFI was not found");
    nothing(unsafe_code::outside_the_fence(&sources));
}

#[test]
fn files_of_a_crate_do_not_use_each_other_in_circles() {
    let sources = files::below(&root(), ".rs").unwrap();
    for name in circles::CHECKED {
        assert!(circles::files_of(&sources, name).count() > 10, "the files of {name} were not found");
    }
    nothing(circles::CHECKED.iter().flat_map(|name| circles::circles(&sources, name)).collect());
}

#[test]
fn no_file_has_two_subjects() {
    let sources = files::below(&root(), ".rs").unwrap();
    assert!(sources.len() > 500, "only {} files were found", sources.len());
    nothing(sizes::too_long(&sources));
}

#[test]
fn the_pipelines_leave_knowledge_to_the_rooms() {
    let sources = files::below(&root(), ".rs").unwrap();
    for (name, _) in sizes::MOST_OF_CRATES {
        assert!(circles::files_of(&sources, name).count() > 10, "the files of {name} were not found");
    }
    nothing(sizes::too_large(&sources));
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = files::below(&root(), ".md").unwrap();
    assert!(!documents.is_empty());
    nothing(links::dead_links(&documents, |path| root().join(path).exists()));
}

#[test]
fn what_is_installed_are_all_programs() {
    let (list, deb) = (read("python/infinijup/programs.txt"), read("crates/cli/Cargo.toml"));
    nothing(programs::disagreements(&members(), &list, &deb));
}
