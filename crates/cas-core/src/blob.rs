//! Blobs: streams of bytes of any length, cut into chunks where their content says so.
//!
//! FastCDC (2020) cuts at content, so an insertion in the middle of a file changes the chunks around it and no others. A
//! blob of one chunk is that chunk. A longer one is a *list*: the chunks in order, with their lengths; a long list is cut
//! into lists of its own, again where the content (here the chunks' ids) says so, and so on up to a single root.
//!
//! ```text
//! list object:  version (1 byte: 1), level (1 byte: 0 = items are chunks), then items until the end:
//!               id (32 bytes), bytes below it (varint)
//! ```
//!
//! In an encrypted store the cuts are seeded with a secret, because the lengths of chunks would otherwise identify a file
//! that somebody knows.

use std::io::{self, Read, Write};

use crossbeam_channel::{Receiver, Sender, bounded};
use fastcdc::v2020::{ChunkData, Error as CutError, Normalization, StreamCDC};

use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId};
use crate::progress::{Progress, Task};
use crate::store::{ReadContext, Store};
use crate::transaction::WriteTransaction;
use crate::varint::{self, Cursor};

/// Sizes of chunks: 64 KiB on average.
const MIN_CHUNK: usize = 16 << 10;
const AVG_CHUNK: usize = 64 << 10;
const MAX_CHUNK: usize = 256 << 10;

const VERSION: u8 = 1;
/// A list ends after an item whose id says so, which one in 128 does, but not before 64 items and at 1024 the latest.
const MIN_ITEMS: usize = 64;
const MAX_ITEMS: usize = 1024;
/// 64 items to the power of 8 are more than any blob has.
const MAX_LEVEL: u8 = 8;

/// A stored blob.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Blob {
    /// A chunk or a list.
    pub id: ObjectId,
    /// Which of the two.
    pub kind: Kind,
    /// How many bytes it has.
    pub len: u64,
}

/// One item of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// A chunk, or a list of the next lower level.
    pub id: ObjectId,
    /// Bytes below it.
    pub len: u64,
}

/// A list object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct List {
    /// 0 if the items are chunks.
    pub level: u8,
    /// In order.
    pub items: Vec<Item>,
}

impl List {
    /// The kind of the items.
    pub fn item_kind(&self) -> Kind {
        if self.level == 0 { Kind::CHUNK } else { Kind::CHUNK_LIST }
    }

    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.level];
        for item in &self.items {
            out.extend_from_slice(item.id.as_bytes());
            varint::put(&mut out, item.len);
        }
        out
    }

    /// Reads a list object. `Err` is a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.byte()?;
        if version != VERSION {
            return Err(format!("is a chunk list of version {version}"));
        }
        let level = cursor.byte()?;
        if level > MAX_LEVEL {
            return Err(format!("is a chunk list of level {level}"));
        }
        let mut items = Vec::new();
        let mut total = 0u64;
        while cursor.left() > 0 {
            let item = Item { id: ObjectId::from_bytes(cursor.take()?), len: cursor.varint()? };
            total = total.checked_add(item.len).ok_or("describes more bytes than there are numbers")?;
            items.push(item);
        }
        Ok(Self { level, items })
    }
}

impl WriteTransaction {
    /// Stores everything that `reader` gives. The blob is durable after the next flush or commit.
    pub fn put_blob(&self, reader: &mut dyn Read, progress: &dyn Progress) -> Result<Blob> {
        let (reply, replies) = bounded(self.store().threads() * 4);
        let mut items = Items { replies, reply, list: Vec::new(), sent: 0, taken: 0 };
        let seed = self.store().cut_seed();
        let cutter = StreamCDC::with_level_and_seed(
            reader,
            MIN_CHUNK,
            AVG_CHUNK,
            MAX_CHUNK,
            Normalization::Level1,
            seed,
        );
        for chunk in cutter {
            let ChunkData { data, .. } = chunk.map_err(source_failed)?;
            progress.advance(Task::IngestFiles, data.len() as u64);
            items.submit(self, data)?;
        }
        let items = items.finish(self)?;
        let len = items.iter().map(|item| item.len).sum();
        match items[..] {
            [] => Ok(Blob { id: self.put(Kind::CHUNK, Vec::new())?, kind: Kind::CHUNK, len: 0 }),
            [Item { id, .. }] => Ok(Blob { id, kind: Kind::CHUNK, len }),
            _ => Ok(Blob { id: self.put_lists(items)?, kind: Kind::CHUNK_LIST, len }),
        }
    }

    fn put_lists(&self, mut items: Vec<Item>) -> Result<ObjectId> {
        for level in 0..=MAX_LEVEL {
            let mut lists = Vec::new();
            let mut rest = items;
            while !rest.is_empty() {
                let tail = rest.split_off(list_end(&rest));
                let len = rest.iter().map(|item| item.len).sum();
                let id = self.put(Kind::CHUNK_LIST, List { level, items: rest }.encode())?;
                lists.push(Item { id, len });
                rest = tail;
            }
            if let [root] = lists[..] {
                return Ok(root.id);
            }
            items = lists;
        }
        Err(StoreError::Invalid { what: "a blob is too long to store".into() })
    }
}

/// How many items the first list takes.
fn list_end(items: &[Item]) -> usize {
    let says_so = |item: &Item| item.id.as_bytes()[31] & 0x7f == 0;
    let cut = items.iter().take(MAX_ITEMS).skip(MIN_ITEMS - 1).position(says_so);
    cut.map_or(MAX_ITEMS, |at| at + MIN_ITEMS).min(items.len())
}

