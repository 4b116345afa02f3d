//! What can be reached from where.
//!
//! The store follows the references in its own kinds of objects; for the others it asks a [`References`] of the layer
//! above. Marking fills a [`LiveSet`]. An object that should lead on and cannot be read is reported, because whatever it
//! led to is now unknown: gc does not delete anything on such a ground.

use std::collections::HashSet;

use crate::blob;
use crate::elsewhere::Elsewhere;
use crate::error::{Class, Result, StoreError};
use crate::id::{Kind, ObjectId};
use crate::memory;
use crate::progress::{Progress, Task};
use crate::store::{ReadContext, Store};

/// One reference from an object to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// What is referred to.
    pub id: ObjectId,
    /// Its kind.
    pub kind: Kind,
    /// Whether the store may do without it: a parent commit that was never imported, for example. If it is there, it is
    /// kept all the same.
    pub weak: bool,
}

impl Reference {
    /// A reference that must be there.
    pub const fn strong(kind: Kind, id: ObjectId) -> Self {
        Self { id, kind, weak: false }
    }
}

/// Knows the references in the kinds of objects that the store does not know.
pub trait References: Sync {
    /// Everything that an object refers to. `Err` is a sentence about what is wrong with it.
    fn references(&self, kind: Kind, content: &[u8]) -> Result<Vec<Reference>, String>;

    /// Somebody is about to follow references. A layer whose references depend on more than the object, such as a list of
    /// commits that were forgotten, reads that again. `true`: the answers may be others than before.
    fn renew(&self, store: &Store) -> Result<bool> {
        let _unneeded = store;
        Ok(false)
    }

    /// An object was read from an export and has this id here.
    fn imported(&self, kind: Kind, id: &ObjectId) {
        let _unneeded = (kind, id);
    }
}

/// For stores without objects of higher layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoReferences;

impl References for NoReferences {
    fn references(&self, _: Kind, _: &[u8]) -> Result<Vec<Reference>, String> {
        Ok(Vec::new())
    }
}

/// Everything that `content` refers to, whoever knows its kind.
pub fn references(kind: Kind, content: &[u8], above: &dyn References) -> Result<Vec<Reference>, String> {
    let own = |list: Vec<(Kind, ObjectId)>| {
        list.into_iter().map(|(kind, id)| Reference::strong(kind, id)).collect()
    };
    match kind {
        Kind::CHUNK | Kind::PAGES => Ok(Vec::new()),
        Kind::CHUNK_LIST => blob::references(content).map(own),
        Kind::MAP_LEAF | Kind::MAP_NODE => memory::references(kind, content).map(own),
        _ => above.references(kind, content),
    }
}

/// The objects that are reachable.
///
/// Objects that lead on are kept by 128 bits of their ids: taking one for another would lose what it leads to. Bulk data is
/// kept by 64 bits: taking one for another there only keeps some garbage. So 10^8 chunks fit into 2 GB.
#[derive(Debug, Default)]
pub struct LiveSet {
    leading: HashSet<u128>,
    data: HashSet<u64>,
    /// What leads on and stays, while the data below it may go ([`let_go`](crate::let_go)). Kept apart: whoever comes to one of them on
    /// another way goes on from there.
    bare: HashSet<u128>,
}

impl LiveSet {
    /// Adds an object; `true` if it was not there.
    pub(crate) fn insert(&mut self, kind: Kind, id: &ObjectId) -> bool {
        if kind.is_metadata() { self.leading.insert(prefix128(id)) } else { self.data.insert(prefix64(id)) }
    }

    /// Whether an object is reachable.
    pub fn contains(&self, kind: Kind, id: &ObjectId) -> bool {
        if kind.is_metadata() {
            self.leading.contains(&prefix128(id)) || self.bare.contains(&prefix128(id))
        } else {
            self.data.contains(&prefix64(id))
        }
    }

    /// How many objects are.
    pub fn len(&self) -> u64 {
        (self.leading.len() + self.data.len()) as u64
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn prefix128(id: &ObjectId) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&id.as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

fn prefix64(id: &ObjectId) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&id.as_bytes()[16..24]);
    u64::from_le_bytes(bytes)
}

/// An object that could not be followed.
#[derive(Debug)]
pub struct Unreadable {
    /// Which one.
    pub reference: Reference,
    /// What stood in the way of reading it.
    pub error: StoreError,
}

