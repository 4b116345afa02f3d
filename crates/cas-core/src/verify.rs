//! Checking a store.
//!
//! *Structure* asks whether everything is there and fits together: catalogue, pack headers and footers, refs, keyring, and
//! whether all that refs lead to can be reached, which reads every object that describes others. *Bytes* reads every
//! object besides, and compares its content with its id.
//!
//! A problem is reported and the check goes on: the report is meant to say how much is affected, not only that
//! something is.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::catalogue::{Location, PackRow};
use crate::error::{Class, Result, StoreError};
use crate::id::{ObjectId, PackId};
use crate::pack::{ENTRY_LEN, FooterRecord, PackReader};
use crate::parallel;
use crate::progress::{Progress, Task};
use crate::reach::{Marker, References};
use crate::store::{ReadContext, Store, Trust};

/// How much is checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// What describes other things.
    Structure,
    /// Every byte.
    Bytes,
}

/// Something that is wrong.
#[derive(Debug)]
pub struct Problem {
    /// A sentence.
    pub sentence: String,
    /// The error that says so, if there is one.
    pub error: Option<StoreError>,
    /// Whether data cannot be read. Otherwise it is litter, or something that can be made anew.
    pub data_lost: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Packs that were looked at.
    pub packs: u64,
    /// Objects in the catalogue.
    pub objects: u64,
    /// Objects whose content was compared with their id.
    pub objects_read: u64,
    /// Their stored bytes.
    pub bytes_read: u64,
    /// Objects that refs lead to.
    pub reachable: u64,
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// Refs that lead to something that cannot be read.
    pub affected_refs: Vec<String>,
}

impl VerifyReport {
    fn add(&mut self, data_lost: bool, sentence: impl Into<String>, error: Option<StoreError>) {
        self.problems.push(Problem { sentence: sentence.into(), error, data_lost });
    }

    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Store {
    /// Checks the store. An `Err` means that the check itself could not be made.
    pub fn verify(
        &self,
        above: &dyn References,
        depth: Depth,
        progress: &dyn Progress,
    ) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        for sentence in self.catalogue.check()? {
            report.add(false, format!("catalogue: {sentence}"), None);
        }
        if let Some(keys) = &self.keys {
            for error in keys.check_copies() {
                report.add(false, "one copy of the keyring is damaged; the other is in use", Some(error));
            }
        }
        let packs = self.catalogue.packs()?;
        let mut damaged = self.check_packs(&packs, &mut report)?;
        self.check_litter(&packs, &mut report)?;
        if depth == Depth::Bytes {
            self.check_bytes(&packs, &mut report, &mut damaged, progress)?;
        }
        self.check_reachable(above, &mut report, &damaged, progress)?;
        Ok(report)
    }

    /// Every pack of the catalogue is there, is what its name says, and has what the catalogue says. Returns the objects
    /// that cannot be read because their pack cannot.
    fn check_packs(&self, packs: &[PackRow], report: &mut VerifyReport) -> Result<HashSet<ObjectId>> {
        let mut lost = HashSet::new();
        for row in packs {
            report.packs += 1;
            report.objects += u64::from(row.objects);
            let objects = self.catalogue.objects_of(row.no)?;
            let reader = match self.packs.open(&row.id).and_then(PackReader::new) {
                Ok(reader) => reader,
                // gc has removed it since.
                Err(_) if self.catalogue.pack(row.no)?.is_none() => continue,
                Err(error) => {
                    let what = match &error {
                        StoreError::MissingPack { .. } => "is missing",
                        error if error.class() == Class::Corruption => "is damaged",
                        _ => "cannot be read",
                    };
                    let sentence = format!("pack {} {what}, and {} objects with it", row.id, objects.len());
                    report.add(!objects.is_empty(), sentence, Some(error));
                    lost.extend(objects.iter().map(|(id, _)| *id));
                    continue;
                }
            };
            match reader.footer(&row.id) {
                Ok(records) => check_contents(row, &objects, &records, report),
                Err(error) if error.class() != Class::Corruption => {
                    report.add(false, format!("the end of pack {} cannot be read", row.id), Some(error));
                }
                // The catalogue knows where the objects are; what is gone is what it could be rebuilt from.
                Err(error) => {
                    let len = reader.size()?;
                    let beyond = objects.iter().filter(|(_, at)| end_of(at) > len).map(|(id, _)| *id);
                    let before = lost.len();
                    lost.extend(beyond);
                    let (gone, sentence) = match lost.len() - before {
                        0 => (false, format!("the end of pack {} is damaged; its objects are there", row.id)),
                        n => (true, format!("pack {} is cut off, and {n} objects with it", row.id)),
                    };
                    report.add(gone, sentence, Some(error));
                }
            }
        }
        Ok(lost)
    }

