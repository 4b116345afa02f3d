//! The part of `cargo metadata` that the rules look at.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The workspace, as cargo sees it.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    /// With `--no-deps` the members of the workspace, otherwise everything that takes part in a build.
    pub packages: Vec<Package>,
    /// Where the root manifest is.
    pub workspace_root: PathBuf,
}

/// One package.
#[derive(Debug, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `Cargo.toml`.
    pub manifest_path: PathBuf,
    /// The oldest compiler it promises to build with.
    pub rust_version: Option<String>,
    /// What it says it depends on.
    pub dependencies: Vec<Dependency>,
    /// What is built from it.
    #[serde(default)]
    pub targets: Vec<Target>,
}

/// A library, program or test of a package.
#[derive(Debug, Deserialize)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// "bin" for a program.
    pub kind: Vec<String>,
}

/// One line under `[dependencies]`, `[dev-dependencies]` or `[build-dependencies]`.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    /// The package depended on.
    pub name: String,
    /// `None` for an ordinary dependency, else "dev" or "build".
    pub kind: Option<String>,
}

impl Dependency {
    /// Whether only tests, examples and benchmarks see it.
    pub fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Metadata {
    /// Reads cargo's JSON.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// A package's directory, seen from the root: `crates/cas-core`.
    pub fn directory<'a>(&self, package: &'a Package) -> &'a Path {
        let directory = package.manifest_path.parent().unwrap_or(&package.manifest_path);
        directory.strip_prefix(&self.workspace_root).unwrap_or(directory)
    }
}
