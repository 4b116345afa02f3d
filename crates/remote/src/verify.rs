//! Checking a remote: that everything its refs lead to is there, and on request that every byte is what was written.

use std::collections::HashSet;

use cas_core::ObjectId;
use cas_core::progress::{Progress, Task};
use cas_core::reach::{Reference, References};
use cas_core::{Kind, pack};

use crate::bucket::must_be;
use crate::error::{RemoteError, Result};
use crate::index::ShortId;
use crate::parallel;
use crate::refs;
use crate::remote::Remote;
use crate::token::Token;
use crate::walk::Walk;

/// No longer pack is made.
const LONGEST_PACK: u64 = 256 << 20;

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// That everything is there: reads metadata only.
    Presence,
    /// Every byte.
    Bytes,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Refs.
    pub refs: u64,
    /// Objects that they lead to.
    pub objects: u64,
    /// Packs that hold them.
    pub packs: u64,
    /// Bytes that were read and compared.
    pub bytes: u64,
    /// What is wrong, each as a sentence.
    pub faults: Vec<String>,
}

impl Remote {
    /// Checks the remote.
    pub fn verify(
        &self,
        depth: Depth,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<VerifyReport> {
        let view = self.view()?;
        let (refs, broken) = refs::list(&self.bucket, self.hasher())?;
        let mut report = VerifyReport { refs: refs.len() as u64, ..VerifyReport::default() };
        report.faults.extend(broken.iter().map(|error| base::explain(error)));
        let mut live = HashSet::new();
        let targets: Vec<ObjectId> = refs.iter().map(|(_, id)| *id).collect();
        let mut walk = Walk::new(self, &view, above)?;
        walk.begin(&targets)?;
        progress.begin(Task::Verify, None);
        let walked = walk.run(&mut |reference: &Reference| {
            live.insert(ShortId::of(&reference.id));
            progress.advance(Task::Verify, 1);
        });
        progress.end(Task::Verify);
        match walked {
            Err(error @ (RemoteError::Damaged { .. } | RemoteError::Store(_))) => {
                report.faults.push(base::explain(&error));
            }
            walked => walked?,
        }
        report.objects = live.len() as u64;
        report.faults.extend(walk.missing.iter().map(|id| format!("object {id} is needed and is not there")));

        let mut packs = HashSet::new();
        view.index.for_each(&mut |_, entry| {
            if live.contains(&entry.id) {
                packs.insert(entry.pack);
            }
        })?;
        report.packs = packs.len() as u64;
        let listed = self.bucket.list("packs/")?;
        let there: HashSet<&str> = listed.iter().map(|one| one.key.as_str()).collect();
        for pack in &packs {
            if !there.contains(format!("packs/{pack}").as_str()) {
                report.faults.push(format!("pack {pack} is needed and is not there"));
            }
        }
        if depth == Depth::Bytes {
            let results = std::sync::Mutex::new(&mut report);
            let packs: Vec<Token> = packs.into_iter().collect();
            parallel::each(4, &packs, &|pack| {
                let checked = self.verify_pack(pack);
                let mut report = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                match checked {
                    Ok(bytes) => report.bytes += bytes,
                    Err(error @ RemoteError::Damaged { .. }) => report.faults.push(base::explain(&error)),
                    Err(error) => return Err(error),
                }
                Ok(())
            })?;
        }
        report.faults.sort_unstable();
        report.faults.dedup();
        Ok(report)
    }

    /// Reads a pack whole and compares everything in it with its id.
    fn verify_pack(&self, name: &Token) -> Result<u64> {
        let pack = self.read_pack(name)?;
        for record in &pack.records {
            let (kind, id): (Kind, ObjectId) = (record.entry.kind, record.entry.id);
            let opened = self.store.open_foreign(kind, &id, pack.object(record)?)?;
            opened.map_err(|detail| pack.damaged(format!("object {} {detail}", id.short())))?;
        }
        Ok(pack.bytes.len() as u64)
    }

    /// Reads a pack whole. Its footer is compared with its name, its objects with nothing yet.
    pub(crate) fn read_pack(&self, name: &Token) -> Result<WholePack> {
        let key = format!("packs/{name}");
        let (bytes, _) = must_be(self.bucket.get(&key, LONGEST_PACK)?, &key)?;
        let mut pack = WholePack { key, bytes, records: Vec::new(), end: 0 };
        let trailer = pack::Trailer::parse(&pack.bytes).map_err(|detail| pack.damaged(detail))?;
        let start = usize::try_from(trailer.footer_offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(trailer.footer_len as usize);
        let footer = pack.bytes.get(start..end).filter(|_| end + pack::TRAILER_LEN == pack.bytes.len());
        let footer =
            footer.ok_or_else(|| pack.damaged("has a footer that does not reach its trailer".into()))?;
        if !trailer.fits(footer) || Token::of_pack(&trailer.id) != *name {
            return Err(pack.damaged("is not the pack that its name says".into()));
        }
        let (_, records) = pack::parse_footer(footer).map_err(|detail| pack.damaged(detail))?;
        (pack.records, pack.end) = (records, start);
        Ok(pack)
    }
}

/// A pack that was read whole.
#[derive(Debug)]
pub(crate) struct WholePack {
    key: String,
    bytes: Vec<u8>,
    /// What is in it, by its own word.
    pub(crate) records: Vec<pack::FooterRecord>,
    /// Where its objects end.
    end: usize,
}

impl WholePack {
    /// The entry and the stored form of an object.
    pub(crate) fn object(&self, record: &pack::FooterRecord) -> Result<&[u8]> {
        let at = usize::try_from(record.offset).unwrap_or(usize::MAX);
        let end = at.saturating_add(pack::ENTRY_LEN + record.entry.stored_len as usize);
        let object = self.bytes.get(at..end).filter(|_| end <= self.end);
        object.ok_or_else(|| self.damaged("has an object beyond its end".into()))
    }

    pub(crate) fn damaged(&self, detail: String) -> RemoteError {
        RemoteError::damaged(&self.key, detail)
    }
}
