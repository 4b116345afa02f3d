//! What an image says about a process: who it is, what it may do, which namespaces it lives in.
//!
//! Messages of our own for the fields that we use, with CRIU's field numbers. Unknown fields are skipped.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// `inventory.img`: about the dump as a whole.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Inventory {
    /// Version of the image format.
    #[prost(uint32, required, tag = "1")]
    pub img_version: u32,
    /// Namespaces and shared resources of the process that CRIU itself was, to tell which namespaces were the host's.
    #[prost(message, optional, tag = "3")]
    pub root_ids: Option<Ids>,
    /// The sort of LSM: 0 none, 1 SELinux, 2 AppArmor.
    #[prost(int32, optional, tag = "6")]
    pub lsm_type: Option<i32>,
    /// Uptime at the dump, microseconds.
    #[prost(uint64, optional, tag = "8")]
    pub dump_uptime: Option<u64>,
    /// Established TCP connections come back closed.
    #[prost(bool, optional, tag = "10")]
    pub tcp_close: Option<bool>,
    /// Plugins that the restore asks for.
    #[prost(message, optional, tag = "12")]
    pub plugins: Option<Plugins>,
}

/// Plugins that took part in a dump and are wanted at its restore.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Plugins {
    /// Their names.
    #[prost(bytes = "vec", repeated, tag = "12")]
    pub names: Vec<Vec<u8>>,
}

/// `ids-*.img`: numbers of what a process shares with others. Equal numbers mean the same thing.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Ids {
    /// Address space.
    #[prost(uint32, required, tag = "1")]
    pub vm: u32,
    /// Table of descriptors: the number in the name of `fdinfo-*.img`.
    #[prost(uint32, required, tag = "2")]
    pub files: u32,
    /// Working directory and root.
    #[prost(uint32, required, tag = "3")]
    pub fs: u32,
    /// Signal handlers.
    #[prost(uint32, required, tag = "4")]
    pub sighand: u32,
    /// PID namespace.
    #[prost(uint32, optional, tag = "5")]
    pub pid_ns: Option<u32>,
    /// Network namespace.
    #[prost(uint32, optional, tag = "6")]
    pub net_ns: Option<u32>,
    /// IPC namespace.
    #[prost(uint32, optional, tag = "7")]
    pub ipc_ns: Option<u32>,
    /// UTS namespace.
    #[prost(uint32, optional, tag = "8")]
    pub uts_ns: Option<u32>,
    /// Mount namespace.
    #[prost(uint32, optional, tag = "9")]
    pub mnt_ns: Option<u32>,
    /// User namespace.
    #[prost(uint32, optional, tag = "10")]
    pub user_ns: Option<u32>,
    /// Cgroup namespace.
    #[prost(uint32, optional, tag = "11")]
    pub cgroup_ns: Option<u32>,
    /// Time namespace.
    #[prost(uint32, optional, tag = "12")]
    pub time_ns: Option<u32>,
}

/// `pstree.img`: one process of the tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct PstreeEntry {
    /// Its pid, in its PID namespace.
    #[prost(uint32, required, tag = "1")]
    pub pid: u32,
    /// Its parent, 0 for the root.
    #[prost(uint32, required, tag = "2")]
    pub ppid: u32,
    /// Its process group.
    #[prost(uint32, required, tag = "3")]
    pub pgid: u32,
    /// Its session.
    #[prost(uint32, required, tag = "4")]
    pub sid: u32,
    /// Its threads, itself among them.
    #[prost(uint32, repeated, packed = "false", tag = "5")]
    pub threads: Vec<u32>,
}

/// `core-*.img`: one thread. What belongs to the process is only in the image of its main thread.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Core {
    /// Processor architecture, 1 for x86-64.
    #[prost(int32, required, tag = "1")]
    pub mtype: i32,
    /// What belongs to the process.
    #[prost(message, optional, tag = "3")]
    pub task: Option<TaskCore>,
    /// Shared resources, in images of old versions.
    #[prost(message, optional, tag = "4")]
    pub ids: Option<Ids>,
    /// What belongs to the thread.
    #[prost(message, optional, tag = "5")]
    pub thread: Option<ThreadCore>,
}

