//! The exported functions against a server in this very process, with files in the place of device nodes: needs no rights.
use std::sync::OnceLock;

use super::{In, Out, context, copy, device, event, fill, memory, pool, stream, vmm};
use crate::code::Code;
use crate::server::{Config, Listening, Server, listen};

/// A directory for the socket and the nodes: on a tmpfs, which has files as large as the address space. A static is never
/// dropped, so each run takes away what earlier ones left.
fn directory() -> tempfile::TempDir {
    const PREFIX: &str = "cuda-sim-tests.";
    for old in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        let name = old.file_name().into_string().unwrap_or_default();
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('.').next());
        if pid.is_some_and(|pid| !std::path::Path::new("/proc").join(pid).exists()) {
            drop(std::fs::remove_dir_all(old.path()));
        }
    }
    let own = format!("{PREFIX}{}.", std::process::id());
    let make = tempfile::Builder::new().prefix(&own).tempdir_in("/dev/shm");
    make.or_else(|_| tempfile::tempdir()).unwrap()
}

/// GPUs 0 and 1 are of one kind and 2 of another; one test each has 3 and 4 to itself. 1 GiB each. The directory lives as long
/// as the process.
fn server() -> &'static std::sync::Arc<Server> {
    static SERVER: OnceLock<(std::sync::Arc<Server>, Listening, tempfile::TempDir)> = OnceLock::new();
    &SERVER
        .get_or_init(|| {
            let directory = directory();
            for name in ["nvidiactl", "nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidia4"] {
                std::fs::write(directory.path().join(name), "").unwrap();
            }
            // As large as the address space, so that managed memory can be mapped at the offset of its address.
            let uvm = std::fs::File::create(directory.path().join("nvidia-uvm")).unwrap();
            if uvm.set_len(1 << 47).is_err() {
                uvm.set_len(0).unwrap();
            }
            let config = Config {
                chips: ["h100", "h100", "a100", "h100", "h100"].map(str::to_owned).to_vec(),
                memory: Some(1 << 30),
                level: crate::level::Level::default(),
                uuid_seed: "tests".to_owned(),
                pcie: None,
            };
            let server = Server::new(&config).unwrap();
            let listening = listen(&server, directory.path()).unwrap();
            // SAFETY: these names are read by this crate only, through the same lock of the standard library.
            unsafe {
                std::env::set_var("CUDA_SIM_DIR", directory.path());
                std::env::set_var("CUDA_SIM_DEV", directory.path());
            }
            assert_eq!(device::cuInit(0), 0);
            (server, listening, directory)
        })
        .0
}

/// Calls with room for one answer.
fn get<T: Default>(call: impl FnOnce(Out<T>) -> i32) -> T {
    let mut value = T::default();
    assert_eq!(call(Out::from(&mut value)), 0);
    value
}

/// A context of its own for each test, current in its thread.
fn fresh(ordinal: i32) -> u64 {
    server();
    get(|out| context::cuCtxCreate_v2(out, 0, ordinal))
}

fn alloc(bytes: u64) -> u64 {
    get(|out| memory::cuMemAlloc_v2(out, bytes))
}

fn read(address: u64, bytes: usize) -> Vec<u8> {
    let mut back = vec![0xee; bytes];
    assert_eq!(copy::cuMemcpyDtoH_v2(back.as_mut_ptr() as u64, address, bytes as u64), 0);
    back
}

fn write(address: u64, bytes: &[u8]) {
    assert_eq!(copy::cuMemcpyHtoD_v2(address, bytes.as_ptr() as u64, bytes.len() as u64), 0);
}

