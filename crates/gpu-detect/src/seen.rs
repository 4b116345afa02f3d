//! What was read of one process, before it is judged.

use crate::object::Object;

/// A mapping that matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenMapping {
    pub(crate) object: Object,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) permissions: String,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

impl SeenMapping {
    /// As the kernel writes it, without what says nothing to people.
    pub(crate) fn line(&self) -> String {
        let Self { start, end, permissions, offset, path, .. } = self;
        format!("{start:x}-{end:x} {permissions} {offset:08x} {path}")
    }
}

/// An open file that matters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SeenFile {
    pub(crate) object: Object,
    pub(crate) number: i32,
    pub(crate) path: String,
}

/// One process.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) comm: String,
    pub(crate) cgroup: String,
    pub(crate) mappings: Vec<SeenMapping>,
    pub(crate) files: Vec<SeenFile>,
    /// Names of its threads, the leader's first.
    pub(crate) threads: Vec<String>,
    /// What its environment held when it was started: variables that tell something of GPUs.
    pub(crate) environment: Vec<(String, String)>,
    /// Names of unix sockets that it holds.
    pub(crate) sockets: Vec<String>,
    /// Names of sockets of the multi-process service that it would use, whoever holds them.
    pub(crate) services: Vec<String>,
}

impl Seen {
    /// Whether there is anything to judge.
    pub(crate) fn matters(&self) -> bool {
        self.mappings.iter().map(|mapping| mapping.object).any(Object::means_gpu)
            || self.files.iter().map(|file| file.object).any(Object::means_gpu)
    }

    pub(crate) fn maps(&self, object: Object) -> bool {
        self.mappings.iter().any(|mapping| mapping.object == object)
    }

    /// Open device files of the driver.
    pub(crate) fn device_files(&self) -> impl Iterator<Item = &SeenFile> {
        self.files.iter().filter(|file| file.object.is_device())
    }

    /// Mapped device files of the driver.
    pub(crate) fn device_mappings(&self) -> impl Iterator<Item = &SeenMapping> {
        self.mappings.iter().filter(|mapping| mapping.object.is_device())
    }

    /// A thread of the driver's: `cuda` and hexadecimal digits, or `cuda-EvtHandlr`.
    pub(crate) fn driver_thread(&self) -> Option<&str> {
        self.threads.iter().skip(1).map(String::as_str).find(|name| {
            name.strip_prefix("cuda").is_some_and(|rest| {
                rest.starts_with("-Evt")
                    || (rest.len() >= 4 && rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
            })
        })
    }

    /// Where it would look for the multi-process service, if it was told.
    pub(crate) fn service_directory(&self) -> Option<&str> {
        self.variable("CUDA_MPS_PIPE_DIRECTORY").filter(|directory| !directory.is_empty())
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Whether a variable tells something of GPUs.
pub(crate) fn is_telling(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"CUDA_VISIBLE_DEVICES",
        b"NVIDIA_VISIBLE_DEVICES",
        b"CUDA_CHECKPOINT_JOB_FILE",
        b"FI_HMEM_CUDA_USE_GDRCOPY",
    ];
    name.starts_with(b"NCCL_") || name.starts_with(b"CUDA_MPS_") || NAMES.contains(&name)
}