/// The part of [`Core`] that belongs to the process.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TaskCore {
    /// 1 alive, 2 dead, 3 stopped, 6 zombie.
    #[prost(uint32, required, tag = "1")]
    pub state: u32,
    /// Exit code of a zombie.
    #[prost(uint32, required, tag = "2")]
    pub exit_code: u32,
    /// Personality.
    #[prost(uint32, required, tag = "3")]
    pub personality: u32,
    /// Name as `ps` shows it.
    #[prost(bytes = "vec", required, tag = "6")]
    pub comm: Vec<u8>,
    /// Resource limits, by the kernel's numbers.
    #[prost(message, optional, tag = "8")]
    pub rlimits: Option<Rlimits>,
    /// Old place of the seccomp mode.
    #[prost(int32, optional, tag = "11")]
    pub old_seccomp_mode: Option<i32>,
    /// Login uid.
    #[prost(uint32, optional, tag = "13")]
    pub loginuid: Option<u32>,
    /// OOM score adjustment.
    #[prost(int32, optional, tag = "14")]
    pub oom_score_adj: Option<i32>,
    /// Whether it is a subreaper.
    #[prost(bool, optional, tag = "18")]
    pub child_subreaper: Option<bool>,
}

/// Resource limits of a process, in the order of the kernel's numbers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Rlimits {
    /// One for each resource.
    #[prost(message, repeated, tag = "1")]
    pub limits: Vec<Rlimit>,
}

/// A resource limit; `u64::MAX` is "no limit".
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Rlimit {
    /// The limit that holds.
    #[prost(uint64, required, tag = "1")]
    pub current: u64,
    /// How far the process may raise it.
    #[prost(uint64, required, tag = "2")]
    pub max: u64,
}

/// The part of [`Core`] that belongs to the thread.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ThreadCore {
    /// Nice value.
    #[prost(sint32, optional, tag = "3")]
    pub nice: Option<i32>,
    /// Scheduling policy.
    #[prost(uint32, optional, tag = "4")]
    pub sched_policy: Option<u32>,
    /// Real-time priority.
    #[prost(uint32, optional, tag = "5")]
    pub sched_priority: Option<u32>,
    /// Who it is.
    #[prost(message, optional, tag = "10")]
    pub credentials: Option<Credentials>,
    /// 0 off, 1 strict, 2 filter.
    #[prost(int32, optional, tag = "11")]
    pub seccomp_mode: Option<i32>,
    /// Number of its last filter in `seccomp.img`.
    #[prost(uint32, optional, tag = "12")]
    pub seccomp_filter: Option<u32>,
    /// Name as `ps` shows it.
    #[prost(bytes = "vec", optional, tag = "13")]
    pub comm: Option<Vec<u8>>,
    /// Number of its set of cgroups in `cgroup.img`.
    #[prost(uint32, optional, tag = "16")]
    pub cgroup_set: Option<u32>,
}

/// Who a thread is and what it may do.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Credentials {
    /// Real user.
    #[prost(uint32, required, tag = "1")]
    pub uid: u32,
    /// Real group.
    #[prost(uint32, required, tag = "2")]
    pub gid: u32,
    /// Effective user.
    #[prost(uint32, required, tag = "3")]
    pub euid: u32,
    /// Effective group.
    #[prost(uint32, required, tag = "4")]
    pub egid: u32,
    /// Saved user.
    #[prost(uint32, required, tag = "5")]
    pub suid: u32,
    /// Saved group.
    #[prost(uint32, required, tag = "6")]
    pub sgid: u32,
    /// User for the file system.
    #[prost(uint32, required, tag = "7")]
    pub fsuid: u32,
    /// Group for the file system.
    #[prost(uint32, required, tag = "8")]
    pub fsgid: u32,
    /// Inheritable capabilities, 32 to a word, low word first; so are the others.
    #[prost(uint32, repeated, packed = "false", tag = "9")]
    pub cap_inh: Vec<u32>,
    /// Permitted capabilities.
    #[prost(uint32, repeated, packed = "false", tag = "10")]
    pub cap_prm: Vec<u32>,
    /// Effective capabilities.
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    pub cap_eff: Vec<u32>,
    /// Bounding set.
    #[prost(uint32, repeated, packed = "false", tag = "12")]
    pub cap_bnd: Vec<u32>,
    /// Secure bits.
    #[prost(uint32, required, tag = "13")]
    pub securebits: u32,
    /// Supplementary groups.
    #[prost(uint32, repeated, packed = "false", tag = "14")]
    pub groups: Vec<u32>,
    /// Profile of SELinux or AppArmor.
    #[prost(bytes = "vec", optional, tag = "15")]
    pub lsm_profile: Option<Vec<u8>>,
    /// SELinux label of sockets it makes.
    #[prost(bytes = "vec", optional, tag = "16")]
    pub lsm_sockcreate: Option<Vec<u8>>,
    /// Whether `no_new_privs` is set.
    #[prost(uint32, optional, tag = "18")]
    pub no_new_privs: Option<u32>,
    /// Ambient capabilities.
    #[prost(uint32, repeated, packed = "false", tag = "19")]
    pub cap_amb: Vec<u32>,
}