#[test]
fn devices() {
    server();
    assert_eq!(get(|out| device::cuDeviceGetCount(out)), 5);
    assert_eq!(get::<u64>(|out| device::cuDeviceTotalMem_v2(out, 1)), 1 << 30);
    assert_eq!(device::cuDeviceGet(Out::from(&mut 0), 5), Code::INVALID_DEVICE.0);
    let uuids: Vec<[u8; 16]> =
        (0..3).map(|ordinal| get(|out| device::cuDeviceGetUuid_v2(out, ordinal))).collect();
    assert!(uuids[0] != uuids[1] && uuids[1] != uuids[2]);
    assert_eq!(get::<i32>(|out| device::cuDeviceGetAttribute(out, 75, 0)), 9);
    assert_eq!(get::<i32>(|out| device::cuDeviceGetAttribute(out, 75, 2)), 8);
    assert_eq!(device::cuDeviceGetAttribute(Out::from(&mut 0), 5000, 0), Code::INVALID_VALUE.0);
    assert_eq!(get::<i32>(|out| device::cuDeviceCanAccessPeer(out, 0, 1)), 1);
    assert_eq!(get::<i32>(|out| device::cuDeviceCanAccessPeer(out, 0, 2)), 0);
    assert_eq!(get::<i32>(|out| device::cuDeviceGetByPCIBusId(out, c"0000:27:00.0".into())), 1);
}

#[test]
fn bytes_go_round() {
    fresh(0);
    let address = alloc(100_000);
    let bytes: Vec<u8> = (0..100_000u32).map(|index| (index % 251) as u8).collect();
    write(address, &bytes);
    assert_eq!(read(address, bytes.len()), bytes);
    // In the middle, and to another allocation.
    let other = alloc(1000);
    assert_eq!(copy::cuMemcpyDtoD_v2(other + 10, address + 500, 900), 0);
    assert_eq!(read(other + 10, 900), &bytes[500..1400]);
    assert_eq!(fill::cuMemsetD16_v2(other, 0x1234, 3), 0);
    assert_eq!(read(other, 8), [0x34, 0x12, 0x34, 0x12, 0x34, 0x12, 0, 0]);
    // Past the end, and where nothing is.
    assert_eq!(fill::cuMemsetD8_v2(other, 0, 2_000_000), Code::INVALID_VALUE.0);
    assert_eq!(copy::cuMemcpyHtoD_v2(4096, bytes.as_ptr() as u64, 1), Code::INVALID_VALUE.0);
    assert_eq!(copy::cuMemcpyHtoD_v2(address, 16, 1), Code::INVALID_VALUE.0);
    assert_eq!(memory::cuMemFree_v2(address), 0);
    assert_eq!(memory::cuMemFree_v2(address), Code::INVALID_VALUE.0);
    assert_eq!(copy::cuMemcpyDtoH_v2(bytes.as_ptr() as u64, address, 1), Code::INVALID_VALUE.0);
}

#[test]
fn rows() {
    fresh(0);
    let mut pitch = 0;
    let mut address = 0;
    assert_eq!(memory::cuMemAllocPitch_v2(Out::from(&mut address), Out::from(&mut pitch), 100, 20, 4), 0);
    assert_eq!(pitch, 512);
    assert_eq!(fill::cuMemsetD2D8_v2(address, pitch, 7, 100, 20), 0);
    let whole = read(address, 20 * 512);
    assert!(
        whole
            .chunks(512)
            .all(|row| row[..100].iter().all(|byte| *byte == 7) && row[100..].iter().all(|byte| *byte == 0))
    );
}

#[test]
fn the_account_of_memory() {
    let context = fresh(3);
    let info = || {
        let (mut free, mut total) = (0, 0);
        assert_eq!(device::cuMemGetInfo_v2(Out::from(&mut free), Out::from(&mut total)), 0);
        (free, total)
    };
    let (before, total) = info();
    assert_eq!(total, 1 << 30);
    let address = alloc(64 << 20);
    assert_eq!(before - info().0, 64 << 20);
    let mut none = 0;
    assert_eq!(memory::cuMemAlloc_v2(Out::from(&mut none), 1 << 30), Code::OUT_OF_MEMORY.0);
    assert_eq!(memory::cuMemAlloc_v2(Out::from(&mut none), 0), Code::INVALID_VALUE.0);
    assert_eq!(memory::cuMemFree_v2(address), 0);
    assert_eq!(info().0, before);
    alloc(1 << 20);
    assert_eq!(context::cuCtxDestroy_v2(context), 0);
    fresh(3);
    assert_eq!(info().0, before, "a context that ends frees what it had");
}

