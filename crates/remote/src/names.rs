//! The remotes that a store knows by name: the file `remotes` in its directory.
//!
//! One line for each, `NAME ADDRESS`, and `unencrypted` at its end once somebody has agreed that snapshots may be read there. There
//! are no credentials in it. The file may be edited by hand; a line that makes no sense is an error, not a remote less.

use std::path::PathBuf;

use cas_core::fsio::{self, LocalDisk};
use cas_core::{Store, StoreError};

use crate::bucket::Address;
use crate::error::{RemoteError, Result};

/// More is not a list of remotes.
const LIMIT: u64 = 1 << 20;

/// A remote with a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: Address,
    /// Whether somebody has agreed that what is pushed can be read there.
    pub unencrypted: bool,
}

impl Named {
    /// The remotes of a store.
    pub fn list(store: &Store) -> Result<Vec<Self>> {
        let path = path(store);
        let Some(bytes) = fsio::read_small(&LocalDisk, &path, LIMIT)? else { return Ok(Vec::new()) };
        let damaged = |detail: String| StoreError::damaged("list of remotes", &path, detail);
        let text = String::from_utf8(bytes).map_err(|_| damaged("is not text".to_owned()))?;
        text.lines()
            .map(|line| parse(line).ok_or_else(|| damaged(format!("has the line `{line}`")).into()))
            .collect()
    }

    /// The one of this name.
    pub fn find(store: &Store, name: &str) -> Result<Self> {
        let found = Self::list(store)?.into_iter().find(|one| one.name == name);
        found.ok_or_else(|| RemoteError::NoSuchRemote { name: name.to_owned() })
    }

    /// Enters it, or changes what is known of it. Another address under the same name is refused.
    pub fn save(self, store: &Store) -> Result<()> {
        check(&self.name)?;
        let mut all = Self::list(store)?;
        match all.iter_mut().find(|one| one.name == self.name) {
            Some(one) if one.address != self.address => {
                return Err(RemoteError::NameTaken { name: self.name, address: one.address.to_string() });
            }
            Some(one) => one.unencrypted |= self.unencrypted,
            None => all.push(self),
        }
        write(store, &all)
    }

    /// Forgets it. Nothing in the bucket is touched.
    pub fn remove(store: &Store, name: &str) -> Result<Self> {
        let mut all = Self::list(store)?;
        let at = all.iter().position(|one| one.name == name);
        let at = at.ok_or_else(|| RemoteError::NoSuchRemote { name: name.to_owned() })?;
        let gone = all.remove(at);
        write(store, &all)?;
        Ok(gone)
    }

    /// Below which name local refs remember where its refs are.
    pub fn tracking(&self) -> String {
        format!("remotes/{}", self.name)
    }
}

fn path(store: &Store) -> PathBuf {
    store.root().join("remotes")
}

fn check(name: &str) -> Result<()> {
    let bad = |reason| StoreError::RefName { name: name.to_owned(), reason };
    base::names::check_session(name).map_err(bad)?;
    Ok(())
}

fn parse(line: &str) -> Option<Named> {
    let mut words = line.split(' ');
    let (name, address) = (words.next()?, words.next()?);
    check(name).ok()?;
    let unencrypted = match words.next() {
        None => false,
        Some("unencrypted") => true,
        Some(_) => return None,
    };
    Some(Named { name: name.to_owned(), address: Address::parse(address).ok()?, unencrypted })
}

fn write(store: &Store, all: &[Named]) -> Result<()> {
    let line = |one: &Named| {
        format!("{} {}{}\n", one.name, one.address, if one.unencrypted { " unencrypted" } else { "" })
    };
    let text: String = all.iter().map(line).collect();
    Ok(fsio::replace(&LocalDisk, &path(store), text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_remembered_changed_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::init(&dir.path().join("s"), None, cas_core::OpenOptions::default()).unwrap();
        assert_eq!(Named::list(&store).unwrap(), []);
        let named = |address: &str, unencrypted| Named {
            name: "origin".to_owned(),
            address: Address::parse(address).unwrap(),
            unencrypted,
        };
        named("s3://bucket/a", false).save(&store).unwrap();
        named("s3://bucket/a", true).save(&store).unwrap();
        assert_eq!(Named::find(&store, "origin").unwrap(), named("s3://bucket/a", true));
        let taken = named("s3://bucket/b", false).save(&store);
        assert!(matches!(taken, Err(RemoteError::NameTaken { .. })));
        assert!(matches!(Named::find(&store, "other"), Err(RemoteError::NoSuchRemote { .. })));
        Named::remove(&store, "origin").unwrap();
        assert_eq!(Named::list(&store).unwrap(), []);
        let bad = Named { name: "../x".to_owned(), ..named("s3://bucket/a", false) };
        assert!(bad.save(&store).is_err());
        std::fs::write(store.root().join("remotes"), "what is this\n").unwrap();
        assert!(matches!(Named::list(&store), Err(RemoteError::Store(StoreError::Damaged { .. }))));
    }
}