/// `fs-*.img`: where a process stands. The numbers are files of `files.img`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct Fs {
    /// Its working directory.
    #[prost(uint32, required, tag = "1")]
    pub cwd_id: u32,
    /// Its root directory.
    #[prost(uint32, required, tag = "2")]
    pub root_id: u32,
    /// Its umask.
    #[prost(uint32, optional, tag = "3")]
    pub umask: Option<u32>,
}

/// `seccomp.img`: all filters of the tree.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Seccomp {
    /// The filters; [`ThreadCore::seccomp_filter`] and [`SeccompFilter::previous`] are positions in it.
    #[prost(message, repeated, tag = "1")]
    pub filters: Vec<SeccompFilter>,
}

/// One seccomp filter.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SeccompFilter {
    /// The program, in the kernel's form.
    #[prost(bytes = "vec", required, tag = "1")]
    pub program: Vec<u8>,
    /// The filter that was there before.
    #[prost(uint32, optional, tag = "2")]
    pub previous: Option<u32>,
    /// Flags it was set with.
    #[prost(uint32, optional, tag = "3")]
    pub flags: Option<u32>,
}

/// `userns-*.img`: the maps of a user namespace.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct UserNamespace {
    /// Users.
    #[prost(message, repeated, tag = "1")]
    pub uids: Vec<IdMap>,
    /// Groups.
    #[prost(message, repeated, tag = "2")]
    pub gids: Vec<IdMap>,
}

/// A range of a user namespace's map.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct IdMap {
    /// First id inside.
    #[prost(uint32, required, tag = "1")]
    pub first: u32,
    /// First id outside.
    #[prost(uint32, required, tag = "2")]
    pub lower_first: u32,
    /// How many.
    #[prost(uint32, required, tag = "3")]
    pub count: u32,
}

/// `stats-dump`: what a dump took.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DumpStats {
    /// Time to freeze the tree, microseconds.
    #[prost(uint32, required, tag = "1")]
    pub freezing_us: u32,
    /// Time for which the tree was frozen.
    #[prost(uint32, required, tag = "2")]
    pub frozen_us: u32,
    /// Of it, time for its memory.
    #[prost(uint32, required, tag = "3")]
    pub memdump_us: u32,
    /// Of that, time to write it out.
    #[prost(uint32, required, tag = "4")]
    pub memwrite_us: u32,
    /// Pages looked at.
    #[prost(uint64, required, tag = "5")]
    pub pages_scanned: u64,
    /// Pages that the parent images have.
    #[prost(uint64, required, tag = "6")]
    pub pages_skipped_parent: u64,
    /// Pages written.
    #[prost(uint64, required, tag = "7")]
    pub pages_written: u64,
    /// Pages left for a page server.
    #[prost(uint64, required, tag = "9")]
    pub pages_lazy: u64,
    /// Pages of shared memory written.
    #[prost(uint64, optional, tag = "14")]
    pub shared_pages_written: Option<u64>,
}

/// The frame of [`DumpStats`] in its file.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Stats {
    #[prost(message, optional, tag = "1")]
    pub(crate) dump: Option<DumpStats>,
}

impl Core {
    /// Whether the process was over at the dump: then it has no memory, no files and no place, and no images of them.
    pub fn is_over(&self) -> bool {
        self.task.as_ref().is_some_and(|task| matches!(task.state, 2 | 6))
    }

    /// The process's name, from where this thread's image has it.
    pub fn comm(&self) -> Option<&OsStr> {
        let task = self.task.as_ref().map(|task| &task.comm);
        let thread = self.thread.as_ref().and_then(|thread| thread.comm.as_ref());
        task.or(thread).map(|name| OsStr::from_bytes(name))
    }

    /// Who this thread is.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.thread.as_ref()?.credentials.as_ref()
    }
}