#[test]
fn contexts_are_a_stack_in_each_thread() {
    let first = fresh(0);
    let second = fresh(1);
    assert_eq!(get(|out| context::cuCtxGetCurrent(out)), second);
    assert_eq!(get(|out| context::cuCtxGetDevice(out)), 1);
    assert_eq!(get(|out| context::cuCtxPopCurrent_v2(out)), second);
    assert_eq!(get(|out| context::cuCtxGetCurrent(out)), first);
    let elsewhere = std::thread::spawn(|| {
        (get(|out| context::cuCtxGetCurrent(out)), memory::cuMemAlloc_v2(Out::from(&mut 0), 10))
    });
    assert_eq!(elsewhere.join().unwrap(), (0, Code::INVALID_CONTEXT.0));
    assert_eq!(context::cuCtxSetCurrent(12345), Code::INVALID_CONTEXT.0);
    let primary: u64 = get(|out| context::cuDevicePrimaryCtxRetain(out, 2));
    assert_eq!(get::<u64>(|out| context::cuDevicePrimaryCtxRetain(out, 2)), primary);
    assert_eq!(context::cuDevicePrimaryCtxRelease_v2(2), 0);
    let active = || {
        let mut active = 9;
        assert_eq!(context::cuDevicePrimaryCtxGetState(2, Out::from(&mut 0), Out::from(&mut active)), 0);
        active
    };
    assert_eq!(active(), 1);
    assert_eq!(context::cuDevicePrimaryCtxRelease_v2(2), 0);
    assert_eq!(active(), 0);
    assert_eq!(context::cuDevicePrimaryCtxRelease_v2(2), Code::INVALID_CONTEXT.0);
}

/// A host function that holds its stream until the test lets it go.
mod holding {
    use std::ffi::c_void;
    use std::sync::mpsc::{Receiver, Sender, channel};

    pub(super) extern "C" fn wait(word: *mut c_void) {
        // SAFETY: made by `hold`, and given to exactly one host function.
        let gate = unsafe { Box::from_raw(word.cast::<Receiver<()>>()) };
        let _let_go = gate.recv();
    }

    pub(super) fn hold(stream: u64) -> Sender<()> {
        let (sender, receiver) = channel::<()>();
        let word = Box::into_raw(Box::new(receiver)).cast();
        assert_eq!(super::stream::cuLaunchHostFunc(stream, Some(wait), word), 0);
        sender
    }
}

#[test]
fn streams_work_by_themselves_and_in_order() {
    fresh(0);
    let one: u64 = get(|out| stream::cuStreamCreate(out, 1));
    let other: u64 = get(|out| stream::cuStreamCreate(out, 1));
    let address = alloc(4);
    let gate = holding::hold(one);
    assert_eq!(fill::cuMemsetD8Async(address, 5, 4, one), 0);
    let done: u64 = get(|out| event::cuEventCreate(out, 0));
    assert_eq!(event::cuEventRecord(done, one), 0);
    assert_eq!(stream::cuStreamQuery(one), Code::NOT_READY.0);
    assert_eq!(event::cuEventQuery(done), Code::NOT_READY.0);
    // The other stream is free, until it waits for the event.
    assert_eq!(stream::cuStreamSynchronize(other), 0);
    assert_eq!(stream::cuStreamWaitEvent(other, done, 0), 0);
    assert_eq!(fill::cuMemsetD8Async(address, 6, 2, other), 0);
    assert_eq!(stream::cuStreamQuery(other), Code::NOT_READY.0);
    gate.send(()).unwrap();
    assert_eq!(stream::cuStreamSynchronize(other), 0);
    assert_eq!(event::cuEventSynchronize(done), 0);
    assert_eq!(read(address, 4), [6, 6, 5, 5]);
    assert_eq!(stream::cuStreamDestroy_v2(one), 0);
    assert_eq!(stream::cuStreamSynchronize(one), Code::INVALID_HANDLE.0);
}

