//! The server's side of a checkpoint: what it knows of a process becomes an image, and the image the same again.
//!
//! Device memory is counted in pieces of physical memory, not in addresses: a piece may be shown at several addresses, or
//! at none while only its handle is left. Work is not part of an image: Lock has waited for all of it.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process::{Event, Tables};
use super::{AddressSpace, Context, Mapping, Physical, Process, Server, Stream, Way, body, lock, storage};
use crate::code::{Code, Result};
use crate::faults::{Verdict, has_ended};
use crate::wire::{Begun, Checkpoint, EventImage, Image, MapImage, Piece};

pub(super) fn handle(server: &Arc<Server>, process: &Arc<Process>, request: Checkpoint) -> Result<Value> {
    match request {
        Checkpoint::Begin(question) => {
            // A call that is not permitted has not begun: it is not counted, and meets no fault.
            let verdict = if server.permits(process) {
                server.faults.meet(question, &|| has_ended(process.pid))
            } else {
                Verdict::Code(Code::NOT_PERMITTED.0)
            };
            body(Begun { level: server.level(), verdict, lies: server.lies() })
        }
        Checkpoint::Fault(question) => body(server.faults.meet(question, &|| has_ended(process.pid))),
        Checkpoint::Note { state } => {
            process.set_state(state);
            Ok(Value::Null)
        }
        Checkpoint::Measure => body(collect(process).1),
        Checkpoint::Save { to } => body(save(process, &to)?),
        Checkpoint::Park => {
            let (memory, pieces) = collect(process);
            alive(process)?;
            let image = describe(process, &memory, pieces)?;
            body((image, storage::park(server, process, &memory)?))
        }
        Checkpoint::Load { image, from, gpus } => {
            let memory = load(server, process, &image, from.as_deref(), &gpus)?;
            let parked = match from {
                Some(_) => None,
                None => Some(storage::park(server, process, &memory)?),
            };
            body(parked)
        }
        Checkpoint::Settle { token, back } => {
            storage::settle(server, process, token)?;
            if !back {
                process.clear();
            }
            Ok(Value::Null)
        }
    }
}

/// The pieces of a process: the memory, and how each is named in an image. The order depends on addresses and handles
/// only, so that it is the same each time.
fn collect(process: &Process) -> (Vec<Arc<Physical>>, Vec<Piece>) {
    let space = process.space();
    let tables = lock(&process.tables);
    let mut handles: Vec<_> = tables.handles.iter().collect();
    handles.sort_unstable_by_key(|(handle, _)| **handle);
    let mapped = space.iter().map(|(address, mapping)| (address, &mapping.physical));
    let mut memory: Vec<Arc<Physical>> = Vec::new();
    let mut pieces = Vec::new();
    for (name, physical) in mapped.chain(handles.into_iter().map(|(handle, physical)| (*handle, physical))) {
        if !memory.iter().any(|known| Arc::ptr_eq(known, physical)) {
            pieces.push(Piece { name, gpu: physical.gpu.info.index, bytes: physical.memory.len() });
            memory.push(physical.clone());
        }
    }
    (memory, pieces)
}

fn save(process: &Process, to: &[u64]) -> Result<Image> {
    let (memory, pieces) = collect(process);
    if to.len() != memory.len() {
        return Err(Code::INVALID_VALUE);
    }
    alive(process)?;
    let image = describe(process, &memory, pieces)?;
    for (physical, address) in memory.iter().zip(to) {
        physical.gpu.alive()?;
        let Physical { gpu, memory, .. } = physical.as_ref();
        gpu.link
            .pass(Way::Out, memory.len(), || memory.copy_to_process(0, process.pid, *address, memory.len()))
            .map_err(|_| Code::OUT_OF_MEMORY)?;
    }
    drop(memory);
    process.clear();
    Ok(image)
}

fn alive(process: &Process) -> Result<()> {
    let contexts: Vec<Context> = lock(&process.tables).contexts.values().cloned().collect();
    contexts.iter().try_for_each(|context| context.gpu.alive())
}

