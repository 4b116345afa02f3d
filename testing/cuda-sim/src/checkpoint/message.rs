//! Requests to a helper thread and its answers, as they travel through the target's own two pipes.
//!
//! Each is one write of at most `PIPE_BUF` bytes: a length and a JSON text. The kernel writes that many whole or not at
//! all, so a caller that is killed leaves a whole request behind or none, and never a torn one. What it leaves is
//! carried out (the real driver does so too), and its answer is read by the next caller, who sees that the id is not
//! its own and throws it away.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::state::Step;
use crate::faults::Verdict;

/// `PIPE_BUF`: what a pipe takes in one piece.
pub const LIMIT: usize = 4096;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the caller; never 0.
    pub id: u64,
    /// What is asked.
    pub ask: Ask,
    /// Directory of the server on the caller's machine. A process that was brought here from another machine learns by
    /// it where its devices are now.
    pub dir: PathBuf,
    /// Wall clock in milliseconds after which a Lock must not happen. Not the monotonic clock: a process restored by
    /// CRIU may have an offset on that one.
    pub until: Option<u64>,
    /// The process that makes the call.
    pub caller: i32,
    /// The target as the caller numbers it.
    pub pid: i32,
    /// A fault that the caller met and that only the helper can carry out.
    pub fault: Option<Verdict>,
}

/// What is asked of a helper.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// Only the state.
    State,
    /// A step.
    Step {
        /// Which.
        step: Step,
        /// Old and new GPU of each pair of a restore, as UUIDs in hexadecimal.
        pairs: Vec<(String, String)>,
        /// The caller keeps the memory (13.4): the GPUs whose contexts it has.
        custom: Option<Vec<String>>,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// Id of the request.
    pub id: u64,
    /// A `CUresult`.
    pub code: i32,
    /// Number of the state now.
    pub state: u32,
    /// With custom storage: name of the parked memory, and its GPUs and sizes.
    pub parked: Option<Parked>,
}

/// Memory of a process that a caller is to copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parked {
    /// The server's name for it.
    pub token: u64,
    /// For each GPU with memory of the process.
    pub parts: Vec<Part>,
}

/// The memory on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The GPU's UUID in hexadecimal.
    pub gpu: String,
    /// The number by which a caller opens it.
    pub key: u64,
    /// Its length.
    pub bytes: u64,
}

/// One message as bytes; `None` if it does not fit in one piece.
#[must_use]
pub fn frame<T: Serialize>(message: &T) -> Option<Vec<u8>> {
    let text = serde_json::to_vec(message).ok()?;
    let length = u32::try_from(text.len()).ok()?;
    let mut bytes = length.to_le_bytes().to_vec();
    bytes.extend(text);
    (bytes.len() <= LIMIT).then_some(bytes)
}

/// The messages in what one read gave. The writers make each of them whole, so what cannot be read is skipped.
#[must_use]
pub fn split<T: DeserializeOwned>(mut bytes: &[u8]) -> Vec<T> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_le_bytes(*head)).unwrap_or(usize::MAX);
        let Some((text, rest)) = rest.split_at_checked(length) else { break };
        found.extend(serde_json::from_slice(text).ok());
        bytes = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(pairs: usize) -> Request {
        let pair = ("0".repeat(32), "f".repeat(32));
        Request {
            id: 7,
            ask: Ask::Step { step: Step::Restore, pairs: vec![pair; pairs], custom: None },
            dir: PathBuf::from("/var/lib/cuda-sim"),
            until: None,
            caller: 1,
            pid: 2,
            fault: None,
        }
    }

    #[test]
    fn a_map_of_sixteen_gpus_fits_and_too_many_do_not() {
        let bytes = frame(&request(16)).unwrap();
        assert_eq!(split::<Request>(&bytes), [request(16)]);
        assert_eq!(split::<Request>(&[bytes.clone(), bytes].concat()).len(), 2);
        assert!(frame(&request(200)).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), small in any::<bool>()) {
            if small && bytes.len() > 4 {
                bytes[1..4].fill(0);
            }
            let _ = split::<Request>(&bytes);
            let _ = split::<Reply>(&bytes);
        }
    }
}
