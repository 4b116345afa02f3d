//! CRIU's RPC messages: messages of our own for the fields that we use, with CRIU's field numbers.

/// Sorts of requests and answers.
pub(crate) mod kind {
    pub(crate) const DUMP: i32 = 1;
    pub(crate) const RESTORE: i32 = 2;
    pub(crate) const NOTIFY: i32 = 6;
    pub(crate) const VERSION: i32 = 10;
}

/// "Let cgroups be": they are ours to manage.
pub(crate) const CGROUPS_IGNORE: i32 = 0;
/// "Do not lock the network": connections come back closed, and the namespace is ours.
pub(crate) const NETWORK_LOCK_SKIP: i32 = 3;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Request {
    #[prost(int32, required, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) options: Option<Options>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) notify_success: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Options {
    #[prost(int32, required, tag = "1")]
    pub(crate) images_dir_fd: i32,
    #[prost(int32, optional, tag = "2")]
    pub(crate) pid: Option<i32>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) leave_running: Option<bool>,
    #[prost(bool, optional, tag = "4")]
    pub(crate) ext_unix_sk: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    pub(crate) shell_job: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub(crate) file_locks: Option<bool>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) log_level: Option<i32>,
    #[prost(string, optional, tag = "10")]
    pub(crate) log_file: Option<String>,
    #[prost(bool, optional, tag = "12")]
    pub(crate) notify_scripts: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "14")]
    pub(crate) parent_img: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "15")]
    pub(crate) track_mem: Option<bool>,
    #[prost(int32, optional, tag = "17")]
    pub(crate) work_dir_fd: Option<i32>,
    #[prost(bool, optional, tag = "18")]
    pub(crate) link_remap: Option<bool>,
    #[prost(int32, optional, tag = "34")]
    pub(crate) manage_cgroups_mode: Option<i32>,
    #[prost(uint32, optional, tag = "35")]
    pub(crate) ghost_limit: Option<u32>,
    #[prost(bytes = "vec", repeated, tag = "36")]
    pub(crate) irmap_scan_paths: Vec<Vec<u8>>,
    #[prost(bool, optional, tag = "46")]
    pub(crate) tcp_skip_in_flight: Option<bool>,
    #[prost(bool, optional, tag = "52")]
    pub(crate) tcp_close: Option<bool>,
    #[prost(int32, optional, tag = "64")]
    pub(crate) network_lock: Option<i32>,
    #[prost(bool, optional, tag = "66")]
    pub(crate) skip_file_rwx_check: Option<bool>,
    #[prost(bool, optional, tag = "67")]
    pub(crate) unprivileged: Option<bool>,
    #[prost(bytes = "vec", optional, tag = "68")]
    pub(crate) images_dir: Option<Vec<u8>>,
    #[prost(bool, optional, tag = "69")]
    pub(crate) leave_stopped: Option<bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Response {
    #[prost(int32, required, tag = "1")]
    pub(crate) kind: i32,
    #[prost(bool, required, tag = "2")]
    pub(crate) success: bool,
    #[prost(message, optional, tag = "4")]
    pub(crate) restore: Option<RestoreAnswer>,
    #[prost(message, optional, tag = "5")]
    pub(crate) notify: Option<Notify>,
    #[prost(int32, optional, tag = "7")]
    pub(crate) cr_errno: Option<i32>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub(crate) cr_errmsg: Option<Vec<u8>>,
    #[prost(message, optional, tag = "10")]
    pub(crate) version: Option<Version>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct RestoreAnswer {
    #[prost(int32, required, tag = "1")]
    pub(crate) pid: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Notify {
    #[prost(string, optional, tag = "1")]
    pub(crate) script: Option<String>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) pid: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Version {
    #[prost(int32, required, tag = "1")]
    pub(crate) major: i32,
    #[prost(int32, required, tag = "2")]
    pub(crate) minor: i32,
    #[prost(int32, optional, tag = "4")]
    pub(crate) sublevel: Option<i32>,
}
