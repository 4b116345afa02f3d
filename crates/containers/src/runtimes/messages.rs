//! containerd's messages, as far as they are used: the fields that are read, by the numbers of its own `.proto` files (`api/services`,
//! `api/types`). What is not listed is passed over.

use std::collections::BTreeMap;

use prost::Message;

/// `google.protobuf.Any`: bytes, and what they are.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// `containerd.services.containers.v1.Container.Runtime`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RuntimeInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) options: Option<Any>,
}

/// `containerd.services.containers.v1.Container`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ContainerInfo {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(btree_map = "string, string", tag = "2")]
    pub(crate) labels: BTreeMap<String, String>,
    #[prost(string, tag = "3")]
    pub(crate) image: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) runtime: Option<RuntimeInfo>,
    #[prost(message, optional, tag = "5")]
    pub(crate) spec: Option<Any>,
    #[prost(string, tag = "6")]
    pub(crate) snapshotter: String,
    #[prost(string, tag = "7")]
    pub(crate) snapshot_key: String,
    #[prost(string, tag = "11")]
    pub(crate) sandbox: String,
}

/// `ListContainersRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListContainers {
    #[prost(string, repeated, tag = "1")]
    pub(crate) filters: Vec<String>,
}

/// `ListContainersResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Containers {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<ContainerInfo>,
}

/// `containerd.v1.types.Process`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessInfo {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
    #[prost(string, tag = "2")]
    pub(crate) id: String,
    #[prost(uint32, tag = "3")]
    pub(crate) pid: u32,
    #[prost(int32, tag = "4")]
    pub(crate) status: i32,
}

/// `containerd.services.tasks.v1.GetRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTask {
    #[prost(string, tag = "1")]
    pub(crate) container_id: String,
}

/// Its answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Task {
    #[prost(message, optional, tag = "1")]
    pub(crate) process: Option<ProcessInfo>,
}

/// An answer in which nothing is of interest.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

/// `ListTasksRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListTasks {
    #[prost(string, tag = "1")]
    pub(crate) filter: String,
}

/// Its answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tasks {
    #[prost(message, repeated, tag = "1")]
    pub(crate) tasks: Vec<ProcessInfo>,
}

/// `containerd.services.snapshots.v1.MountsRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetMounts {
    #[prost(string, tag = "1")]
    pub(crate) snapshotter: String,
    #[prost(string, tag = "2")]
    pub(crate) key: String,
}

/// `containerd.types.Mount`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotMount {
    #[prost(string, tag = "1")]
    pub(crate) kind: String,
    #[prost(string, tag = "2")]
    pub(crate) source: String,
    #[prost(string, tag = "3")]
    pub(crate) target: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) options: Vec<String>,
}

/// Its answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SnapshotMounts {
    #[prost(message, repeated, tag = "1")]
    pub(crate) mounts: Vec<SnapshotMount>,
}

/// `containerd.services.images.v1.GetImageRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetImage {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `containerd.types.Descriptor`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Descriptor {
    #[prost(string, tag = "2")]
    pub(crate) digest: String,
}

/// `containerd.services.images.v1.Image`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ImageInfo {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) target: Option<Descriptor>,
}

/// Its answer.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FoundImage {
    #[prost(message, optional, tag = "1")]
    pub(crate) image: Option<ImageInfo>,
}
