//! Packs that are mostly dead: what is needed of them moves into new packs.
//!
//! Nothing is taken away here. The copies are made and published as a push would do it, under the collection's lease. Then there are two copies of each
//! object, and the old packs are condemned like those that hold nothing: whoever began before that may rely on them for as long as
//! it has a lease, and a later collection looks again at what refs lead to before it deletes them. What came to be needed of an old pack
//! meanwhile, and was not copied, pardons it.
//!
//! So a collection that dies at any point leaves copies that nothing names, which the next one collects, or copies that are in the index beside the old
//! pack, which the next one finds there and does not make again.

use std::collections::{BTreeMap, HashMap, HashSet};

use cas_core::pack::PackClass;
use cas_core::parcel::Parcel;

use crate::error::Result;
use crate::index::{IndexEntry, ShortId};
use crate::lease::Lease;
use crate::push::{PACK, entries_of};
use crate::remote::{Remote, View};
use crate::token::Token;

impl Remote {
    /// Copies what is needed of these packs into new ones, unless it is in another pack already. Returns the stored length of what was copied.
    pub(crate) fn move_out_of(
        &self,
        own: &Lease<'_>,
        view: &View,
        live: &HashSet<ShortId>,
        worn: &[Token],
    ) -> Result<u64> {
        let mut copies = Copies { remote: self, open: BTreeMap::new(), entries: Vec::new(), bytes: 0 };
        for (pack, wanted) in moving(view, live, worn)? {
            own.keep()?;
            // A pack that is gone is no damage if we were given up: then others have gone on without us.
            copies.take(&pack, wanted).or_else(|error| own.renew().and(Err(error)))?;
        }
        copies.finish()?;
        self.publish(own, copies.entries)?;
        self.tidy(own)?;
        Ok(copies.bytes)
    }
}

/// Which objects must be copied out of which pack.
fn moving(view: &View, live: &HashSet<ShortId>, worn: &[Token]) -> Result<BTreeMap<Token, HashSet<ShortId>>> {
    let worn: HashSet<Token> = worn.iter().copied().collect();
    let mut moving = HashMap::new();
    if worn.is_empty() {
        return Ok(BTreeMap::new());
    }
    view.index.for_each(&mut |_, entry| {
        if worn.contains(&entry.pack) && live.contains(&entry.id) {
            moving.entry(entry.id).or_insert(entry.pack);
        }
    })?;
    view.index.for_each(&mut |_, entry| {
        if !worn.contains(&entry.pack) && !view.condemned.contains(&entry.pack) {
            moving.remove(&entry.id);
        }
    })?;
    let mut by_pack: BTreeMap<Token, HashSet<ShortId>> = BTreeMap::new();
    moving.into_iter().for_each(|(id, pack)| _ = by_pack.entry(pack).or_default().insert(id));
    Ok(by_pack)
}

/// New packs, one of metadata and one of data at a time.
struct Copies<'a> {
    remote: &'a Remote,
    /// By whether it is for metadata.
    open: BTreeMap<bool, Parcel>,
    entries: Vec<IndexEntry>,
    bytes: u64,
}

impl Copies<'_> {
    /// Copies objects out of a pack. All of them must be there: the pack will be given up.
    fn take(&mut self, pack: &Token, mut wanted: HashSet<ShortId>) -> Result<()> {
        let old = self.remote.read_pack(pack)?;
        for record in &old.records {
            let id = record.entry.id;
            if !wanted.remove(&ShortId::of(&id)) {
                continue;
            }
            let metadata = record.entry.kind.is_metadata();
            let parcel = match self.open.entry(metadata) {
                std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
                std::collections::btree_map::Entry::Vacant(none) => {
                    let class = if metadata { PackClass::Metadata } else { PackClass::Data };
                    none.insert(self.remote.store.parcel(class)?)
                }
            };
            let forwarded = parcel.forward(&self.remote.store, &id, old.object(record)?)?;
            forwarded.map_err(|detail| old.damaged(format!("object {} {detail}", id.short())))?;
            self.bytes += u64::from(record.entry.stored_len);
            if parcel.len() >= PACK {
                self.put(metadata)?;
            }
        }
        match wanted.len() {
            0 => Ok(()),
            lacking => Err(old.damaged(format!("lacks {lacking} objects that the index says are there"))),
        }
    }

    fn put(&mut self, metadata: bool) -> Result<()> {
        let Some(parcel) = self.open.remove(&metadata) else { return Ok(()) };
        let parcel = parcel.finish();
        self.remote.bucket.put_new(&format!("packs/{}", Token::of_pack(&parcel.id)), &parcel.bytes)?;
        self.entries.extend(entries_of(&parcel)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.put(false)?;
        self.put(true)
    }
}
