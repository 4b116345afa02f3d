//! The bare stages: what each part of the work costs when nothing is around it.
//!
//! A store cannot be faster than its slowest stage, so its speed is judged as a share of that stage's, on the same
//! bytes, the same file and the same cores, in the same run. A stage reads its input by `pread` from the same file,
//! as the store must. Memory for the buffers is allocated once a thread.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow};

use crate::measure::{self, Timed, timed};
use crate::rng::Rng;

/// What a stage took in, gave out and cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    /// Bytes read.
    pub(crate) bytes_in: u64,
    /// Bytes that came out.
    pub(crate) bytes_out: u64,
    /// What it cost.
    pub(crate) took: Timed,
}

/// zstd over pieces of `piece` bytes.
pub(crate) fn compress(path: &Path, piece: usize, level: i32, threads: usize) -> Result<Stage> {
    over_pieces(path, piece, threads, || {
        let mut compressor = zstd::bulk::Compressor::new(level).context("cannot set up zstd")?;
        let mut out = vec![0; zstd::zstd_safe::compress_bound(piece)];
        Ok(move |bytes: &[u8]| Ok(compressor.compress_to_buffer(bytes, &mut out)? as u64))
    })
}

/// BLAKE3 over pieces, one thread each.
pub(crate) fn hash(path: &Path, piece: usize, threads: usize) -> Result<Stage> {
    over_pieces(path, piece, threads, || {
        Ok(|bytes: &[u8]| Ok(u64::from(blake3::hash(bytes).as_bytes()[0] & 1)))
    })
}

/// Only reading.
pub(crate) fn read(path: &Path, piece: usize, threads: usize) -> Result<Stage> {
    over_pieces(path, piece, threads, || Ok(|bytes: &[u8]| Ok(bytes.len() as u64)))
}

/// Runs one worker a thread over all pieces of a file. `worker` makes the function that gets each piece and says how
/// many bytes it gave out.
fn over_pieces<W>(
    path: &Path,
    piece: usize,
    threads: usize,
    worker: impl Fn() -> Result<W> + Sync,
) -> Result<Stage>
where
    W: FnMut(&[u8]) -> Result<u64>,
{
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let len = file.metadata()?.len();
    let next = AtomicU64::new(0);
    let run = || -> Result<u64> {
        let mut work = worker()?;
        let mut buffer = vec![0; piece];
        let mut sum = 0;
        loop {
            let offset = next.fetch_add(piece as u64, Ordering::Relaxed);
            if offset >= len {
                return Ok(sum);
            }
            let size = usize::try_from(len - offset).unwrap_or(piece).min(piece);
            file.read_exact_at(&mut buffer[..size], offset).context("cannot read the image")?;
            sum += work(&buffer[..size])?;
        }
    };
    let (bytes_out, took) = timed(|| on_threads(threads, run))?;
    Ok(Stage { bytes_in: len, bytes_out, took })
}

fn on_threads(threads: usize, run: impl Fn() -> Result<u64> + Sync) -> Result<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&run)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a worker thread panicked")).and_then(|sum| sum))
            .sum()
    })
}

/// Writes `len` bytes that do not compress to a new file in `dir` and makes them durable: file, then directory.
pub(crate) fn write_and_sync(dir: &Path, len: u64) -> Result<Stage> {
    let mut rng = Rng::of(&[len]);
    let buffer: Vec<u8> = (0..measure::MIB / 8).flat_map(|_| rng.next().to_le_bytes()).collect();
    let path = dir.join("bare-write.tmp");
    let ((), took) = timed(|| {
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut offset = 0;
        while offset < len {
            let size = usize::try_from(len - offset).unwrap_or(buffer.len()).min(buffer.len());
            file.write_all_at(&buffer[..size], offset)?;
            offset += size as u64;
        }
        file.sync_all().context("cannot sync")?;
        File::open(dir)?.sync_all().context("cannot sync the directory")
    })?;
    fs::remove_file(&path)?;
    Ok(Stage { bytes_in: len, bytes_out: len, took })
}

/// Where a compressed object lies.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// The pack.
    pub(crate) path: PathBuf,
    /// Its first byte there.
    pub(crate) offset: u64,
    /// Its length there.
    pub(crate) len: usize,
    /// Its length when decompressed.
    pub(crate) raw_len: usize,
}

/// Reads stored objects by `pread` and decompresses them, nothing else.
pub(crate) fn decompress(objects: &[Stored], threads: usize) -> Result<Stage> {
    let mut files: Vec<(&Path, File)> = Vec::new();
    let mut file_of = Vec::with_capacity(objects.len());
    for object in objects {
        let at = match files.iter().rposition(|(path, _)| *path == object.path) {
            Some(at) => at,
            None => {
                let file = File::open(&object.path)
                    .with_context(|| format!("cannot open {}", object.path.display()))?;
                files.push((&object.path, file));
                files.len() - 1
            }
        };
        file_of.push(at);
    }
    let stored_max = objects.iter().map(|object| object.len).max().unwrap_or(0);
    let raw_max = objects.iter().map(|object| object.raw_len).max().unwrap_or(0);
    let next = AtomicU64::new(0);
    let run = || -> Result<u64> {
        let mut zstd = zstd::bulk::Decompressor::new().context("cannot set up zstd")?;
        let mut stored = vec![0; stored_max];
        let mut raw = vec![0; raw_max];
        let mut sum = 0;
        loop {
            let at = usize::try_from(next.fetch_add(1, Ordering::Relaxed))?;
            let Some(object) = objects.get(at) else { return Ok(sum) };
            files[file_of[at]].1.read_exact_at(&mut stored[..object.len], object.offset)?;
            // What did not shrink is stored as it is; bare zstd would copy it too.
            sum += if object.len == object.raw_len {
                raw[..object.len].copy_from_slice(&stored[..object.len]);
                object.len as u64
            } else {
                zstd.decompress_to_buffer(&stored[..object.len], &mut raw[..])? as u64
            };
        }
    };
    let (bytes_out, took) = timed(|| on_threads(threads, run))?;
    Ok(Stage { bytes_in: objects.iter().map(|object| object.len as u64).sum(), bytes_out, took })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_see_every_byte() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        let bytes = vec![5; 1_000_001];
        fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path, 4096, 2).unwrap().bytes_out, 1_000_001);
        let squeezed = compress(&path, 64 << 10, 1, 2).unwrap();
        assert_eq!(squeezed.bytes_in, 1_000_001);
        assert!(squeezed.bytes_out < 2000);
        assert_eq!(write_and_sync(dir.path(), 3_000_003).unwrap().bytes_out, 3_000_003);
    }

    #[test]
    fn stored_objects_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        let object = zstd::bulk::compress(&[9; 5000], 1).unwrap();
        let file = [b"head".as_slice(), &object, &object].concat();
        fs::write(&path, file).unwrap();
        let stored = |at: usize| Stored {
            path: path.clone(),
            offset: (4 + at * object.len()) as u64,
            len: object.len(),
            raw_len: 5000,
        };
        assert_eq!(decompress(&[stored(0), stored(1)], 2).unwrap().bytes_out, 10_000);
    }
}