fn source_failed(error: CutError) -> StoreError {
    let source = match error {
        CutError::IoError(source) => source,
        other => io::Error::other(other.to_string()),
    };
    StoreError::Source { what: "a file".to_owned(), source }
}

/// Chunks on their way through the workers. Each is put in its place by number.
struct Items {
    reply: Sender<(usize, Item)>,
    replies: Receiver<(usize, Item)>,
    list: Vec<Item>,
    sent: usize,
    taken: usize,
}

impl Items {
    fn submit(&mut self, transaction: &WriteTransaction, chunk: Vec<u8>) -> Result<()> {
        let (at, reply) = (self.sent, self.reply.clone());
        let len = chunk.len() as u64;
        transaction.submit(move |worker, shared| {
            let id = shared.put_here(worker, Kind::CHUNK, &chunk)?;
            // The receiver lives until `finish`, unless the blob was given up.
            let _ = reply.send((at, Item { id, len }));
            Ok(())
        })?;
        self.sent += 1;
        self.list.push(Item { id: ObjectId::from_bytes([0; 32]), len });
        // Taking answers as they come keeps the workers from waiting for room.
        while let Ok((at, item)) = self.replies.try_recv() {
            self.list[at] = item;
            self.taken += 1;
        }
        Ok(())
    }

    fn finish(mut self, transaction: &WriteTransaction) -> Result<Vec<Item>> {
        drop(self.reply);
        while self.taken < self.sent {
            // All senders gone before all answers came: a worker failed, and the transaction knows why.
            let Ok((at, item)) = self.replies.recv() else {
                transaction.check()?;
                return Err(StoreError::TransactionFailed {
                    detail: "a worker gave no answer".into(),
                    hint: None,
                });
            };
            self.list[at] = item;
            self.taken += 1;
        }
        Ok(self.list)
    }
}

impl Store {
    /// What seeds the cuts: nothing in a plain store, so that equal files are cut equally everywhere.
    fn cut_seed(&self) -> u64 {
        if !self.format.encrypted {
            return 0;
        }
        let id = self.hasher.id(Kind(0), b"seed of chunk cuts");
        let (seed, _) = id.as_bytes().split_first_chunk().unwrap_or((&[0; 8], &[]));
        u64::from_le_bytes(*seed)
    }

    /// Writes a whole blob to `out`.
    pub fn read_blob(&self, blob: &Blob, out: &mut dyn Write, progress: &dyn Progress) -> Result<()> {
        let mut reader = self.open_blob(blob)?;
        while let Some(chunk) = reader.next_chunk()? {
            out.write_all(chunk).map_err(StoreError::io("write", "the file that is being read back"))?;
            progress.advance(Task::Read, chunk.len() as u64);
        }
        Ok(())
    }

    /// Starts reading a blob.
    pub fn open_blob<'a>(&'a self, blob: &Blob) -> Result<BlobReader<'a>> {
        let root = Item { id: blob.id, len: blob.len };
        let level = (blob.kind == Kind::CHUNK_LIST).then_some(MAX_LEVEL);
        let context = ReadContext::new()?;
        Ok(BlobReader { store: self, stack: vec![(root, level)], context, chunk: Vec::new(), used: 0 })
    }
}

/// Reads a blob front to back. Holds one chunk and one list per level.
#[derive(Debug)]
pub struct BlobReader<'a> {
    store: &'a Store,
    /// What is still to be read, the next one last; with the highest level that a list may have there.
    stack: Vec<(Item, Option<u8>)>,
    context: ReadContext,
    chunk: Vec<u8>,
    used: usize,
}

impl BlobReader<'_> {
    /// The next chunk, or `None` at the end.
    pub fn next_chunk(&mut self) -> Result<Option<&[u8]>> {
        while let Some((item, level)) = self.stack.pop() {
            let malformed = |detail: String| StoreError::Malformed { id: item.id, detail };
            let Some(level) = level else {
                self.store.read_into(Kind::CHUNK, &item.id, &mut self.context, &mut self.chunk)?;
                if self.chunk.len() as u64 != item.len {
                    let detail = format!("has {} bytes, its list says {}", self.chunk.len(), item.len);
                    return Err(malformed(detail));
                }
                self.used = 0;
                return Ok(Some(&self.chunk));
            };
            let mut bytes = Vec::new();
            self.store.read_into(Kind::CHUNK_LIST, &item.id, &mut self.context, &mut bytes)?;
            let list = List::parse(&bytes).map_err(malformed)?;
            // Levels only go down, so a list cannot contain itself.
            if list.level > level || list.items.iter().map(|item| item.len).sum::<u64>() != item.len {
                return Err(malformed("does not fit the list above it".into()));
            }
            let below = list.level.checked_sub(1);
            self.stack.extend(list.items.into_iter().rev().map(|item| (item, below)));
        }
        Ok(None)
    }
}

impl Read for BlobReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.chunk.len() {
            match self.next_chunk() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(0),
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        let count = buffer.len().min(self.chunk.len() - self.used);
        buffer[..count].copy_from_slice(&self.chunk[self.used..][..count]);
        self.used += count;
        Ok(count)
    }
}

/// What a list points at. For marking.
pub(crate) fn references(bytes: &[u8]) -> Result<Vec<(Kind, ObjectId)>, String> {
    let list = List::parse(bytes)?;
    Ok(list.items.iter().map(|item| (list.item_kind(), item.id)).collect())
}

#[cfg(test)]
mod tests;