#[test]
fn the_legacy_stream_waits_for_blocking_ones() {
    fresh(0);
    let blocking: u64 = get(|out| stream::cuStreamCreate(out, 0));
    let apart: u64 = get(|out| stream::cuStreamCreate(out, 1));
    let address = alloc(4);
    let gate = holding::hold(blocking);
    assert_eq!(fill::cuMemsetD8Async(address, 1, 4, blocking), 0);
    assert_eq!(fill::cuMemsetD8Async(address, 2, 2, 0), 0);
    assert_eq!(fill::cuMemsetD8Async(address, 3, 1, blocking), 0);
    assert_eq!(stream::cuStreamQuery(0), Code::NOT_READY.0);
    assert_eq!(stream::cuStreamQuery(apart), 0);
    gate.send(()).unwrap();
    assert_eq!(context::cuCtxSynchronize(), 0);
    assert_eq!(read(address, 4), [3, 2, 1, 1]);
}

#[test]
fn pageable_memory_is_free_when_the_call_returns() {
    fresh(0);
    let one: u64 = get(|out| stream::cuStreamCreate(out, 1));
    let address = alloc(1000);
    let gate = holding::hold(one);
    let mut bytes = vec![1u8; 1000];
    assert_eq!(copy::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr() as u64, 1000, one), 0);
    bytes.fill(2);
    let pinned: u64 = get(|out| memory::cuMemAllocHost_v2(out, 1000));
    let later = alloc(1000);
    assert_eq!(copy::cuMemcpyHtoDAsync_v2(later, pinned, 1000, one), 0);
    // Pinned memory is read when the stream gets there.
    assert_eq!(copy::cuMemcpy(pinned, bytes.as_ptr() as u64, 1000), 0);
    gate.send(()).unwrap();
    assert_eq!(stream::cuStreamSynchronize(one), 0);
    assert_eq!(read(address, 1000), [1; 1000]);
    assert_eq!(read(later, 1000), [2; 1000]);
    assert_eq!(memory::cuMemFreeHost(pinned), 0);
    assert_eq!(memory::cuMemFreeHost(pinned), Code::INVALID_VALUE.0);
}

#[test]
fn elapsed_time() {
    fresh(0);
    let (start, end): (u64, u64) =
        (get(|out| event::cuEventCreate(out, 0)), get(|out| event::cuEventCreate(out, 0)));
    let mut milliseconds = -1.0;
    assert_eq!(event::cuEventElapsedTime(Out::from(&mut milliseconds), start, end), Code::INVALID_HANDLE.0);
    assert_eq!(event::cuEventQuery(start), 0, "an event that was never recorded is done");
    assert_eq!(event::cuEventRecord(start, 0), 0);
    let gate = holding::hold(0);
    assert_eq!(event::cuEventRecord(end, 0), 0);
    assert_eq!(event::cuEventElapsedTime(Out::from(&mut milliseconds), start, end), Code::NOT_READY.0);
    gate.send(()).unwrap();
    assert_eq!(event::cuEventSynchronize(end), 0);
    assert_eq!(event::cuEventElapsedTime(Out::from(&mut milliseconds), start, end), 0);
    assert!(milliseconds > 0.0);
}

#[test]
fn memory_in_stream_order() {
    fresh(0);
    let one: u64 = get(|out| stream::cuStreamCreate(out, 1));
    let gate = holding::hold(one);
    let address: u64 = get(|out| pool::cuMemAllocAsync(out, 1 << 20, one));
    assert_eq!(fill::cuMemsetD8Async(address, 1, 1 << 20, one), 0);
    assert_eq!(pool::cuMemFreeAsync(address, one), 0);
    assert_eq!(memory::cuMemFree_v2(address), Code::INVALID_VALUE.0);
    // The address is given out again only when the stream has freed it, and nobody waits for that.
    let other = alloc(1 << 20);
    assert_ne!(other, address);
    assert_eq!(read(other, 16), [0; 16]);
    gate.send(()).unwrap();
    assert_eq!(stream::cuStreamSynchronize(one), 0);
}

