//! The memory of a process whose dump left pages out: some are in the pages file, the others somebody else has.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use cas_core::memory::{PageSource, Region};
use checkpoint_criu::{LeftOut, MapId};

use crate::pages::PagesLayout;

/// All pages of a process, wherever they are.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub(crate) pid: u32,
    pub(crate) file: File,
    /// The pages that are in the file.
    pub(crate) in_file: PagesLayout,
    /// All pages.
    pub(crate) all: PagesLayout,
    pub(crate) left_out: Arc<dyn LeftOut>,
    /// The parent that this is stored against.
    pub(crate) parent: Option<MapId>,
}

impl PageSource for Assembled {
    fn regions(&self) -> Vec<Region> {
        self.all.regions()
    }

    fn read(&self, mut address: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        while !buffer.is_empty() {
            let wanted = buffer.len() as u64;
            let next = self.in_file.next(address).unwrap_or(u64::MAX);
            let count = if next == address {
                let (offset, left) = self.in_file.find(address)?;
                let (part, _) = buffer.split_at_mut(length(left.min(wanted)));
                self.file.read_exact_at(part, offset)?;
                part.len()
            } else {
                let (part, _) = buffer.split_at_mut(length((next - address).min(wanted)));
                self.left_out.read(self.pid, address, part)?;
                part.len()
            };
            address += count as u64;
            buffer = buffer.split_at_mut(count).1;
        }
        Ok(())
    }

    /// CRIU writes by itself what nobody watches, so all of that may have been written.
    fn written(&self) -> Option<Vec<Region>> {
        let written = self.left_out.written(self.pid, self.parent.as_ref()?)?;
        let in_file =
            self.in_file.regions().into_iter().map(|region| region.start..region.start + region.len);
        Some(joined(written.into_iter().chain(in_file).collect()))
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// In order, and without overlaps.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Region> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut regions: Vec<Region> = Vec::new();
    for range in ranges.into_iter().filter(|range| !range.is_empty()) {
        match regions.last_mut() {
            Some(last) if range.start <= last.start + last.len => {
                last.len = last.len.max(range.end - last.start);
            }
            _ => regions.push(Region { start: range.start, len: range.end - range.start }),
        }
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_one() {
        let regions = joined(vec![8..9, 0..4, 2..3, 4..6, 7..7, 8..12]);
        assert_eq!(regions, [Region { start: 0, len: 6 }, Region { start: 8, len: 4 }]);
    }
}
