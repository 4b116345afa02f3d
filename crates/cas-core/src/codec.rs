//! Compression of one object.
//!
//! zstd level 1 throughout: on real kernel images levels 1 and 3 give the same size (0.37 of the input) and level 1 is
//! faster. What does not shrink by at least 1/32 is kept raw, so that reading it back costs nothing.

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
pub struct Encoder {
    zstd: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encoder")
    }
}

impl Encoder {
    /// Allocates the compressor's tables.
    pub fn new() -> Result<Self> {
        let zstd = zstd::bulk::Compressor::new(LEVEL).map_err(zstd_failed)?;
        Ok(Self { zstd })
    }

    /// Replaces `out` by the encoded form of `content` and says which form it is. `out` keeps its allocation, so a buffer
    /// that is used again costs no page faults.
    pub fn encode(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<Codec> {
        let worth = content.len() - content.len() / 32;
        out.clear();
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

fn zstd_failed(error: std::io::Error) -> StoreError {
    StoreError::Bug { detail: format!("zstd refused to compress: {error}") }
}

/// A reusable decompressor; one per worker thread.
pub struct Decoder {
    zstd: zstd::bulk::Decompressor<'static>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decoder")
    }
}

impl Decoder {
    /// Allocates the decompressor.
    pub fn new() -> Result<Self> {
        let zstd = zstd::bulk::Decompressor::new()
            .map_err(|error| StoreError::Bug { detail: format!("zstd refused to start: {error}") })?;
        Ok(Self { zstd })
    }

    /// Fills `out`, which has exactly the content's length. `Err` is a sentence about what is wrong with `stored`.
    pub fn decode(&mut self, codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<(), String> {
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
