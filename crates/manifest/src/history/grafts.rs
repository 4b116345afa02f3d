//! Forgotten commits: what history looks like without them.
//!
//! A commit's id covers its parents' ids, so a commit cannot be taken out of the middle of a history. It can be left out: the
//! store has one object that lists what was forgotten, each with the nearest ancestors that are left, and everyone who follows
//! history goes on with those in its place. Git calls this a graft. So children keep their ancestry, a history is as long as
//! what is left of it, and gc frees what only forgotten commits led to, their own objects included.
//!
//! ```text
//! d ─► c ─► b ─► a        b and c are forgotten: { b: [a], c: [a] }, and d's parent is a
//! ```
//!
//! Three rules keep this safe. The object has a kind of its own, which programs that do not know it refuse to follow: they
//! would take the history behind a gap for garbage. A ref never leads to a forgotten commit. And an entry is dropped only
//! when nothing that is left names the commit as a parent.

use std::collections::BTreeMap;

use cas_core::refs::{Expected, RefChange};
use cas_core::{Kind, ObjectId, Store, StoreError, WriteTransaction};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::ReadError;
use crate::object::{ManifestObject, SaveError};
use crate::stored::{self, FromStore};
use crate::wire::Extra;
use crate::{GRAFTS, wire};

/// What was forgotten, and what stands in its place.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Grafts {
    forgotten: BTreeMap<Id, Vec<Id>>,
    #[serde(flatten)]
    extra: Extra,
}

/// An id that is no reference: gc does not follow it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Id(ObjectId);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        wire::id::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        wire::id::deserialize(deserializer).map(Self)
    }
}

impl ManifestObject for Grafts {
    const KIND: Kind = GRAFTS;

    fn check(&self) -> Result<(), String> {
        for (id, left) in &self.forgotten {
            if let Some(gone) = left.iter().find(|id| self.forgotten.contains_key(id)) {
                return Err(format!(
                    "{} stands for {} and is forgotten itself",
                    gone.0.short(),
                    id.0.short()
                ));
            }
        }
        Ok(())
    }
}

impl Grafts {
    /// The ref that leads to them.
    pub const REF: &str = "history/forgotten";

    /// Those of a store, and the object that they are in; none if nothing was ever forgotten.
    pub fn load_from(store: &Store) -> Result<(Self, Option<ObjectId>), Box<ReadError<StoreError>>> {
        let at = store.refs().get(Self::REF).map_err(|source| {
            let id = ObjectId::from_bytes([0; 32]);
            Box::new(ReadError::Source { what: Self::type_name(), id, source })
        })?;
        match at {
            Some(id) => Ok((Self::load(&FromStore(store), &id).map_err(Box::new)?, Some(id))),
            None => Ok((Self::default(), None)),
        }
    }

    /// Puts them into a write, and says what its commit must do to make them those of the store. `before` is what
    /// [`Grafts::load_from`] said: somebody else's change in between makes the commit fail, and nothing is lost.
    pub fn change(
        &self,
        transaction: &WriteTransaction,
        before: Option<ObjectId>,
    ) -> Result<RefChange, SaveError<StoreError>> {
        let id = stored::save(self, transaction)?;
        let expected = before.map_or(Expected::Absent, Expected::At);
        Ok(RefChange { name: Self::REF.to_owned(), expected, new: Some(id) })
    }

