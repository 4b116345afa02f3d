//! The bytes of a file, from any place in it.
//!
//! A blob is a tree of lists with chunks at its leaves. Whoever reads from some place goes down to the chunk that is there and keeps the way
//! for the next read, which most often asks for what follows. What is kept has a bound: one list for each level, and a few chunks, because
//! the kernel reads ahead with several requests at a time, and they may arrive in another order.

use std::collections::VecDeque;
use std::sync::Arc;

use cas_core::blob::{Blob, Item, List};
use cas_core::memory::{MapRoot, MemoryReader};
use cas_core::{Kind, ObjectId, ReadContext, Store, StoreError};
use manifest::{BlobRef, MapRef};

use crate::error::{PastError, Result};

/// Chunks that one open file keeps; each has at most 256 KiB.
const CHUNKS: usize = 8;
/// Lists lie no deeper.
const LEVELS: usize = 16;
/// Memory is kept by pages of this size.
const PAGE: u64 = 4096;

/// What a file has.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// What the store has as a blob.
    Blob(BlobRef),
    /// A part of an address space, from an address.
    Memory(MapRef, u64),
    /// What we say ourselves.
    Text(Arc<[u8]>),
    /// It was there, and was not captured.
    NotCaptured,
}

/// An open file.
pub(crate) enum Reader {
    Blob(BlobAt),
    Memory(Box<MemoryReader>, u64),
    Text(Arc<[u8]>),
}

impl Reader {
    pub(crate) fn open(store: &Arc<Store>, content: &Content) -> Result<Self> {
        Ok(match content {
            Content::Blob(blob) => Self::Blob(BlobAt::new(Arc::clone(store), (*blob).into())?),
            Content::Memory(map, from) => {
                let root = MapRoot { id: map.id, pages: map.pages };
                Self::Memory(Box::new(MemoryReader::new(Arc::clone(store), root)?), *from)
            }
            Content::Text(text) => Self::Text(Arc::clone(text)),
            Content::NotCaptured => return Err(PastError::NotCaptured),
        })
    }

    /// `size` bytes from `offset`, which lie within the file.
    pub(crate) fn read(&mut self, offset: u64, size: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; size];
        match self {
            Self::Blob(blob) => blob.read(offset, &mut bytes)?,
            Self::Memory(reader, from) => read_memory(reader, *from + offset, &mut bytes)?,
            Self::Text(text) => {
                let at = usize::try_from(offset).unwrap_or(usize::MAX);
                let part = text.get(at..).and_then(|rest| rest.get(..size)).unwrap_or_default();
                return Ok(part.to_vec());
            }
        }
        Ok(bytes)
    }
}

/// Memory that is not in the snapshot was never touched, or is as in the file that is mapped there: it reads as zeros.
fn read_memory(reader: &mut MemoryReader, address: u64, bytes: &mut [u8]) -> Result<()> {
    match reader.read(address, bytes) {
        Err(StoreError::Invalid { .. }) => {}
        read => return Ok(read?),
    }
    let mut done = 0;
    while done < bytes.len() {
        let at = address + done as u64;
        let left = usize::try_from(PAGE - at % PAGE).unwrap_or(1);
        let end = bytes.len().min(done + left);
        let Some(part) = bytes.get_mut(done..end) else { break };
        match reader.read(at, part) {
            Err(StoreError::Invalid { .. }) => part.fill(0),
            read => read?,
        }
        done = end;
    }
    Ok(())
}

/// A blob, from any place.
pub(crate) struct BlobAt {
    store: Arc<Store>,
    blob: Blob,
    context: ReadContext,
    /// The lists on the way to what was read last, from the top: what each begins at.
    way: Vec<(ObjectId, u64, Arc<List>)>,
    /// Where each begins, and its bytes; the newest last.
    chunks: VecDeque<(u64, Vec<u8>)>,
}

impl BlobAt {
    fn new(store: Arc<Store>, blob: Blob) -> Result<Self> {
        let context = ReadContext::new()?;
        Ok(Self { store, blob, context, way: Vec::new(), chunks: VecDeque::new() })
    }

    fn read(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (start, chunk) = self.chunk(at)?;
            let from = usize::try_from(at - start).unwrap_or(usize::MAX);
            let part = chunk.get(from..).unwrap_or_default();
            let count = part.len().min(bytes.len() - done);
            if count == 0 {
                return Err(PastError::Odd("a file is shorter than its length says".to_owned()));
            }
            if let (Some(to), Some(part)) = (bytes.get_mut(done..done + count), part.get(..count)) {
                to.copy_from_slice(part);
            }
            done += count;
        }
        Ok(())
    }

    /// The chunk that has the byte at `offset`, and where it begins.
    fn chunk(&mut self, offset: u64) -> Result<(u64, &[u8])> {
        let has = |(start, chunk): &(u64, Vec<u8>)| {
            (*start..start.saturating_add(chunk.len() as u64)).contains(&offset)
        };
        if let Some(found) = self.chunks.iter().position(has) {
            return Ok(self.chunks.get(found).map_or((0, &[][..]), |(start, chunk)| (*start, chunk)));
        }
        let (start, item) = self.find(offset)?;
        let mut bytes = if self.chunks.len() < CHUNKS { Vec::new() } else { self.oldest() };
        self.store.read_into(Kind::CHUNK, &item.id, &mut self.context, &mut bytes)?;
        if bytes.len() as u64 != item.len {
            let detail = format!("has {} bytes, its list says {}", bytes.len(), item.len);
            return Err(StoreError::Malformed { id: item.id, detail }.into());
        }
        self.chunks.push_back((start, bytes));
        Ok(self.chunks.back().map_or((0, &[][..]), |(start, chunk)| (*start, chunk)))
    }

    fn oldest(&mut self) -> Vec<u8> {
        self.chunks.pop_front().map(|(_, bytes)| bytes).unwrap_or_default()
    }

    /// Goes down to the chunk with the byte at `offset`: where it begins, and which it is.
    fn find(&mut self, offset: u64) -> Result<(u64, Item)> {
        let (mut start, mut item) = (0, Item { id: self.blob.id, len: self.blob.len });
        if self.blob.kind == Kind::CHUNK {
            return Ok((start, item));
        }
        for depth in 0..LEVELS {
            let list = self.list(depth, start, item)?;
            let (mut at, mut found) = (start, None);
            for below in &list.items {
                if offset < at.saturating_add(below.len) {
                    found = Some(*below);
                    break;
                }
                at = at.saturating_add(below.len);
            }
            let odd = || StoreError::Malformed { id: item.id, detail: "is shorter than it should be".into() };
            (start, item) = (at, found.ok_or_else(odd)?);
            if list.item_kind() == Kind::CHUNK {
                return Ok((start, item));
            }
        }
        Err(PastError::Odd("a file's lists lie too deep".to_owned()))
    }

    /// A list, kept from the last time if it is the same.
    fn list(&mut self, depth: usize, start: u64, item: Item) -> Result<Arc<List>> {
        if let Some((id, begins, list)) = self.way.get(depth)
            && (*id, *begins) == (item.id, start)
        {
            return Ok(Arc::clone(list));
        }
        self.way.truncate(depth);
        let bytes = self.store.get(Kind::CHUNK_LIST, &item.id)?;
        let list = List::parse(&bytes).map_err(|detail| StoreError::Malformed { id: item.id, detail })?;
        let list = Arc::new(list);
        self.way.push((item.id, start, Arc::clone(&list)));
        Ok(list)
    }
}
