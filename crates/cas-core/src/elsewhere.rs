//! What a store knows of and does not hold.
//!
//! A history can come without the bulk of its data, or be rid of it later ([`let_go`](crate::let_go)): everything that leads on is here, pages
//! and chunks are in another place. Below which objects that is so is written down in the file `elsewhere` in the store's directory, one line for each: its id, and the name of
//! the place. What a place is, others know; here it is a word.
//!
//! The list is changed before the objects can be read, and what is in it without being in the store does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::beyond::Beyond;
use crate::error::{Result, StoreError};
use crate::fsio;
use crate::id::ObjectId;
use crate::lock;
use crate::store::Store;

/// More than half a million objects are not noted.
const LIMIT: u64 = 64 << 20;

/// Below these objects data may be missing, and there it is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Elsewhere(BTreeMap<ObjectId, String>);

impl Elsewhere {
    /// Where the data of an object is; `None`: here.
    pub fn place(&self, id: &ObjectId) -> Option<&str> {
        self.0.get(id).map(String::as_str)
    }

    /// Whether all data is here.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All places.
    pub fn places(&self) -> BTreeSet<&str> {
        self.0.values().map(String::as_str).collect()
    }

    /// How many objects have their data elsewhere.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes that the data of an object is in `place`, a word.
    pub fn add(&mut self, id: ObjectId, place: &str) {
        self.0.insert(id, place.to_owned());
    }

    /// Keeps only those.
    pub fn retain(&mut self, mut keep: impl FnMut(&ObjectId) -> bool) {
        self.0.retain(|id, _| keep(id));
    }

    fn parse(text: &str) -> Option<Self> {
        let line = |line: &str| {
            let (id, place) = line.split_once(' ')?;
            Some((id.parse().ok()?, place.to_owned())).filter(|_| !place.is_empty())
        };
        text.lines().map(line).collect::<Option<_>>().map(Self)
    }
}

impl Store {
    /// Which objects have their data elsewhere.
    pub fn elsewhere(&self) -> Result<Elsewhere> {
        let path = self.elsewhere_path();
        let Some(bytes) = fsio::read_small(self.options.disk.as_ref(), &path, LIMIT)? else {
            return Ok(Elsewhere::default());
        };
        let list = String::from_utf8(bytes).ok().and_then(|text| Elsewhere::parse(&text));
        list.ok_or_else(|| StoreError::damaged("list of what is elsewhere", path, "has a line that is none"))
    }

    /// Changes which they are. Others may do so at the same time.
    pub fn change_elsewhere(&self, change: impl FnOnce(&mut Elsewhere)) -> Result<()> {
        let _lock = lock::exclusive(&self.layout.lock("elsewhere"))?;
        let before = self.elsewhere()?;
        let mut list = before.clone();
        change(&mut list);
        if list == before {
            return Ok(());
        }
        let text: String = list.0.iter().map(|(id, place)| format!("{id} {place}\n")).collect();
        if text.len() as u64 > LIMIT {
            return Err(StoreError::Invalid {
                what: "too many snapshots have their data elsewhere".to_owned(),
            });
        }
        fsio::replace(self.options.disk.as_ref(), &self.elsewhere_path(), text.as_bytes())
    }

    /// When the list was last changed.
    pub fn elsewhere_changed(&self) -> Result<Option<SystemTime>> {
        let path = self.elsewhere_path();
        match std::fs::metadata(&path).and_then(|facts| facts.modified()) {
            Ok(changed) => Ok(Some(changed)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("look at", &path)(error)),
        }
    }

    /// From now on objects that are not here are asked of `beyond`. The first that is given stays.
    pub fn look_beyond(&self, beyond: Arc<dyn Beyond>) {
        // A second one would be told of the same places.
        let _ = self.beyond.set(beyond);
    }

    /// Who is asked, if something may have to be asked for at all.
    pub(crate) fn beyond(&self) -> Result<Option<&dyn Beyond>> {
        match self.beyond.get() {
            Some(beyond) if !self.elsewhere()?.is_empty() => Ok(Some(beyond.as_ref())),
            _ => Ok(None),
        }
    }

    fn elsewhere_path(&self) -> PathBuf {
        self.layout.root().join("elsewhere")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpenOptions;

    #[test]
    fn what_is_elsewhere_is_remembered_until_it_is_here() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::init(&dir.path().join("s"), None, OpenOptions::default()).unwrap();
        assert!(store.elsewhere().unwrap().is_empty());
        let id = |n: u8| ObjectId::from_bytes([n; 32]);
        store.change_elsewhere(|list| (1..4).for_each(|n| list.add(id(n), "origin"))).unwrap();
        store.change_elsewhere(|list| list.retain(|one| *one != id(2))).unwrap();
        let list = store.elsewhere().unwrap();
        assert_eq!((list.place(&id(1)), list.place(&id(2)), list.len()), (Some("origin"), None, 2));
        assert_eq!(list.places().into_iter().collect::<Vec<_>>(), ["origin"]);
        std::fs::write(store.elsewhere_path(), "nonsense\n").unwrap();
        assert!(matches!(store.elsewhere(), Err(StoreError::Damaged { .. })));
    }
}
