//! Reading objects out of a remote's packs, many at a time, and believing nothing of them.

use std::ops::Range;

use cas_core::pack::ENTRY_LEN;
use cas_core::parcel::Foreign;
use cas_core::reach::Reference;

use crate::bucket::must_be;
use crate::error::{RemoteError, Result};
use crate::index::{IndexEntry, MAX_STORED};
use crate::parallel;
use crate::remote::Remote;
use crate::token::Token;

/// Objects that lie so near to each other are fetched by one request, and what lies between them is thrown away.
const GAP: u64 = 64 << 10;
/// A request fetches at most so much, unless one object is longer.
const RUN: u64 = 8 << 20;
/// Requests at a time.
const IN_FLIGHT: usize = 8;

/// An object and where it is.
pub(crate) type Placed = (Reference, IndexEntry);

struct Run<'a> {
    pack: Token,
    bytes: Range<u64>,
    objects: &'a [Placed],
}

impl Remote {
    /// Reads objects, in any order, from several threads.
    pub(crate) fn read_objects(
        &self,
        mut objects: Vec<Placed>,
        each: &(dyn Fn(&Reference, Foreign) -> Result<()> + Sync),
    ) -> Result<()> {
        objects.sort_unstable_by_key(|(_, entry)| (entry.pack, entry.offset));
        let runs = runs(&objects);
        parallel::each(IN_FLIGHT, &runs, &|run| {
            let key = format!("packs/{}", run.pack);
            let length = run.bytes.end - run.bytes.start;
            let bytes = must_be(self.bucket.get_range(&key, run.bytes.start, length)?, &key)?;
            for (reference, entry) in run.objects {
                let place = place(entry);
                let at = |offset: u64| usize::try_from(offset - run.bytes.start).unwrap_or(usize::MAX);
                let bytes = bytes.get(at(place.start)..at(place.end)).unwrap_or_default();
                let opened = self.store.open_foreign(reference.kind, &reference.id, bytes)?;
                let object = opened.map_err(|detail| {
                    RemoteError::damaged(&key, format!("object {} {detail}", reference.id.short()))
                })?;
                each(reference, object)?;
            }
            Ok(())
        })
    }
}

fn place(entry: &IndexEntry) -> Range<u64> {
    debug_assert!(entry.stored <= MAX_STORED);
    let start = u64::from(entry.offset);
    start..start + ENTRY_LEN as u64 + u64::from(entry.stored)
}

fn runs(objects: &[Placed]) -> Vec<Run<'_>> {
    let mut runs: Vec<(usize, Run<'_>)> = Vec::new();
    for (n, (_, entry)) in objects.iter().enumerate() {
        let place = place(entry);
        match runs.last_mut() {
            Some((first, run))
                if run.pack == entry.pack
                    && place.start <= run.bytes.end + GAP
                    && place.end.saturating_sub(run.bytes.start) <= RUN =>
            {
                run.bytes.end = run.bytes.end.max(place.end);
                run.objects = &objects[*first..=n];
            }
            _ => runs.push((n, Run { pack: entry.pack, bytes: place, objects: &objects[n..=n] })),
        }
    }
    runs.into_iter().map(|(_, run)| run).collect()
}