    /// Whether a commit was forgotten.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.forgotten.contains_key(&Id(*id))
    }

    /// How many are listed.
    pub fn len(&self) -> usize {
        self.forgotten.len()
    }

    /// Whether nothing is.
    pub fn is_empty(&self) -> bool {
        self.forgotten.is_empty()
    }

    /// Every one that is listed.
    pub fn iter(&self) -> impl Iterator<Item = &ObjectId> {
        self.forgotten.keys().map(|id| &id.0)
    }

    /// The parents that are left of these: the nearest ancestors in the place of each that was forgotten, none twice.
    pub fn parents(&self, parents: &[ObjectId]) -> Vec<ObjectId> {
        let mut left = Vec::with_capacity(parents.len());
        for parent in parents {
            match self.forgotten.get(&Id(*parent)) {
                Some(instead) => instead.iter().for_each(|id| push_new(&mut left, id.0)),
                None => push_new(&mut left, *parent),
            }
        }
        left
    }

    /// Leaves commits out, each given with its own parents. In any order: one may be a parent of another.
    pub fn forget(&mut self, commits: &[(ObjectId, Vec<ObjectId>)]) {
        for (id, parents) in commits {
            if self.contains(id) {
                continue;
            }
            let instead: Vec<Id> =
                self.parents(parents).into_iter().filter(|parent| parent != id).map(Id).collect();
            // What stood for others is gone now, too.
            for left in self.forgotten.values_mut().filter(|left| left.contains(&Id(*id))) {
                let mut anew = Vec::with_capacity(left.len());
                for one in left.iter() {
                    let one = if one.0 == *id { &instead[..] } else { std::slice::from_ref(one) };
                    one.iter().for_each(|id| push_new(&mut anew, *id));
                }
                *left = anew;
            }
            self.forgotten.insert(Id(*id), instead);
        }
    }

    /// Takes commits back into history: they are in the store again, with all that they hold. Each comes with its own
    /// parents; one of those that is not `there` and not listed is a gap now, and what stood in the commit's place stands in
    /// that one's.
    pub fn recall(&mut self, commits: &[(ObjectId, Vec<ObjectId>)], there: impl Fn(&ObjectId) -> bool) {
        for (id, parents) in commits {
            let Some(instead) = self.forgotten.remove(&Id(*id)) else { continue };
            for parent in parents {
                if !there(parent) && !self.contains(parent) {
                    self.forgotten.insert(Id(*parent), instead.clone());
                }
            }
        }
    }

    /// The same in a store where what is left has other names; what was forgotten keeps its own, as in the commits that came from
    /// it.
    pub fn renamed(&self, name: impl Fn(&ObjectId) -> Option<ObjectId>) -> Self {
        let now = |id: &Id| Id(name(&id.0).unwrap_or(id.0));
        let renamed = |(id, left): (&Id, &Vec<Id>)| (*id, left.iter().map(now).collect());
        Self { forgotten: self.forgotten.iter().map(renamed).collect(), extra: self.extra.clone() }
    }

    /// Drops the entries that nobody needs. Those that a commit which is left names as its parent must be `needed`.
    pub fn retain(&mut self, needed: impl Fn(&ObjectId) -> bool) {
        self.forgotten.retain(|id, _| needed(&id.0));
    }
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes([byte; 32])
    }

    /// Parents by the commit's number: 1 ◄─ 2 ◄─ 3 ◄─ 4, 5 ◄─ 2, 6 ◄─ 4 and 2.
    fn history(commit: u8) -> (ObjectId, Vec<ObjectId>) {
        let parents: &[u8] = match commit {
            2 => &[1],
            3 | 5 => &[2],
            4 => &[3],
            6 => &[4, 2],
            _ => &[],
        };
        (id(commit), parents.iter().map(|number| id(*number)).collect())
    }

    fn forget(order: &[u8]) -> Grafts {
        let mut grafts = Grafts::default();
        for commit in order {
            grafts.forget(&[history(*commit)]);
        }
        grafts
    }

    #[test]
    fn the_nearest_ancestors_stand_in_the_place_of_what_is_forgotten() {
        let grafts = forget(&[3]);
        assert_eq!(grafts.parents(&history(4).1), [id(2)]);
        assert_eq!(grafts.parents(&history(6).1), [id(4), id(2)], "others are as they were");
        assert_eq!(forget(&[3, 4]).parents(&history(6).1), [id(2)], "one ancestor, not twice");
        assert!(forget(&[1]).parents(&history(2).1).is_empty());
    }

    #[test]
    fn the_order_does_not_matter() {
        let all = forget(&[1, 2, 3, 4]);
        for order in [[4, 3, 2, 1], [2, 4, 1, 3], [3, 1, 4, 2]] {
            assert_eq!(forget(&order), all, "{order:?}");
        }
        let mut at_once = Grafts::default();
        at_once.forget(&[4, 2, 1, 3].map(history));
        assert_eq!(at_once, all);
        assert!(all.parents(&history(6).1).is_empty());
        assert_eq!(Grafts::decode(&all.encode().unwrap()).unwrap(), all);
    }

    #[test]
    fn what_comes_back_leaves_no_hole_behind_it() {
        let mut grafts = forget(&[3, 2]);
        grafts.retain(|forgotten| *forgotten == id(3));
        assert_eq!(grafts.parents(&[id(3)]), [id(1)]);
        // 3 is imported again, alone: its parent 2 is in no store and in no list, and leads to 1 from now on.
        grafts.recall(&[history(3)], |parent| *parent == id(1));
        assert!(!grafts.contains(&id(3)));
        assert_eq!(grafts.parents(&history(3).1), [id(1)]);
    }

    #[test]
    fn a_list_that_leads_in_circles_is_refused() {
        let mut grafts = forget(&[3]);
        grafts.forgotten.insert(Id(id(2)), vec![Id(id(3))]);
        assert_eq!(grafts.encode().unwrap_err().code(), "IJ-M011");
    }
}