/// Follows references.
pub(crate) struct Marker<'a> {
    store: &'a Store,
    above: &'a dyn References,
    progress: &'a dyn Progress,
    context: ReadContext,
    content: Vec<u8>,
    pub(crate) live: LiveSet,
    pub(crate) unreadable: Vec<Unreadable>,
    /// Reachable bulk data that the catalogue does not have. Looked up as it is found, because a [`LiveSet`] does not
    /// keep whole ids; `None` if nobody asked.
    pub(crate) missing: Option<Vec<ObjectId>>,
    /// Below these data may be missing. They come last, so that what others need, too, is asked for.
    elsewhere: Elsewhere,
    deferred: Vec<Reference>,
    /// Below these data may go.
    let_go: HashSet<ObjectId>,
    /// Those of them that were come to, whenever that was.
    going: Vec<Reference>,
    /// The stored length of all that was marked, if somebody asked.
    stored: Option<u64>,
}

/// On which way an object was come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// From a name. What may be let go of is.
    Named,
    /// From something that is being built upon, whose data is needed whatever may be let go of.
    BuiltUpon,
}

impl<'a> Marker<'a> {
    pub(crate) fn new(
        store: &'a Store,
        above: &'a dyn References,
        progress: &'a dyn Progress,
    ) -> Result<Self> {
        let context = ReadContext::new()?;
        let (live, unreadable) = (LiveSet::default(), Vec::new());
        let (content, missing) = (Vec::new(), None);
        let (elsewhere, deferred) = (Elsewhere::default(), Vec::new());
        let (let_go, going, stored) = (HashSet::new(), Vec::new(), None);
        Ok(Self {
            store,
            above,
            progress,
            context,
            content,
            live,
            unreadable,
            missing,
            elsewhere,
            deferred,
            let_go,
            going,
            stored,
        })
    }

    /// From now on the data below these is not marked, unless something else leads to it.
    pub(crate) fn letting_go(&mut self, of: HashSet<ObjectId>) {
        self.let_go = of;
    }

    /// Counts what is marked.
    pub(crate) fn counting(mut self) -> Self {
        self.stored = Some(0);
        self
    }

    /// The stored length of what was marked so far.
    pub(crate) fn stored(&self) -> u64 {
        self.stored.unwrap_or_default()
    }

    /// Also asks the catalogue for every object of bulk data, but for what is [elsewhere](crate::elsewhere).
    pub(crate) fn looking_for_missing(mut self) -> Result<Self> {
        self.missing = Some(Vec::new());
        self.elsewhere = self.store.elsewhere()?;
        Ok(self)
    }

    /// What is missing. Call it when all is marked: what has its data elsewhere is marked now.
    pub(crate) fn missing(&mut self) -> Result<Vec<ObjectId>> {
        let missing = self.missing.take().unwrap_or_default();
        for reference in std::mem::take(&mut self.deferred) {
            self.mark(reference, Way::Named)?;
        }
        Ok(missing)
    }

    /// Whether an object of either sort was marked.
    pub(crate) fn reaches(&self, id: &ObjectId) -> bool {
        self.live.contains(Kind::CHUNK, id) || self.live.contains(Kind::MAP_NODE, id)
    }

    /// Marks everything that refs and the pins of living transactions lead to. May be called again, later: it then follows
    /// only what is new.
    pub(crate) fn mark_roots(&mut self) -> Result<()> {
        if self.above.renew(self.store)? {
            // What was followed led elsewhere.
            self.live = LiveSet::default();
            self.going.clear();
        }
        // Pins first: a transaction that ends in between has put its ref down before it lets go of its pins.
        let transactions = self.store.catalogue.open_writes()?;
        for id in transactions.iter().flat_map(|transaction| &transaction.pins) {
            self.mark_pin(id)?;
        }
        for (name, target) in self.store.refs().list("")? {
            match target {
                Ok(id) => self.mark_root(&id)?,
                Err(error) if error.class() == Class::Environment => return Err(error),
                Err(error) => {
                    let id = ObjectId::from_bytes([0; 32]);
                    let detail = format!("ref `{name}` cannot be read: {error}");
                    let error = StoreError::Malformed { id, detail };
                    self.unreadable.push(Unreadable { reference: Reference::strong(Kind(0), id), error });
                }
            }
        }
        self.mark_bare()
    }

