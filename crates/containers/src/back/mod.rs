//! A container out of images: made by its runtime, from the specification that it has now.
//!
//! A restore of a container is two things. Somebody makes namespaces, mounts, devices, cgroups and limits as a specification says, and
//! CRIU puts processes into that. Whoever takes the first from a snapshot gives a stranger's archive the rights of root: that is what the
//! CVEs of CRI-O and containerd are about. So we never make it ourselves, and never hand over a specification that came with a snapshot. The
//! runtime's own restore does it (`runc restore`), as it would for a checkpoint that it had made itself.
//!
//! For that the images must look as if the runtime had made them. Our own dump writes them, because only so is the GPU locked while the
//! container runs, is memory stored by page, and does nobody freeze a cgroup first. What CRIU must be told for it is what runc's
//! `checkpoint` tells it; the names in it are a contract between the two commands of runc, and all of them are in [`surroundings()`]:
//!
//! | in the container | what CRIU is told at the dump | what `runc restore` answers with |
//! |---|---|---|
//! | its root directory | `root` | `root`: a new mount of what the specification names |
//! | a bind mount at `/data` | `external mnt[/data]:/data` | the source that the specification names now |
//! | a masked file, `/proc/kcore` | `external mnt[/proc/kcore]:/dev/null` | the machine's `/dev/null` |
//! | a masked directory, `/proc/acpi` | nothing: an empty tmpfs | CRIU mounts one |
//! | a device of the specification | `external mnt[/dev/x]:/dev/x` | the machine's device of that name |
//! | cgroups of version 1, without a cgroup namespace | `external mnt[/sys/fs/cgroup/memory]:…` for each | those of the new cgroup |
//! | a network or PID namespace that was joined | `external net[INODE]:extRootNetNS`, `pid[INODE]:extRootPidNS` | the one that the specification names |
//! | pipes as standard input, output and error | nothing | those in `descriptors.json` are replaced by runc's own |
//! | its cgroup | `manage_cgroups_mode SOFT` | the cgroup that the specification names |
//!
//! `descriptors.json` lies beside the images and has what 0, 1 and 2 of the first process were when it began, as the kernel writes it:
//! `["/dev/null","pipe:[4711]","pipe:[4712]"]`. runc has them in its `state.json`, from where they are taken ([`RuncState`]).
//!
//! `crun restore` wants the same, but for what it hides: a masked file or directory has its own path as its name, and crun answers with `/dev/null` or
//! with an empty directory (`crun`).
//!
//! Both find CRIU by its path, and so we say which one and how: a program `criu` of ours, which only adds options that runc has no
//! word for (`criu_program`). Connections come back closed, the network is not locked by rules of a packet filter, and no
//! plugin of CRIU's is loaded.
//!
//! A runtime that is killed in the middle must cost nobody anything: what runc mounts goes away with it (`own_mounts`), and processes that
//! were half made are found by their cgroup ([`Maker::end_strays`]).
//!
//! What a runtime does not restore comes back as it would after `runc checkpoint` and `runc restore`: rlimits, seccomp filters, capabilities and
//! users are the processes' own, and so from the images. Who may trust those is decided before ([`check()`] compares them with the specification).

mod address;
mod apart;
mod claimed;
mod containerd;
mod criu_program;
mod crun;
mod crun_left;
mod crun_state;
mod ending;
mod error;
#[cfg(test)]
mod forged;
mod judge;
mod maker;
mod own_cgroup;
mod own_mounts;
mod podman;
mod resolve;
mod restoring;
mod rights;
mod runc;
mod runc_state;
mod second_root;
mod stdio;
mod strays;
mod stuck;
mod surroundings;

pub use claimed::{Claimed, ClaimedMount, ClaimedThread};
pub use containerd::Containerd;
pub use crun::Crun;
pub use error::{BackError, Result};
pub use judge::check;
pub use maker::Maker;
pub use podman::Podman;
pub(crate) use resolve::inside;
pub use restoring::Restore;
pub use runc::Runc;
pub use runc_state::{DESCRIPTORS, Masks, RuncState};
pub use surroundings::{Surroundings, surroundings};
