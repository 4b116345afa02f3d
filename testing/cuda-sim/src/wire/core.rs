//! Requests about devices, contexts, memory, streams and events.
//!
//! Handles (contexts, streams, events, physical memory) and addresses are chosen by the client, so that a restored process
//! can make the same ones again. The legacy default stream of a context has the context's own number.
use serde::{Deserialize, Serialize};

/// A request of the stand-in for the driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the fields are named for what they are; the module says who chooses them")]
pub enum Core {
    /// Answer: [`Host`].
    Hello,
    /// A context on the GPU of that index (the server's).
    ContextCreate { context: u64, gpu: u32 },
    /// Frees everything in it.
    ContextDestroy { context: u64 },
    /// Device memory at an address that the client has reserved.
    Alloc { context: u64, address: u64, bytes: u64 },
    /// Waits for the work of the context, as `cuMemFree` does.
    Free { address: u64 },
    /// Frees when the stream gets there.
    FreeAsync { address: u64, stream: u64 },
    /// Answer: which of these addresses, to be freed by streams, are free by now.
    Gone { addresses: Vec<u64> },
    /// Answer: [`MemoryInfo`].
    Info { gpu: u32 },
    /// Physical memory without an address.
    PhysicalCreate { handle: u64, gpu: u32, bytes: u64 },
    /// The memory lives on while it is mapped.
    PhysicalRelease { handle: u64 },
    /// Physical memory at an address.
    Map { address: u64, bytes: u64, handle: u64, offset: u64 },
    /// Takes the mappings in this range away.
    Unmap { address: u64, bytes: u64 },
    /// Host memory that kernels may touch: pinned, registered or managed.
    HostRange { address: u64, bytes: u64 },
    /// It is ordinary memory again.
    HostRangeEnd { address: u64 },
    /// A stream of a context; flags as `cuStreamCreate`.
    StreamCreate { stream: u64, context: u64, flags: u32, priority: i32 },
    /// Work that is queued is still done.
    StreamDestroy { stream: u64 },
    /// 600 while there is work.
    StreamQuery { stream: u64 },
    /// Waits until the work queued so far is done.
    StreamSync { stream: u64 },
    /// The same for all streams of a context.
    ContextSync { context: u64 },
    /// The same for all streams of the process; 600 if it takes longer. 0: no limit.
    Drain { timeout_ms: u32 },
    /// An event; flags as `cuEventCreate`.
    EventCreate { event: u64, flags: u32 },
    /// Marks the stream's work so far.
    EventRecord { event: u64, stream: u64 },
    /// 600 until that work is done.
    EventQuery { event: u64 },
    /// Waits for it.
    EventSync { event: u64 },
    /// Answer: milliseconds, a float.
    EventElapsed { start: u64, end: u64 },
    /// Forgets it.
    EventDestroy { event: u64 },
    /// Further work of the stream waits for the event.
    StreamWait { stream: u64, event: u64 },
    /// Copies rows; `wait`: answer only when it is done. Pageable host sources are read before the answer in any case.
    Copy { stream: u64, to: End, from: End, span: Span, wait: bool },
    /// Fills rows with a pattern of 1, 2 or 4 bytes; `span.width` is in bytes.
    Fill { stream: u64, address: u64, pitch: u64, span: Span, pattern: u32, size: u8, wait: bool },
    /// The client runs a function when the stream gets there: see `HostFuncAwait`.
    HostFunc { stream: u64, token: u64 },
    /// Answers when the stream has arrived at the function.
    HostFuncAwait { token: u64 },
    /// The function has returned.
    HostFuncDone { token: u64 },
    /// Answer: the number under which another process can open this allocation.
    IpcExport { address: u64 },
    /// Answer: the bytes of the shared allocation.
    IpcSize { key: u64 },
    /// Maps another process's allocation.
    IpcOpen { context: u64, key: u64, address: u64 },
    /// Shows a part of a process that is being checkpointed or restored, from this address on.
    PartOpen { context: u64, key: u64, address: u64 },
    /// Shows it no more.
    PartClose { address: u64, bytes: u64 },
}

/// One end of a copy: where its first row starts, and how far apart rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The address, the device's or the process's.
    pub address: u64,
    /// Bytes from row to row; any value if there is one row.
    pub pitch: u64,
    /// Is the address the process's own memory? `None`: find out.
    pub host: Option<bool>,
    /// May the server touch this host memory later, when the stream gets there?
    pub pinned: bool,
}

/// The shape of a copy or fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Bytes in a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

/// Free and total bytes of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryInfo {
    /// Free.
    pub free: u64,
    /// All.
    pub total: u64,
}

/// The machine that the server plays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The behaviour level.
    pub level: crate::level::Level,
    /// All GPUs, by index.
    pub gpus: Vec<GpuInfo>,
}

/// A GPU, as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// The number in `/dev/nvidiaN`, and in requests.
    pub index: u32,
    /// What `cuDeviceGetUuid` gives.
    pub uuid: [u8; 16],
    /// The chip's key in [`crate::server::chips`].
    pub chip: String,
    /// The product's name.
    pub name: String,
    /// Compute capability, `[9, 0]`.
    pub capability: [u32; 2],
    /// All bytes.
    pub memory: u64,
    /// PCI vendor and device, `0x2330_10de`.
    pub pci_id: u32,
    /// PCI domain, bus, device.
    pub pci: [u32; 3],
    /// Multiprocessors.
    pub processors: u32,
}
