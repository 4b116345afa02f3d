//! What may be in an archive, and under which names.

use std::fmt;

use crate::error::{ArchiveError, Result, shown};

/// The longest name of an image or a volume.
const LONGEST: usize = 200;

/// One file of an archive.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Member {
    /// What the engine knew of the container: name, image, runtime.
    Config,
    /// The OCI specification that it ran with.
    Spec,
    /// How it was doing, as CRI-O (`status.dump`) and containerd (`status`) say it.
    Status(&'static str),
    /// Addresses that it had.
    Network,
    /// CRIU's statistics of the dump.
    Stats,
    /// A log: CRIU's of the dump, the container's own.
    Log(&'static str),
    /// The files of its writable layer that were added or changed, as a tar file.
    Layer,
    /// The files of its image that were removed, as a JSON list.
    Deleted,
    /// What was in `/dev/shm`, as a tar file.
    SharedMemory,
    /// The files of a volume, as a tar file.
    Volume(String),
    /// One of CRIU's images.
    Image(String),
}

/// The directory of CRIU's images, and that of volumes.
pub(crate) const IMAGES: &str = "checkpoint";
pub(crate) const VOLUMES: &str = "volumes";
/// Files of podman's own that nothing needs.
const ARTIFACTS: &str = "artifacts";

/// What stands at a path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum At {
    Member(Member),
    /// Not known, and not needed: it is left where it is.
    LeftOut,
}

impl Member {
    /// What a file with this path is.
    pub(crate) fn at(parts: &[&[u8]]) -> Result<At> {
        let whole = || shown(&parts.join(&b'/'));
        let mut names = Vec::with_capacity(parts.len());
        for part in parts {
            match std::str::from_utf8(part) {
                Ok(part) if is_plain(part) => names.push(part),
                _ => return Err(ArchiveError::Name { name: whole(), why: "it is not a plain name" }),
            }
        }
        Ok(At::Member(match names.as_slice() {
            ["config.dump"] => Self::Config,
            ["spec.dump"] => Self::Spec,
            ["status.dump"] => Self::Status("status.dump"),
            ["status"] => Self::Status("status"),
            ["network.status"] => Self::Network,
            ["stats-dump"] => Self::Stats,
            ["dump.log"] => Self::Log("dump.log"),
            ["ctr.log"] => Self::Log("ctr.log"),
            ["container.log"] => Self::Log("container.log"),
            ["rootfs-diff.tar"] => Self::Layer,
            ["deleted.files"] => Self::Deleted,
            ["devshm-checkpoint.tar"] => Self::SharedMemory,
            [VOLUMES, file] if file.len() > ".tar".len() && file.ends_with(".tar") => {
                Self::Volume(file.trim_end_matches(".tar").to_owned())
            }
            [IMAGES, image] => Self::Image((*image).to_owned()),
            ["pod.dump" | "pod.options"] => {
                return Err(ArchiveError::NotAnArchive { detail: "it is one of a whole pod".to_owned() });
            }
            ["pre-checkpoint", ..] => {
                return Err(ArchiveError::NotAnArchive {
                    detail: "it has only the memory that was copied ahead of a checkpoint".to_owned(),
                });
            }
            [_] | [ARTIFACTS, ..] => return Ok(At::LeftOut),
            _ => return Err(ArchiveError::Name { name: whole(), why: "no engine writes such a file" }),
        }))
    }

    /// Whether a directory with this path may be there.
    pub(crate) fn check_directory(parts: &[&[u8]]) -> Result<()> {
        match parts {
            [] => Ok(()),
            [one] if [IMAGES, VOLUMES, ARTIFACTS].iter().any(|known| known.as_bytes() == *one) => Ok(()),
            _ => Err(ArchiveError::Name {
                name: shown(&parts.join(&b'/')),
                why: "no engine makes such a directory",
            }),
        }
    }

    /// Whether it is JSON.
    pub fn is_json(&self) -> bool {
        matches!(self, Self::Config | Self::Spec | Self::Status(_) | Self::Network | Self::Deleted)
    }

    /// Whether it is a tar file with files of the container.
    pub fn is_files(&self) -> bool {
        matches!(self, Self::Layer | Self::SharedMemory | Self::Volume(_))
    }

    /// A volume; `None` if its name cannot be one.
    pub fn volume(name: &str) -> Option<Self> {
        is_plain(name).then(|| Self::Volume(name.to_owned()))
    }

    /// An image; `None` if its name cannot be one.
    pub fn image(name: &str) -> Option<Self> {
        is_plain(name).then(|| Self::Image(name.to_owned()))
    }

    /// The member with this path; `None` if there is no such member.
    pub fn named(path: &str) -> Option<Self> {
        let parts: Vec<&[u8]> = path.as_bytes().split(|byte| *byte == b'/').collect();
        match Self::at(&parts) {
            Ok(At::Member(member)) => Some(member),
            _ => None,
        }
    }
}

/// Its path in an archive.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => f.write_str("config.dump"),
            Self::Spec => f.write_str("spec.dump"),
            Self::Network => f.write_str("network.status"),
            Self::Stats => f.write_str("stats-dump"),
            Self::Status(name) | Self::Log(name) => f.write_str(name),
            Self::Layer => f.write_str("rootfs-diff.tar"),
            Self::Deleted => f.write_str("deleted.files"),
            Self::SharedMemory => f.write_str("devshm-checkpoint.tar"),
            Self::Volume(name) => write!(f, "{VOLUMES}/{name}.tar"),
            Self::Image(name) => write!(f, "{IMAGES}/{name}"),
        }
    }
}

/// CRIU's images and podman's volumes are called like this, and so is everything else that an engine puts there.
fn is_plain(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Result<At> {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        Member::at(&parts)
    }

    #[test]
    fn members_have_one_path_each() {
        for path in [
            "config.dump",
            "spec.dump",
            "status",
            "status.dump",
            "network.status",
            "stats-dump",
            "dump.log",
            "ctr.log",
            "rootfs-diff.tar",
            "deleted.files",
            "devshm-checkpoint.tar",
            "volumes/my_vol.1.tar",
            "checkpoint/core-1.img",
            "checkpoint/tmpfs-dev-73.tar.gz.img",
            "checkpoint/descriptors.json",
        ] {
            let member = Member::named(path).unwrap();
            assert_eq!(member.to_string(), path);
        }
        assert_eq!(at("io.kubernetes.cri-o.LogPath").unwrap(), At::LeftOut);
        assert_eq!(at("artifacts/create-config").unwrap(), At::LeftOut);
    }

    #[test]
    fn other_paths_are_refused() {
        for path in [
            "checkpoint/a/b",
            "checkpoint/.hidden",
            "checkpoint/a b",
            "checkpoint/ä.img",
            "volumes/a.tar/b",
            "volumes/.tar",
            "volumes/a",
            "etc/passwd",
            ".wh.config.dump",
            "a\nb",
            "-rf",
        ] {
            assert_eq!(at(path).unwrap_err().code(), "IJ-A021", "{path}");
        }
        assert_eq!(at("pod.dump").unwrap_err().code(), "IJ-A002");
        assert_eq!(at("pre-checkpoint/pages-1.img").unwrap_err().code(), "IJ-A002");
        let directory = |path: &str| {
            let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
            Member::check_directory(&parts)
        };
        directory("checkpoint").unwrap();
        assert_eq!(directory("checkpoint/x").unwrap_err().code(), "IJ-A021");
        assert_eq!(directory("etc").unwrap_err().code(), "IJ-A021");
    }
}
