//! Exported functions: what can be asked and set of functions and kernels, and occupancy.
use std::ffi::c_char;

use super::{In, Out, export};
use crate::client::modules::Described;
use crate::client::{self, Call};
use crate::code::{Code, Result};

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const DYNAMIC_SHARED: u32 = 8;
/// What a block can have at most, if it asks for it.
const MOST_SHARED: u32 = 227 << 10;
/// What a block can have without asking.
const USUAL_SHARED: u32 = 48 << 10;
/// Of a multiprocessor.
const THREADS: u32 = 2048;
const BLOCKS: u32 = 32;
const REGISTERS: u32 = 65_536;
const SHARED: u32 = 228 << 10;

fn describe(call: &Call, function: u64) -> Result<Described> {
    call.client.tables().modules.describe(function)
}

fn attribute(call: &Call, value: Out<i32>, attribute: u32, function: u64) -> Result<()> {
    let Described { function, facts, .. } = describe(call, function)?;
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let set = |attribute| function.attributes.get(&attribute).copied();
    value.put(match attribute {
        0 => number(facts.most_threads),
        1 => number(facts.shared_bytes),
        3 => number(facts.local_bytes),
        4 => number(facts.registers),
        // the version of the text and of the code for the chip
        5 | 6 => 90,
        DYNAMIC_SHARED => {
            set(DYNAMIC_SHARED).unwrap_or(number(USUAL_SHARED.saturating_sub(facts.shared_bytes)))
        }
        9 => set(9).unwrap_or(-1),
        2 | 7 | 10..=15 => set(attribute).unwrap_or(0),
        _ => return Err(Code::INVALID_VALUE),
    })
}

fn set_attribute(call: &Call, function: u64, attribute: u32, value: i32) -> Result<()> {
    let facts = describe(call, function)?.facts;
    let room = i32::try_from(MOST_SHARED - facts.shared_bytes.min(MOST_SHARED)).unwrap_or(0);
    match attribute {
        DYNAMIC_SHARED if !(0..=room).contains(&value) => return Err(Code::INVALID_VALUE),
        DYNAMIC_SHARED | 9 | 11..=15 => {}
        _ => return Err(Code::INVALID_VALUE),
    }
    if let Some(function) = call.client.tables().modules.functions.get_mut(&function) {
        function.attributes.insert(attribute, value);
    }
    Ok(())
}

fn parameter(call: &Call, function: u64, index: usize, offset: Out<usize>, size: Out<usize>) -> Result<()> {
    let described = describe(call, function)?;
    let parameters = described.program.parameters(described.function.entry);
    let (at, bytes) = parameters.get(index).copied().ok_or(Code::INVALID_VALUE)?;
    offset.put_if(at);
    size.put_if(bytes);
    Ok(())
}

fn parameters(call: &Call, function: u64, count: Out<usize>) -> Result<()> {
    let described = describe(call, function)?;
    count.put(described.program.parameters(described.function.entry).len())
}

fn name(call: &Call, into: Out<*const c_char>, function: u64) -> Result<()> {
    into.put(describe(call, function)?.function.name.as_ptr())
}

/// The kernel's function in the current context.
fn function_of(call: &Call, kernel: u64) -> Result<u64> {
    let described = describe(call, kernel)?;
    let context = call.context()?.0;
    let module = call.library_module(described.function.owner, context)?;
    call.function(module, &described.function.name.to_string_lossy())
}

/// How many blocks of that size a multiprocessor holds.
fn blocks_at_once(described: &Described, threads: u32, dynamic: usize) -> u32 {
    if !(1..=described.facts.most_threads).contains(&threads) {
        return 0;
    }
    let warps = threads.div_ceil(32) * 32;
    let shared = u32::try_from(dynamic).unwrap_or(u32::MAX).saturating_add(described.facts.shared_bytes);
    if shared > MOST_SHARED {
        return 0;
    }
    // a compiler needs far fewer registers than the text declares
    let registers = described.facts.registers.min(64);
    let by_shared = SHARED.checked_div(shared).unwrap_or(BLOCKS);
    BLOCKS.min(THREADS / warps).min(REGISTERS / (warps * registers)).min(by_shared)
}

fn occupancy(call: &Call, blocks: Out<i32>, function: u64, threads: i32, dynamic: usize) -> Result<()> {
    let described = describe(call, function)?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Code::INVALID_VALUE)?;
    blocks.put(i32::try_from(blocks_at_once(&described, threads, dynamic)).unwrap_or(0))
}

/// `CUoccupancyB2DSize`.
type SharedOf = Option<extern "C" fn(i32) -> usize>;

