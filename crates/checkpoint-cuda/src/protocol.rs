//! What the daemon and its worker say to each other: one JSON object a line.
//!
//! Requests have numbers, and replies bear the number of their request, because calls overlap and a call that was given up may
//! be answered long after. A line that is too long or makes no sense is an error of the other side, never a panic here.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::facts::Capabilities;
use crate::uuid::GpuUuid;

/// Nothing that we say comes near this length: 4,000 pairs of GPUs would.
pub(crate) const LONGEST: u64 = 512 * 1024;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) ask: Ask,
}

/// What can be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// What can you do?
    Hello,
    /// The thread that does the driver's work.
    Thread { pid: i32 },
    /// The state.
    State { pid: i32 },
    /// RUNNING to LOCKED.
    Lock { pid: i32, timeout_ms: u32 },
    /// LOCKED to CHECKPOINTED.
    Checkpoint { pid: i32, storage: Option<PathBuf> },
    /// CHECKPOINTED to LOCKED.
    Restore { pid: i32, pairs: Vec<(GpuUuid, GpuUuid)>, storage: Option<PathBuf> },
    /// LOCKED to RUNNING.
    Unlock { pid: i32 },
}

/// One reply.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) answer: Answer,
}

/// What can be answered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// To [`Ask::Hello`].
    Hello(Capabilities),
    /// To [`Ask::Hello`]: there is no driver.
    NoDriver { detail: String },
    /// To [`Ask::Hello`]: it lacks the calls.
    TooOld { cuda_version: Option<u32>, missing: String },
    /// A thread or a state.
    Number(i32),
    /// It was done.
    Done,
    /// The driver said no.
    Code { code: i32, name: String },
    /// The driver does not let this user do it, and there is no helper.
    NotPermitted { name: String },
    /// The driver does not let this user do it, and the helper did not either.
    Helper { detail: String },
    /// It failed on our side of the driver.
    Failed { detail: String },
}

/// A message as a line.
pub(crate) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The next message; `None` at the end of the stream.
pub(crate) fn read<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    input.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask() -> impl Strategy<Value = Ask> {
        let pid = any::<i32>();
        let storage = proptest::option::of("/[a-z /\"\\\\é]{0,20}".prop_map(PathBuf::from));
        let uuid = || any::<[u8; 16]>().prop_map(GpuUuid::from_bytes);
        prop_oneof![
            Just(Ask::Hello),
            pid.prop_map(|pid| Ask::State { pid }),
            pid.prop_map(|pid| Ask::Thread { pid }),
            pid.prop_map(|pid| Ask::Unlock { pid }),
            (pid, any::<u32>()).prop_map(|(pid, timeout_ms)| Ask::Lock { pid, timeout_ms }),
            (pid, storage.clone()).prop_map(|(pid, storage)| Ask::Checkpoint { pid, storage }),
            (pid, proptest::collection::vec((uuid(), uuid()), 0..9), storage)
                .prop_map(|(pid, pairs, storage)| Ask::Restore { pid, pairs, storage }),
        ]
    }

    proptest! {
        #[test]
        fn requests_come_back(id: u64, ask in ask()) {
            let request = Request { id, ask };
            let line = line(&request).unwrap();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(read::<Request>(&mut &line[..]).unwrap(), Some(request));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut input = &bytes[..];
            // Every line is read or refused, and the end comes.
            for _ in 0..=bytes.len() {
                if let Ok(None) = read::<Reply>(&mut input) {
                    return Ok(());
                }
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn no_answer_makes_the_reader_panic(
            text in r#"\{"id":[0-9]{1,22},"answer":(\{"(number|code|hello|failed)":[-0-9a-z{}":]{0,20}\}|"done")\}"#
        ) {
            let _ = read::<Reply>(&mut format!("{text}\n").as_bytes());
        }
    }

    #[test]
    fn half_a_line_and_an_endless_line_are_refused() {
        read::<Reply>(&mut &b"{\"id\":1,\"answer\":\"done\"}"[..]).unwrap_err();
        let endless = vec![b' '; usize::try_from(LONGEST).unwrap() + 10];
        read::<Reply>(&mut &endless[..]).unwrap_err();
        assert_eq!(
            read::<Reply>(&mut &b"{\"id\":1,\"answer\":\"done\"}\n"[..]).unwrap(),
            Some(Reply { id: 1, answer: Answer::Done })
        );
        assert_eq!(read::<Reply>(&mut &b""[..]).unwrap(), None);
    }
}
