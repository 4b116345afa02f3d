//! Custom storage (13.4) on the caller's side: the target's memory at addresses of the caller's own.
//!
//! The caller has retained the primary contexts of the GPUs; each part is opened in one of them, with a stream of its own
//! by which the program can tell the GPU. `cuCheckpointOperationComplete` waits for these streams, lets the parts go and tells the target.
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::message::Parked;
use super::placement::hex;
use crate::client::tables::{Allocation, Kind, Stream};
use crate::client::{self, Call};
use crate::code::{Code, Result};
use crate::wire::Core;

/// A part of the target's memory, in the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its address.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
    /// A stream of the primary context of its GPU.
    pub stream: u64,
}

/// An operation that is not complete.
struct Operation {
    pid: i32,
    devices: Vec<Device>,
}

static OPEN: Mutex<BTreeMap<u64, Operation>> = Mutex::new(BTreeMap::new());

/// The GPUs whose primary contexts this process has retained, as UUIDs.
///
/// # Errors
/// NOT_INITIALIZED without `cuInit`.
pub(crate) fn retained() -> Result<Vec<String>> {
    let call = client::enter()?;
    let tables = call.client.tables();
    let held = tables.devices.iter().filter(|device| device.primary.is_some());
    Ok(held.map(|device| hex(&device.gpu.uuid)).collect())
}

/// Opens the parts. The handle of the operation, and what the program may copy.
pub(crate) fn open(pid: i32, parked: &Parked) -> Result<(u64, Vec<Device>)> {
    let call = client::enter()?;
    let mut devices = Vec::new();
    for part in &parked.parts {
        let context = {
            let tables = call.client.tables();
            let device = tables.devices.iter().find(|device| hex(&device.gpu.uuid) == part.gpu);
            device.and_then(|device| device.primary).ok_or(Code::INVALID_CONTEXT)?
        };
        devices.push(open_part(&call, context, part.key, part.bytes)?);
    }
    client::lock(&OPEN).insert(parked.token, Operation { pid, devices: devices.clone() });
    Ok((parked.token, devices))
}

fn open_part(call: &Call, context: u64, key: u64, bytes: u64) -> Result<Device> {
    let (_, known) = call.context_of(context)?;
    let (address, room) = call.client.tables().addresses.take(bytes)?;
    if let Err(code) = call.core::<()>(Core::PartOpen { context, key, address }) {
        call.client.tables().addresses.give_back(address, room);
        return Err(code);
    }
    let mut tables = call.client.tables();
    let (id, stream) = (tables.handle(), tables.handle());
    let device = known.device;
    tables.allocations.insert(address, Allocation { bytes, room, context, device, kind: Kind::Foreign, id });
    drop(tables);
    let (flags, priority) = (1, 0);
    call.core::<()>(Core::StreamCreate { stream, context, flags, priority })?;
    call.client.tables().streams.insert(stream, Stream { context, flags, priority });
    Ok(Device { address, bytes, stream })
}

/// The target of an operation.
pub(crate) fn target(handle: u64) -> Result<i32> {
    client::lock(&OPEN).get(&handle).map(|operation| operation.pid).ok_or(Code::INVALID_VALUE)
}

/// Waits for the copies and lets the parts go.
pub(crate) fn close(handle: u64) -> Result<()> {
    let call = client::enter()?;
    let operation = client::lock(&OPEN).remove(&handle).ok_or(Code::INVALID_VALUE)?;
    for device in operation.devices {
        call.core::<()>(Core::StreamSync { stream: device.stream })?;
        call.destroy_stream(device.stream)?;
        call.core::<()>(Core::PartClose { address: device.address, bytes: device.bytes })?;
        let mut tables = call.client.tables();
        if let Some(known) = tables.allocations.remove(&device.address) {
            tables.addresses.give_back(device.address, known.room);
        }
    }
    Ok(())
}
