//! The backup programs that the store is compared with.
//!
//! Both run with their defaults except for what makes the comparison fair: restic with `--compression auto` (its
//! default; zstd at its fastest level) and repository version 2, borg with `-C zstd,1` and no encryption. restic cannot
//! leave out its encryption. Caches live in the work directory, outside of the repository, and do not count as
//! repository growth. Each repository is new; making it is not timed.
//!
//! Durability, as seen with strace: restic 0.14 calls fsync on each pack, index and snapshot file and on its directory.
//! borg 1.2 calls fdatasync on each segment, fsync on index, hints and directories, at each commit. So when they end
//! their data is safe, as ours is, and nothing is added to their time. A sync of every file in the repository is done
//! afterwards all the same and reported as `sync_s`: if that were ever large, the sentence above would be wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::measure::{Timed, TreeSize, sync_tree, timed, tree_size};

/// Which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rival {
    /// restic.
    Restic,
    /// BorgBackup.
    Borg,
}

/// Both.
pub(crate) const RIVALS: [Rival; 2] = [Rival::Restic, Rival::Borg];

/// A new repository of a rival; removed when dropped.
pub(crate) struct Repository {
    rival: Rival,
    home: PathBuf,
}

/// One backup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backup {
    /// What it cost.
    pub(crate) took: Timed,
    /// Seconds for a sync of the whole repository afterwards, not part of the above.
    pub(crate) sync_s: f64,
    /// How much the repository grew.
    pub(crate) grew: TreeSize,
}

impl Rival {
    /// Name of the program.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Restic => "restic",
            Self::Borg => "borg",
        }
    }

    /// What it says of its version.
    pub(crate) fn version(self) -> Result<String> {
        let argument = if self == Self::Restic { "version" } else { "--version" };
        let output = Command::new(self.name())
            .arg(argument)
            .output()
            .with_context(|| format!("cannot run {}; bench/run installs it", self.name()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// A new, empty repository below `dir`.
    pub(crate) fn create(self, dir: &Path) -> Result<Repository> {
        let home = dir.join(self.name());
        if home.exists() {
            fs::remove_dir_all(&home).with_context(|| format!("cannot remove {}", home.display()))?;
        }
        fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
        let repository = Repository { rival: self, home };
        repository.run(match self {
            Self::Restic => &["init", "--repository-version", "2"],
            Self::Borg => &["init", "--encryption", "none"],
        })?;
        Ok(repository)
    }
}

impl Repository {
    fn path(&self) -> PathBuf {
        self.home.join("repo")
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(self.rival.name());
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env("HOME", &self.home)
            .env("RESTIC_REPOSITORY", self.path())
            .env("RESTIC_PASSWORD", "benchmark")
            .env("RESTIC_CACHE_DIR", self.home.join("cache"))
            .env("BORG_REPO", self.path())
            .env("BORG_BASE_DIR", self.home.join("borg"))
            .env("BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK", "yes");
        let output = command.output().with_context(|| format!("cannot run {}", self.rival.name()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} {} failed: {}", self.rival.name(), arguments.join(" "), said.trim());
        }
        Ok(())
    }

    /// Backs one file up; the programs make it durable themselves.
    pub(crate) fn backup(&self, file: &Path, name: &str) -> Result<Backup> {
        let before = tree_size(&self.path())?;
        let file = file.to_str().context("the work directory's name is not UTF-8")?;
        let archive = format!("::{name}");
        let arguments: &[&str] = match self.rival {
            Rival::Restic => &["backup", "--quiet", "--compression", "auto", file],
            Rival::Borg => &["create", "--compression", "zstd,1", &archive, file],
        };
        let ((), took) = timed(|| self.run(arguments))?;
        let ((), sync) = timed(|| sync_tree(&self.path()))?;
        let after = tree_size(&self.path())?;
        let grew = TreeSize {
            bytes: after.bytes.saturating_sub(before.bytes),
            allocated: after.allocated.saturating_sub(before.allocated),
        };
        Ok(Backup { took, sync_s: sync.wall_s, grew })
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        // A leftover costs disk space, nothing else; the next run removes it first.
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Versions of both, for the report.
pub(crate) fn versions() -> Result<Value> {
    Ok(json!({ "restic": Rival::Restic.version()?, "borg": Rival::Borg.version()? }))
}