fn describe(process: &Process, memory: &[Arc<Physical>], pieces: Vec<Piece>) -> Result<Image> {
    let position = |physical: &Arc<Physical>| {
        memory.iter().position(|known| Arc::ptr_eq(known, physical)).ok_or(Code::UNKNOWN)
    };
    let space = process.space();
    let tables = lock(&process.tables);
    let mut image = Image { pieces, ..Image::default() };
    for (address, mapping) in space.iter() {
        // Memory of another process, or that another may open: drivers before 610 cannot checkpoint it.
        if mapping.foreign || Arc::weak_count(&mapping.physical) > 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        image.maps.push(MapImage {
            address,
            bytes: mapping.bytes,
            piece: position(&mapping.physical)?,
            offset: mapping.offset,
            context: mapping.context,
        });
    }
    for (handle, physical) in &tables.handles {
        image.handles.push((*handle, position(physical)?));
    }
    image.host = space.host_ranges().collect();
    image.contexts =
        tables.contexts.iter().map(|(id, context)| (*id, context.gpu.info.index, context.error)).collect();
    image.streams = tables
        .streams
        .values()
        .map(|stream| (stream.id, stream.context, stream.flags, stream.priority))
        .collect();
    let micros = |at: Instant| u64::try_from(at.elapsed().as_micros()).unwrap_or(u64::MAX);
    let events = tables.events.iter().map(|(event, known)| {
        let ago = known.mark.as_ref().map(|_| lock(&known.at).map_or(0, micros));
        EventImage { event: *event, flags: known.flags, ago }
    });
    image.events = events.collect();
    image.modules = super::module::export(&tables);
    Ok(image)
}

/// Makes all of it, or nothing; the bytes come from the process, or stay zero.
fn load(
    server: &Server,
    process: &Process,
    image: &Image,
    from: Option<&[u64]>,
    gpus: &[(u32, u32)],
) -> Result<Vec<Arc<Physical>>> {
    let moved: HashMap<u32, u32> = gpus.iter().copied().collect();
    let gpu = |old: &u32| server.gpu(*moved.get(old).ok_or(Code::INVALID_DEVICE)?);
    if from.is_some_and(|from| from.len() != image.pieces.len()) {
        return Err(Code::INVALID_VALUE);
    }
    let mut tables = Tables::default();
    for (id, old, error) in &image.contexts {
        let gpu = gpu(old)?.clone();
        gpu.alive()?;
        tables.contexts.insert(*id, Context { gpu, error: *error });
    }
    // Room is taken for all pieces before the first byte moves.
    let take = |piece: &Piece| Physical::new(gpu(&piece.gpu)?, piece.bytes);
    let memory = image.pieces.iter().map(take).collect::<Result<Vec<_>>>()?;
    for (physical, address) in memory.iter().zip(from.unwrap_or_default()) {
        let Physical { gpu, memory, .. } = physical.as_ref();
        gpu.link
            .pass(Way::In, memory.len(), || memory.fill_from_process(0, process.pid, *address, memory.len()))
            .map_err(|_| Code::OPERATING_SYSTEM)?;
    }
    let piece = |position: usize| memory.get(position).cloned().ok_or(Code::INVALID_VALUE);
    for (id, context, flags, priority) in &image.streams {
        tables.streams.insert(*id, Stream::new(*id, *context, *flags, *priority));
    }
    for event in &image.events {
        tables.events.insert(event.event, remembered(event, &tables));
    }
    super::module::import(&mut tables, &image.modules)?;
    for (handle, position) in &image.handles {
        tables.handles.insert(*handle, piece(*position)?);
    }
    let mut space = AddressSpace::default();
    for map in &image.maps {
        let physical = piece(map.piece)?;
        let MapImage { bytes, offset, context, .. } = *map;
        space.insert(
            map.address,
            Mapping { bytes, physical, offset, context, foreign: false, leaving: false },
        )?;
    }
    for (address, bytes) in &image.host {
        space.host_range(*address, *bytes);
    }
    *process.space_mut() = space;
    *lock(&process.tables) = tables;
    Ok(memory)
}

/// An event that has happened is known by a ticket that is done, and by its time.
fn remembered(image: &EventImage, tables: &Tables) -> Event {
    let at = image.ago.and_then(|ago| Instant::now().checked_sub(Duration::from_micros(ago)));
    let mark = image.ago.and_then(|_| tables.streams.values().next().map(Stream::newest));
    Event { flags: image.flags, mark, at: Arc::new(Mutex::new(at)) }
}