    /// Packs that nobody knows.
    fn check_litter(&self, packs: &[PackRow], report: &mut VerifyReport) -> Result<()> {
        let mut known: HashSet<PackId> = packs.iter().map(|row| row.id).collect();
        known.extend(self.catalogue.doomed()?);
        known.extend(self.catalogue.announced()?.iter().filter_map(|(name, _)| name.parse::<PackId>().ok()));
        // Packs that came since are known by now.
        known.extend(self.catalogue.packs()?.iter().map(|row| row.id));
        for pack in self.packs.list()? {
            if !known.contains(&pack) {
                report.add(
                    false,
                    format!("pack {pack} is not in the catalogue; `infinijup store rebuild` adds it"),
                    None,
                );
            }
        }
        Ok(())
    }

    /// Reads every object of every pack, on all cores.
    fn check_bytes(
        &self,
        packs: &[PackRow],
        report: &mut VerifyReport,
        damaged: &mut HashSet<ObjectId>,
        progress: &dyn Progress,
    ) -> Result<()> {
        progress.begin(Task::Verify, Some(packs.iter().map(|row| row.stored).sum()));
        // Those whose pack is gone were counted with it.
        let gone = damaged.clone();
        let found = Mutex::new((report, damaged));
        let state = || Ok((ReadContext::new()?, Vec::new()));
        let check = |(context, content): &mut (ReadContext, Vec<u8>), row: &PackRow| {
            for (id, location) in self.catalogue.objects_of(row.no)? {
                if gone.contains(&id) {
                    continue;
                }
                let read = self.check_object(&id, &location, context, content);
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                match read {
                    Ok(()) => {
                        found.0.objects_read += 1;
                        found.0.bytes_read += u64::from(location.stored_len);
                    }
                    // gc has removed it since.
                    Err(StoreError::MissingObject { .. }) => {}
                    Err(error) => {
                        found.0.add(true, format!("object {id} cannot be read"), Some(error));
                        found.1.insert(id);
                    }
                }
                drop(found);
                progress.advance(Task::Verify, u64::from(location.stored_len));
            }
            Ok(())
        };
        let result = parallel::for_each(self.threads(), packs, state, check);
        progress.end(Task::Verify);
        result
    }

    fn check_object(
        &self,
        id: &ObjectId,
        location: &Location,
        context: &mut ReadContext,
        content: &mut Vec<u8>,
    ) -> Result<()> {
        self.read_into(location.kind, id, context, content)?;
        // With `Trust::Identity` reading has compared the id already.
        if self.options.trust != Trust::Identity && self.hasher.id(location.kind, content) != *id {
            let path = self.open_pack(location.pack)?.reader.place().to_path_buf();
            return Err(StoreError::damaged(
                "object",
                path,
                format!("{}: content does not fit the id", id.short()),
            ));
        }
        Ok(())
    }

    /// Everything that refs lead to is there; and which refs lead to something that is not.
    fn check_reachable(
        &self,
        above: &dyn References,
        report: &mut VerifyReport,
        damaged: &HashSet<ObjectId>,
        progress: &dyn Progress,
    ) -> Result<()> {
        above.renew(self)?;
        let mut all = Marker::new(self, above, progress)?.looking_for_missing()?;
        let mut names = Vec::new();
        for (name, target) in self.refs().list("")? {
            match target {
                Ok(id) => {
                    all.mark_root(&id)?;
                    names.push((name, id));
                }
                Err(error) => {
                    report.add(true, format!("ref `{name}` cannot be read"), Some(error));
                    report.affected_refs.push(name);
                }
            }
        }
        let missing = all.missing()?;
        report.reachable = all.live.len();
        let mut lost = damaged.clone();
        for unreadable in all.unreadable {
            lost.insert(unreadable.reference.id);
            let sentence = format!("object {} is needed and cannot be read", unreadable.reference.id);
            report.add(true, sentence, Some(unreadable.error));
        }
        // Bulk data is not read here; that the catalogue has it is what can be asked without reading it.
        for id in missing {
            lost.insert(id);
            report.add(
                true,
                format!("object {id} is needed and not in the store"),
                Some(StoreError::MissingObject { id }),
            );
        }
        if lost.is_empty() {
            return Ok(());
        }
        for (name, id) in names {
            let mut one = Marker::new(self, above, progress)?;
            one.mark_root(&id)?;
            let reads_all = one.unreadable.is_empty() && !lost.iter().any(|lost| one.reaches(lost));
            if !reads_all {
                report.affected_refs.push(name);
            }
        }
        report.affected_refs.sort_unstable();
        Ok(())
    }
}

fn end_of(location: &Location) -> u64 {
    location.offset + ENTRY_LEN as u64 + u64::from(location.stored_len)
}

/// What the catalogue places in a pack, the pack lists.
fn check_contents(
    row: &PackRow,
    objects: &[(ObjectId, Location)],
    records: &[FooterRecord],
    report: &mut VerifyReport,
) {
    let listed: HashSet<(ObjectId, u64)> =
        records.iter().map(|record| (record.entry.id, record.offset)).collect();
    for (id, location) in objects {
        if !listed.contains(&(*id, location.offset)) {
            report.add(true, format!("pack {} does not list object {id}, the catalogue does", row.id), None);
        }
    }
}