    /// Marks what one object leads to. Its kind is what the catalogue says.
    pub(crate) fn mark_root(&mut self, id: &ObjectId) -> Result<()> {
        self.mark_from(id, Way::Named)
    }

    /// Marks something that is being built upon. Whoever does so shares its data without looking it up.
    pub(crate) fn mark_pin(&mut self, id: &ObjectId) -> Result<()> {
        self.mark_from(id, Way::BuiltUpon)?;
        let Some(location) = self.store.catalogue.lookup(id)?.filter(|_| !self.let_go.is_empty()) else {
            return Ok(());
        };
        // It may have been come to from a name before. What cannot be read was told then.
        let below = self.follow(&Reference::strong(location.kind, *id)).unwrap_or_default();
        below.into_iter().filter(|one| !one.weak).try_for_each(|one| self.mark(one, Way::BuiltUpon))
    }

    fn mark_from(&mut self, id: &ObjectId, way: Way) -> Result<()> {
        match self.store.catalogue.lookup(id)? {
            Some(location) => self.mark(Reference::strong(location.kind, *id), way),
            None => {
                let error = StoreError::MissingObject { id: *id };
                self.unreadable.push(Unreadable { reference: Reference::strong(Kind(0), *id), error });
                Ok(())
            }
        }
    }

    fn mark(&mut self, root: Reference, way: Way) -> Result<()> {
        let mut stack = vec![(root, way)];
        while let Some((reference, way)) = stack.pop() {
            if reference.weak && !self.store.contains(&reference.id)? {
                continue;
            }
            // What came before something that is built upon is not built upon itself.
            let way = if reference.weak { Way::Named } else { way };
            if way == Way::Named && self.let_go.contains(&reference.id) {
                self.going.push(reference);
                continue;
            }
            if self.missing.is_some() && self.elsewhere.place(&reference.id).is_some() {
                self.deferred.push(reference);
                continue;
            }
            if !self.live.insert(reference.kind, &reference.id) {
                continue;
            }
            if !self.live.bare.contains(&prefix128(&reference.id)) {
                self.count(&reference.id)?;
            }
            if !reference.kind.is_metadata() {
                if let Some(missing) = &mut self.missing
                    && !self.store.contains(&reference.id)?
                {
                    missing.push(reference.id);
                }
                continue;
            }
            self.progress.advance(Task::Mark, 1);
            match self.follow(&reference) {
                Ok(more) => stack.extend(more.into_iter().map(|below| (below, way))),
                Err(error) => self.unreadable.push(Unreadable { reference, error }),
            }
        }
        Ok(())
    }

    /// Marks what leads on below what may be let go of, and none of its data. What was come to earlier is not come to again, so all of it is gone
    /// through each time.
    fn mark_bare(&mut self) -> Result<()> {
        self.live.bare.clear();
        let mut at = 0;
        while let Some(reference) = self.going.get(at).copied() {
            at += 1;
            if !self.let_go.contains(&reference.id) {
                // Not any more.
                self.mark(reference, Way::Named)?;
                continue;
            }
            let mut stack = vec![reference];
            while let Some(reference) = stack.pop() {
                let short = prefix128(&reference.id);
                let is_data = !reference.kind.is_metadata();
                if is_data || self.live.leading.contains(&short) || !self.live.bare.insert(short) {
                    continue;
                }
                self.count(&reference.id)?;
                match self.follow(&reference) {
                    Ok(more) => {
                        let (before, own): (Vec<_>, Vec<_>) = more.into_iter().partition(|one| one.weak);
                        before.into_iter().try_for_each(|one| self.mark(one, Way::Named))?;
                        stack.extend(own);
                    }
                    Err(error) => self.unreadable.push(Unreadable { reference, error }),
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, id: &ObjectId) -> Result<()> {
        if let Some(stored) = &mut self.stored {
            *stored += self.store.catalogue.lookup(id)?.map_or(0, |location| u64::from(location.stored_len));
        }
        Ok(())
    }

    fn follow(&mut self, reference: &Reference) -> Result<Vec<Reference>> {
        self.store.read_into(reference.kind, &reference.id, &mut self.context, &mut self.content)?;
        references(reference.kind, &self.content, self.above)
            .map_err(|detail| StoreError::Malformed { id: reference.id, detail })
    }
}