#[test]
fn addresses_and_physical_memory_apart() {
    fresh(0);
    let properties = [1u32, 0, 1, 0, 0, 0, 0, 0];
    let grain: u64 = get(|out| vmm::cuMemGetAllocationGranularity(out, In::from(&properties), 0));
    let base: u64 = get(|out| vmm::cuMemAddressReserve(out, 4 * grain, 0, 0, 0));
    let one: u64 = get(|out| vmm::cuMemCreate(out, grain, In::from(&properties), 0));
    let other: u64 = get(|out| vmm::cuMemCreate(out, grain, In::from(&properties), 0));
    assert_eq!(vmm::cuMemMap(base, grain, 0, one, 0), 0);
    assert_eq!(vmm::cuMemMap(base, grain, 0, other, 0), Code::INVALID_VALUE.0);
    assert_eq!(vmm::cuMemMap(base + grain, grain, 0, other, 0), 0);
    assert_eq!(vmm::cuMemMap(base + 2 * grain, grain, 0, one, 0), 0, "the same memory at two addresses");
    assert_eq!(vmm::cuMemSetAccess(base, 3 * grain, In::from(&[1, 0, 3]), 1), 0);
    // Across two pieces of physical memory.
    let bytes: Vec<u8> = (0..=255).collect();
    write(base + grain - 100, &bytes);
    assert_eq!(read(base + grain - 100, 256), bytes);
    assert_eq!(read(base + 3 * grain - 100, 100), &bytes[..100]);
    assert_eq!(vmm::cuMemRelease(one), 0);
    assert_eq!(read(base + grain - 100, 256), bytes, "memory lives while it is mapped");
    assert_eq!(vmm::cuMemAddressFree(base, 4 * grain), Code::INVALID_VALUE.0);
    assert_eq!(vmm::cuMemUnmap(base, 3 * grain), 0);
    assert_eq!(vmm::cuMemRelease(one), Code::INVALID_VALUE.0);
    assert_eq!(vmm::cuMemRelease(other), 0);
    assert_eq!(vmm::cuMemAddressFree(base, 4 * grain), 0);
}

#[test]
fn questions_about_pointers() {
    let context = fresh(1);
    let address = alloc(1000);
    let attribute = |attribute, address| {
        let mut word = [0u64; 2];
        let code = memory::cuPointerGetAttribute(Out::from(&mut word).cast(), attribute, address);
        (code, word[0])
    };
    assert_eq!(attribute(1, address + 5), (0, context));
    assert_eq!(attribute(2, address), (0, 2));
    assert_eq!(attribute(9, address), (0, 1));
    assert_eq!(attribute(11, address + 999), (0, address));
    assert_eq!(attribute(12, address), (0, 1000));
    assert_eq!(attribute(2, address + 1000).0, Code::INVALID_VALUE.0);
    let (mut base, mut bytes) = (0, 0);
    assert_eq!(memory::cuMemGetAddressRange_v2(Out::from(&mut base), Out::from(&mut bytes), address + 7), 0);
    assert_eq!((base, bytes), (address, 1000));
}

#[test]
fn managed_memory_shows_in_the_maps() {
    fresh(0);
    let mut address = 0;
    let code = memory::cuMemAllocManaged(Out::from(&mut address), 10_000, 1);
    if code == Code::NOT_SUPPORTED.0 {
        eprintln!("skipped: managed memory, because no file here is as large as the address space");
        return;
    }
    assert_eq!(code, 0);
    assert_eq!(fill::cuMemsetD8_v2(address, 9, 10_000), 0);
    assert_eq!(read(address, 3), [9; 3]);
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.starts_with(&format!("{address:x}-"))).unwrap();
    assert!(line.contains(&format!(" rw-s {address:x} ")) && line.ends_with("/nvidia-uvm"), "{line}");
    assert_eq!(memory::cuMemFree_v2(address), 0);
}

#[test]
fn a_lost_gpu_is_an_error_and_no_more() {
    let server = server();
    let before = fresh(4);
    let address = alloc(16);
    server.gpus[4].set_lost(true);
    assert_eq!(memory::cuMemAlloc_v2(Out::from(&mut 0), 16), Code::UNKNOWN.0);
    assert_eq!(fill::cuMemsetD8_v2(address, 0, 16), Code::UNKNOWN.0);
    let mut none = 0;
    assert_eq!(context::cuCtxCreate_v2(Out::from(&mut none), 0, 4), Code::DEVICE_UNAVAILABLE.0);
    server.gpus[4].set_lost(false);
    assert_eq!(context::cuCtxSetCurrent(before), 0);
    assert_eq!(fill::cuMemsetD8_v2(address, 0, 16), 0);
}
