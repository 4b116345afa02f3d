//! Sorting more entries than fit in memory.
//!
//! Ids are hashes, so their first byte spreads them evenly over 256 buckets. Entries are collected in one buffer a
//! bucket; full buffers are appended to a single file, which has no name and so needs no cleaning up. Afterwards each
//! bucket is read back and sorted on its own: 1/256 of everything, 24 MB at 10^8 objects.
//!
//! SQLite has an external sorter of its own. It spills to wherever `TMPDIR` points, often a small file system or even
//! memory; this spills beside the catalogue.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{NewEntry, PackNo};
use crate::error::{Result, StoreError};
use crate::id::{Kind, ObjectId};

const BUCKETS: usize = 256;
/// Bytes of one entry: id 32, pack 4, entry 4, offset 8, stored 4, plain 4, kind 1.
const RECORD: usize = 57;
/// Records a buffer holds: 64 KiB each, 15 MiB for all buckets.
const BUFFERED: usize = 1100;

/// Entries on their way to being sorted.
pub(super) struct Staging {
    path: PathBuf,
    file: File,
    written: u64,
    buckets: Vec<Bucket>,
}

#[derive(Default)]
struct Bucket {
    buffer: Vec<u8>,
    /// Offset and length of what went to the file.
    spilled: Vec<(u64, usize)>,
}

impl Staging {
    /// Spills to a nameless file in the directory of `path`, which the caller has to itself: what is left of an earlier
    /// attempt may be overwritten.
    pub(super) fn beside(path: &Path) -> Result<Self> {
        let mut name = path.as_os_str().to_owned();
        name.push(".staging");
        let path = PathBuf::from(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .map_err(StoreError::io("create", &path))?;
        std::fs::remove_file(&path).map_err(StoreError::io("unlink", &path))?;
        Ok(Self { path, file, written: 0, buckets: (0..BUCKETS).map(|_| Bucket::default()).collect() })
    }

    pub(super) fn push(&mut self, pack: PackNo, new: &NewEntry) -> Result<()> {
        let bucket = &mut self.buckets[usize::from(new.id.as_bytes()[0])];
        if bucket.buffer.len() >= BUFFERED * RECORD {
            self.file
                .write_all_at(&bucket.buffer, self.written)
                .map_err(StoreError::io("write", &self.path))?;
            bucket.spilled.push((self.written, bucket.buffer.len()));
            self.written += bucket.buffer.len() as u64;
            bucket.buffer.clear();
        }
        let buffer = &mut bucket.buffer;
        buffer.extend_from_slice(new.id.as_bytes());
        buffer.extend_from_slice(&pack.0.to_le_bytes());
        buffer.extend_from_slice(&new.entry.to_le_bytes());
        buffer.extend_from_slice(&new.offset.to_le_bytes());
        buffer.extend_from_slice(&new.stored_len.to_le_bytes());
        buffer.extend_from_slice(&new.plain_len.to_le_bytes());
        buffer.push(new.kind.0);
        Ok(())
    }

    /// Gives all entries to `f`, sorted by id; entries of equal id in the order they came.
    pub(super) fn drain_sorted(mut self, f: &mut dyn FnMut(PackNo, &NewEntry) -> Result<()>) -> Result<()> {
        for bucket in std::mem::take(&mut self.buckets) {
            let mut bytes = vec![0; bucket.spilled.iter().map(|(_, len)| len).sum()];
            let mut at = 0;
            for (offset, len) in bucket.spilled {
                let part = &mut bytes[at..at + len];
                self.file.read_exact_at(part, offset).map_err(StoreError::io("read", &self.path))?;
                at += len;
            }
            bytes.extend_from_slice(&bucket.buffer);
            let (records, _) = bytes.as_chunks_mut::<RECORD>();
            // The order in which they came is the order of packs and, in a pack, of entries.
            records.sort_by(|a, b| a[..32].cmp(&b[..32]));
            for record in records {
                let (pack, entry) = parse(record);
                f(pack, &entry)?;
            }
        }
        Ok(())
    }
}

fn parse(record: &[u8; RECORD]) -> (PackNo, NewEntry) {
    let mut at = 0;
    let entry = NewEntry {
        id: ObjectId::from_bytes(take(record, &mut at)),
        entry: {
            at += 4;
            u32::from_le_bytes(take(record, &mut at))
        },
        offset: u64::from_le_bytes(take(record, &mut at)),
        stored_len: u32::from_le_bytes(take(record, &mut at)),
        plain_len: u32::from_le_bytes(take(record, &mut at)),
        kind: Kind(record[RECORD - 1]),
    };
    (PackNo(u32::from_le_bytes(take(record, &mut 32))), entry)
}

/// The next `N` bytes of a record.
fn take<const N: usize>(record: &[u8; RECORD], at: &mut usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&record[*at..*at + N]);
    *at += N;
    out
}
