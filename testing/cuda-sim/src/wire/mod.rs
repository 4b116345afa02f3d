//! What the client library and the device server say to each other.
//!
//! A process connects to `DIR/socket`; the server learns who it is by the kernel's word (SO_PEERCRED), hands over two pipe
//! ends and closes the connection. Such a pair of pipes is a *channel*: one request, one answer, in turn. A frame is its
//! length (four bytes, little endian) and that many bytes of JSON. Bulk bytes never travel here: the server reads and
//! writes the client's memory itself.
use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod checkpoint;
mod core;
mod module;
mod nvml;

pub use self::checkpoint::{Begun, Checkpoint, EventImage, Image, MapImage, Piece};
pub use self::core::{Core, End, GpuInfo, Host, MemoryInfo, Span};
pub use self::module::{Module, ModuleImage};
pub use self::nvml::{Card, Machine, Nvml, Use};

/// No frame is longer: the largest things in one are PTX texts and tables of allocations.
pub const LONGEST_FRAME: usize = 64 << 20;

/// A request of the client library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Devices, contexts, memory, streams, events.
    Core(Core),
    /// The checkpoint calls and the questions about faults.
    Checkpoint(Checkpoint),
    /// Modules and launches.
    Module(Module),
    /// The management library.
    Nvml(Nvml),
}

/// The server's answer: a `CUresult`, and what the request was after if that is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The `CUresult`.
    pub code: i32,
    /// As the request says; null where there is nothing to say.
    #[serde(default)]
    pub body: Value,
}

/// Writes one frame.
///
/// # Errors
/// Those of the writer, or a message that is too long.
pub fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message)?;
    let length = frame.len() - 4;
    let length = u32::try_from(length)
        .ok()
        .filter(|_| length <= LONGEST_FRAME)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "frame too long"))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    out.write_all(&frame)
}

/// Reads one frame.
///
/// # Errors
/// Those of the reader (`UnexpectedEof` when the other side is gone), and `InvalidData` for what is no such message.
pub fn receive<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "frame too long"));
    }
    // The length is not believed: memory grows with what really arrives.
    let mut frame = Vec::new();
    input.take(length as u64).read_to_end(&mut frame)?;
    if frame.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&frame).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(receive::<Request>(&mut bytes.as_slice()));
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            drop(receive::<Request>(&mut framed.as_slice()));
            drop(receive::<Answer>(&mut framed.as_slice()));
        }

        #[test]
        fn round_trip(address in any::<u64>(), bytes in any::<u64>(), context in any::<u64>()) {
            let request = Request::Core(Core::Alloc { context, address, bytes });
            let mut frame = Vec::new();
            send(&mut frame, &request).unwrap();
            prop_assert_eq!(receive::<Request>(&mut frame.as_slice()).unwrap(), request);
        }
    }

    #[test]
    fn a_lying_length_is_refused_without_memory() {
        let mut lie = u32::MAX.to_le_bytes().to_vec();
        lie.extend(b"{}");
        assert_eq!(receive::<Request>(&mut lie.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut short = 1000u32.to_le_bytes().to_vec();
        short.extend(b"{}");
        assert_eq!(
            receive::<Request>(&mut short.as_slice()).unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
    }
}
