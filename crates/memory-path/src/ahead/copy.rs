//! Pages of a process that runs, into the sink.

use crate::error::{MemoryError, Result};
use crate::memory::Memory;
use crate::pages::{PAGE_BYTES, Run, Task, difference, merged};

use super::sink::PageSink;

/// As much as is copied in one go. It stays in the cache between being read and being hashed.
const PIECE: usize = 1 << 20;

/// Copies runs, which are in order. Every page is put, or forgotten because it could not be read. What the sink does not have at the end is
/// `owed`, also if there was an error.
pub(super) fn copy(
    memory: &Memory,
    task: Task,
    runs: &[Run],
    sink: &mut dyn PageSink,
    owed: &mut Vec<Run>,
) -> Result<()> {
    let mut missing = Vec::new();
    let mut result = Ok(());
    let mut buffer = vec![0; PIECE];
    let mut pieces = pieces(runs).into_iter();
    for piece in pieces.by_ref() {
        let length = piece.iter().map(|run| bytes(*run)).sum();
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        let unreadable = memory.read(&piece, buffer);
        result = put(task, &piece, buffer, &unreadable, sink);
        if result.is_err() {
            missing.extend(piece);
            break;
        }
        missing.extend(unreadable);
    }
    missing.extend(pieces.flatten());
    *owed = merged(missing);
    result
}

/// Gives runs to the sink whose contents lie one after the other in a buffer, but for those that could not be read.
pub(super) fn put(
    task: Task,
    runs: &[Run],
    buffer: &[u8],
    unreadable: &[Run],
    sink: &mut dyn PageSink,
) -> Result<()> {
    let failed = |source| MemoryError::Sink { task, source };
    let unreadable = merged(unreadable.to_vec());
    let mut rest = buffer;
    for run in runs {
        let (of_run, others) = rest.split_at_checked(bytes(*run)).unwrap_or_default();
        for good in difference(&[*run], &unreadable) {
            let from = bytes(Run { start: run.start, end: good.start });
            let pages = of_run.get(from..from + bytes(good)).unwrap_or_default();
            sink.put(task, good.start, pages).map_err(failed)?;
        }
        rest = others;
    }
    for run in unreadable {
        sink.forget(task, run).map_err(failed)?;
    }
    Ok(())
}

/// The length of a run that fits into memory.
pub(super) fn bytes(run: Run) -> usize {
    usize::try_from(run.len()).unwrap_or(usize::MAX)
}

/// Cuts runs into pieces of at most [`PIECE`] bytes.
fn pieces(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut pieces: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for run in runs {
        let mut run = *run;
        while !run.is_empty() {
            if room == 0 {
                pieces.push(Vec::new());
                room = PIECE;
            }
            let end = run.start + run.len().min(room as u64);
            let part = Run { start: run.start, end };
            room -= bytes(part);
            if let Some(piece) = pieces.last_mut() {
                piece.push(part);
            }
            run.start = end;
        }
    }
    pieces
}

const _: () = assert!(PIECE.is_multiple_of(PAGE_BYTES));

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pages::{PAGE, pages_in};

    proptest! {
        #[test]
        fn pieces_are_the_runs_and_none_is_too_long(
            runs in proptest::collection::vec((1_u64..100_000, 1_u64..700), 0..40),
        ) {
            let runs = merged(
                runs.into_iter().map(|(at, n)| Run { start: at * PAGE, end: (at + n) * PAGE }).collect(),
            );
            let pieces = pieces(&runs);
            for piece in &pieces {
                prop_assert!(pages_in(piece) <= PIECE as u64 / PAGE && !piece.is_empty());
            }
            prop_assert_eq!(merged(pieces.concat()), runs);
        }
    }
}