fn best_block(
    call: &Call,
    grid: Out<i32>,
    block: Out<i32>,
    function: u64,
    shared_of: SharedOf,
    dynamic: usize,
    limit: i32,
) -> Result<()> {
    let described = describe(call, function)?;
    let limit = u32::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(described.facts.most_threads);
    let sizes = (1..=limit.min(described.facts.most_threads) / 32).rev().map(|warps| warps * 32);
    let busy = |threads: &u32| {
        let dynamic = shared_of.map_or(dynamic, |shared_of| shared_of(i32::try_from(*threads).unwrap_or(0)));
        blocks_at_once(&described, *threads, dynamic)
    };
    // the largest block among the busiest: the last one wins, and sizes go down
    let best = sizes.rev().max_by_key(|threads| busy(threads) * threads).unwrap_or(limit.min(32));
    let (_, context) = call.context()?;
    let processors =
        call.client.tables().devices.get(context.device).map_or(1, |device| device.gpu.processors);
    grid.put(i32::try_from(busy(&best).max(1) * processors).unwrap_or(i32::MAX))?;
    block.put(i32::try_from(best).unwrap_or(0))
}

export! {
    fn cuKernelGetFunction(function: Out<u64>, kernel: u64) {
        let call = client::enter()?;
        function.put(function_of(&call, kernel)?)
    }

    fn cuKernelGetLibrary(library: Out<u64>, kernel: u64) {
        library.put(describe(&client::enter()?, kernel)?.function.owner)
    }

    fn cuKernelGetAttribute(value: Out<i32>, which: u32, kernel: u64, _device: i32) {
        attribute(&client::enter()?, value, which, kernel)
    }

    fn cuKernelSetAttribute(which: u32, value: i32, kernel: u64, _device: i32) {
        set_attribute(&client::enter()?, kernel, which, value)
    }

    fn cuKernelSetCacheConfig(kernel: u64, _config: u32, _device: i32) {
        describe(&client::enter()?, kernel).map(drop)
    }

    fn cuKernelGetName(into: Out<*const c_char>, kernel: u64) {
        name(&client::enter()?, into, kernel)
    }

    fn cuKernelGetParamInfo(kernel: u64, index: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(&client::enter()?, kernel, index, offset, size)
    }

    fn cuKernelGetParamCount(kernel: u64, count: Out<usize>) {
        parameters(&client::enter()?, kernel, count)
    }

    fn cuFuncGetAttribute(value: Out<i32>, which: u32, function: u64) {
        attribute(&client::enter()?, value, which, function)
    }

    fn cuFuncSetAttribute(function: u64, which: u32, value: i32) {
        set_attribute(&client::enter()?, function, which, value)
    }

    fn cuFuncSetCacheConfig(function: u64, _config: u32) {
        describe(&client::enter()?, function).map(drop)
    }

    fn cuFuncSetSharedMemConfig(function: u64, _config: u32) {
        describe(&client::enter()?, function).map(drop)
    }

    fn cuFuncGetModule(module: Out<u64>, function: u64) {
        let call = client::enter()?;
        let owner = describe(&call, function)?.function.owner;
        if !call.client.tables().modules.modules.contains_key(&owner) {
            return Err(Code::INVALID_HANDLE);
        }
        module.put(owner)
    }

    fn cuFuncGetName(into: Out<*const c_char>, function: u64) {
        name(&client::enter()?, into, function)
    }

    fn cuFuncGetParamInfo(function: u64, index: usize, offset: Out<usize>, size: Out<usize>) {
        parameter(&client::enter()?, function, index, offset, size)
    }

    fn cuFuncGetParamCount(function: u64, count: Out<usize>) {
        parameters(&client::enter()?, function, count)
    }

    fn cuFuncIsLoaded(state: Out<i32>, function: u64) {
        describe(&client::enter()?, function)?;
        state.put(1)
    }

    fn cuFuncLoad(function: u64) {
        describe(&client::enter()?, function).map(drop)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<i32>, function: u64, threads: i32, dynamic: usize) {
        occupancy(&client::enter()?, blocks, function, threads, dynamic)
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        blocks: Out<i32>, function: u64, threads: i32, dynamic: usize, _flags: u32,
    ) {
        occupancy(&client::enter()?, blocks, function, threads, dynamic)
    }

    fn cuOccupancyMaxPotentialBlockSize(
        grid: Out<i32>, block: Out<i32>, function: u64, shared_of: SharedOf, dynamic: usize, limit: i32,
    ) {
        best_block(&client::enter()?, grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyMaxPotentialBlockSizeWithFlags(
        grid: Out<i32>, block: Out<i32>, function: u64, shared_of: SharedOf, dynamic: usize, limit: i32, _flags: u32,
    ) {
        best_block(&client::enter()?, grid, block, function, shared_of, dynamic, limit)
    }

    fn cuOccupancyAvailableDynamicSMemPerBlock(bytes: Out<usize>, function: u64, blocks: i32, _threads: i32) {
        let described = describe(&client::enter()?, function)?;
        let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0).ok_or(Code::INVALID_VALUE)?;
        bytes.put((SHARED / blocks).min(MOST_SHARED).saturating_sub(described.facts.shared_bytes) as usize)
    }

    fn cuOccupancyMaxPotentialClusterSize(size: Out<i32>, function: u64, _config: In<super::launch::LaunchConfig>) {
        describe(&client::enter()?, function)?;
        size.put(1)
    }

    fn cuOccupancyMaxActiveClusters(_clusters: Out<i32>, function: u64, _config: In<super::launch::LaunchConfig>) {
        describe(&client::enter()?, function)?;
        Err(Code::NOT_SUPPORTED)
    }
}
