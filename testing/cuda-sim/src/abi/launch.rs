//! Exported functions: launches.
use super::{In, export};
use crate::client;
use crate::code::{Code, Result};

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    blocks: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    stream: u64,
    attributes: In<LaunchAttribute>,
    count: u32,
}

/// `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    id: u32,
    padding: u32,
    value: [u32; 16],
}

const _: () = assert!(size_of::<LaunchConfig>() == 56 && size_of::<LaunchAttribute>() == 72);

/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`.
const CLUSTER: u32 = 4;

/// Pointers to the parameters, or to names and values of `extra`.
type Pointers = In<In<u8>>;

/// `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`; 0 ends the list.
const BUFFER: u64 = 1;
const BUFFER_BYTES: u64 = 2;

/// The parameters as one piece, from where `extra` says.
fn packed(extra: Pointers) -> Result<Vec<u8>> {
    let (mut buffer, mut bytes) = (None, None);
    for at in (0..8).step_by(2) {
        // never a word beyond the end of the list
        let name = extra.list(at + 1)?[at].address();
        if name == 0 {
            break;
        }
        let value = extra.list(at + 2)?[at + 1];
        match name {
            BUFFER => buffer = Some(value),
            BUFFER_BYTES => bytes = value.list(8)?.try_into().ok().map(u64::from_le_bytes),
            _ => return Err(Code::INVALID_VALUE),
        }
    }
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes <= 32_764);
    buffer.ok_or(Code::INVALID_VALUE)?.list(bytes.ok_or(Code::INVALID_VALUE)?)
}

struct Shape {
    blocks: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    stream: u64,
    /// NULL is the thread's own default stream.
    own: bool,
}

fn launch(function: u64, shape: &Shape, parameters: Pointers, extra: Pointers) -> Result<()> {
    let call = client::enter()?;
    let described = call.client.tables().modules.describe(function)?;
    let wanted = described.program.parameters(described.function.entry);
    let bytes = described.program.parameter_bytes(described.function.entry);
    let mut arguments = vec![0; bytes];
    if parameters.address() == 0 && extra.address() != 0 {
        let packed = packed(extra)?;
        // the buffer may be padded behind the last parameter
        let given = packed.get(..bytes).ok_or(Code::INVALID_VALUE)?;
        arguments.copy_from_slice(given);
    } else {
        for ((offset, size), value) in wanted.iter().zip(parameters.list(wanted.len())?) {
            let room = arguments.get_mut(*offset..offset + size).ok_or(Code::INVALID_VALUE)?;
            room.copy_from_slice(&value.list(*size)?);
        }
    }
    let stream = call.stream(shape.stream, shape.own)?;
    call.launch(function, stream, [shape.blocks, shape.threads], shape.shared, arguments)
}

fn launch_config(
    config: In<LaunchConfig>,
    function: u64,
    parameters: Pointers,
    extra: Pointers,
    own: bool,
) -> Result<()> {
    let config = config.need()?;
    for attribute in config.attributes.list(config.count as usize)? {
        if attribute.id == CLUSTER && attribute.value[..3].iter().any(|axis| *axis > 1) {
            return Err(Code::NOT_SUPPORTED);
        }
    }
    let LaunchConfig { blocks, threads, shared, stream, .. } = config;
    launch(function, &Shape { blocks, threads, shared, stream, own }, parameters, extra)
}

/// No parameters by this way.
const fn none() -> Pointers {
    In::null()
}

export! {
    fn cuLaunchKernel(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64,
        parameters: Pointers, extra: Pointers,
    ) {
        let shape = Shape { blocks: [gx, gy, gz], threads: [bx, by, bz], shared, stream, own: false };
        launch(function, &shape, parameters, extra)
    }

    fn cuLaunchKernel_ptsz(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64,
        parameters: Pointers, extra: Pointers,
    ) {
        let shape = Shape { blocks: [gx, gy, gz], threads: [bx, by, bz], shared, stream, own: true };
        launch(function, &shape, parameters, extra)
    }

    fn cuLaunchKernelEx(config: In<LaunchConfig>, function: u64, parameters: Pointers, extra: Pointers) {
        launch_config(config, function, parameters, extra, false)
    }

    fn cuLaunchKernelEx_ptsz(config: In<LaunchConfig>, function: u64, parameters: Pointers, extra: Pointers) {
        launch_config(config, function, parameters, extra, true)
    }

    fn cuLaunchCooperativeKernel(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64,
        parameters: Pointers,
    ) {
        let shape = Shape { blocks: [gx, gy, gz], threads: [bx, by, bz], shared, stream, own: false };
        launch(function, &shape, parameters, none())
    }

    fn cuLaunchCooperativeKernel_ptsz(
        function: u64, gx: u32, gy: u32, gz: u32, bx: u32, by: u32, bz: u32, shared: u32, stream: u64,
        parameters: Pointers,
    ) {
        let shape = Shape { blocks: [gx, gy, gz], threads: [bx, by, bz], shared, stream, own: true };
        launch(function, &shape, parameters, none())
    }
}
