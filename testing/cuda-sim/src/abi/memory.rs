//! Exported functions: device memory, pinned and managed memory, memory of other processes, and questions about pointers.
use std::ffi::c_void;

use super::{Out, export};
use crate::client::tables::Kind;
use crate::client::{Call, enter};
use crate::code::{Code, Result};

/// Rows of `cuMemAllocPitch` start at multiples of this.
const PITCH: u64 = 512;

export! {
    fn cuMemAlloc_v2(address: Out<u64>, bytes: u64) {
        let call = enter()?;
        if address.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        address.put(call.alloc(0, bytes, Kind::Device)?)
    }

    fn cuMemFree_v2(address: u64) {
        let call = enter()?;
        if address == 0 { Ok(()) } else { call.free(address, None) }
    }

    fn cuMemAllocPitch_v2(address: Out<u64>, pitch: Out<u64>, width: u64, height: u64, element: u32) {
        let call = enter()?;
        if address.is_null() || pitch.is_null() || !matches!(element, 4 | 8 | 16) {
            return Err(Code::INVALID_VALUE);
        }
        let row = width.checked_next_multiple_of(PITCH).ok_or(Code::INVALID_VALUE)?;
        let bytes = row.checked_mul(height).ok_or(Code::OUT_OF_MEMORY)?;
        address.put(call.alloc(0, bytes, Kind::Device)?)?;
        pitch.put(row)
    }

    fn cuMemGetAddressRange_v2(base: Out<u64>, bytes: Out<u64>, address: u64) {
        let call = enter()?;
        let (start, allocation) = call.client.tables().allocation_at(address).ok_or(Code::NOT_FOUND)?;
        base.put_if(start);
        bytes.put_if(allocation.bytes);
        Ok(())
    }

    fn cuMemAllocManaged(address: Out<u64>, bytes: u64, flags: u32) {
        let call = enter()?;
        // Attached to everything, to the host, or to one stream.
        if address.is_null() || !matches!(flags, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        address.put(call.alloc_managed(bytes)?)
    }

    fn cuMemAllocHost_v2(address: Out<u64>, bytes: u64) {
        host_alloc(address, bytes, 0)
    }

    fn cuMemHostAlloc(address: Out<u64>, bytes: u64, flags: u32) {
        host_alloc(address, bytes, flags)
    }

    fn cuMemFreeHost(address: u64) {
        enter()?.unpin(address, false)
    }

    fn cuMemHostRegister(address: u64, bytes: u64, flags: u32) {
        enter()?.register_host(address, bytes, flags)
    }

    fn cuMemHostRegister_v2(address: u64, bytes: u64, flags: u32) {
        enter()?.register_host(address, bytes, flags)
    }

    fn cuMemHostUnregister(address: u64) {
        enter()?.unpin(address, true)
    }

    fn cuMemHostGetDevicePointer_v2(device: Out<u64>, host: u64, _flags: u32) {
        let call = enter()?;
        call.client.tables().pinned_at(host).ok_or(Code::INVALID_VALUE)?;
        // One address space for both.
        device.put(host)
    }

    fn cuMemHostGetFlags(flags: Out<u32>, host: u64) {
        let call = enter()?;
        flags.put(call.client.tables().pinned_at(host).ok_or(Code::INVALID_VALUE)?.1.flags)
    }

    fn cuIpcGetMemHandle(handle: Out<[u64; 8]>, address: u64) {
        let call = enter()?;
        let key = call.export_ipc(address)?;
        handle.put([IPC_MARK, key, 0, 0, 0, 0, 0, 0])
    }

    fn cuIpcOpenMemHandle(address: Out<u64>, handle: IpcHandle, _flags: u32) {
        open_ipc(address, handle)
    }

    fn cuIpcOpenMemHandle_v2(address: Out<u64>, handle: IpcHandle, _flags: u32) {
        open_ipc(address, handle)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        enter()?.close_ipc(address)
    }

    fn cuPointerGetAttribute(value: Out<c_void>, attribute: u32, address: u64) {
        let call = enter()?;
        let answer = attribute_of(&call, attribute, address)?.ok_or(Code::INVALID_VALUE)?;
        answer.put(value)
    }

    fn cuPointerGetAttributes(count: u32, attributes: super::In<u32>, values: super::In<Out<c_void>>, address: u64) {
        let call = enter()?;
        let attributes = attributes.list(count as usize)?;
        let values = values.list(count as usize)?;
        for (attribute, value) in attributes.into_iter().zip(values) {
            // What is no pointer of ours has zeroes for answers here, and -2 for a device.
            let none = if attribute == 9 { Answer::Word((-2i32).cast_unsigned()) } else { Answer::none(attribute) };
            attribute_of(&call, attribute, address)?.unwrap_or(none).put(value)?;
        }
        Ok(())
    }

    fn cuPointerSetAttribute(_value: super::In<c_void>, attribute: u32, address: u64) {
        let call = enter()?;
        call.client.tables().allocation_at(address).ok_or(Code::INVALID_VALUE)?;
        // Only synchronous memory operations can be set, and they are.
        if attribute == 6 { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }
}

/// `CUipcMemHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle([u64; 8]);

/// The first word of our handles.
const IPC_MARK: u64 = 0x6d69_732d_6164_7563;

fn host_alloc(address: Out<u64>, bytes: u64, flags: u32) -> Result<()> {
    let call = enter()?;
    if address.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    address.put(call.alloc_host(bytes, flags)?)
}

fn open_ipc(address: Out<u64>, IpcHandle(handle): IpcHandle) -> Result<()> {
    let call = enter()?;
    if address.is_null() || handle[0] != IPC_MARK {
        return Err(Code::INVALID_VALUE);
    }
    address.put(call.open_ipc(handle[1])?)
}

/// What an attribute of a pointer is: four bytes or eight.
enum Answer {
    Word(u32),
    Long(u64),
    Pair(u64, u64),
}

impl Answer {
    fn none(attribute: u32) -> Self {
        match attribute {
            1 | 3 | 4 | 7 | 11 | 12 | 14 | 17 | 18 | 19 | 20 => Self::Long(0),
            5 => Self::Pair(0, 0),
            _ => Self::Word(0),
        }
    }

    fn put(self, to: Out<c_void>) -> Result<()> {
        match self {
            Self::Word(word) => to.cast().put(word),
            Self::Long(long) => to.cast().put(long),
            Self::Pair(one, other) => to.cast().put([one, other]),
        }
    }
}

/// `None`: no pointer of ours.
fn attribute_of(call: &Call, attribute: u32, address: u64) -> Result<Option<Answer>> {
    let tables = call.client.tables();
    let (start, bytes, context, device, id, kind) =
        if let Some((start, known)) = tables.allocation_at(address) {
            (start, known.bytes, known.context, known.device, known.id, Some(known.kind))
        } else if let Some((start, known)) = tables.pinned_at(address) {
            let device = tables.contexts.get(&known.context).map_or(0, |context| context.device);
            (start, known.bytes, known.context, device, known.id, None)
        } else {
            return Ok(None);
        };
    let flag = |yes: bool| Answer::Word(yes.into());
    Ok(Some(match attribute {
        1 => Answer::Long(context),
        // Memory of the host, of the device.
        2 => Answer::Word(if kind.is_none() { 1 } else { 2 }),
        3 => Answer::Long(address),
        4 if matches!(kind, None | Some(Kind::Managed)) => Answer::Long(address),
        4 | 5 => return Err(Code::INVALID_VALUE),
        6 => flag(false),
        7 => Answer::Long(id),
        8 => flag(kind == Some(Kind::Managed)),
        9 => Answer::Word(u32::try_from(device).map_err(|_| Code::UNKNOWN)?),
        10 => flag(kind == Some(Kind::Device)),
        11 | 19 => Answer::Long(start),
        12 | 18 => Answer::Long(bytes),
        13 => flag(true),
        14 => Answer::Long(0),
        15 | 21 => flag(false),
        // Read and write.
        16 => Answer::Word(3),
        17 => Answer::Long(match kind {
            Some(Kind::Pooled(pool)) => pool,
            _ => 0,
        }),
        20 => Answer::Long(id),
        _ => return Err(Code::INVALID_VALUE),
    }))
}
