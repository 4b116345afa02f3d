//! Refs in a remote: one small object for each thread and tag.

use std::collections::HashSet;

use cas_core::{IdHasher, ObjectId};
use serde::{Deserialize, Serialize};

use crate::bucket::{Bucket, Statement};
use crate::error::{RemoteError, Result};

/// The name of a ref, and where it points.
pub(crate) type NamedTarget = (String, ObjectId);

/// What a ref says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct RefBody {
    pub(crate) name: String,
    /// `None`: it is gone. The object stays, so that no put from long ago can create it.
    pub(crate) target: Option<String>,
}

impl Statement for RefBody {
    const LIMIT: u64 = 16 << 10;
}

impl RefBody {
    pub(crate) fn new(name: &str, target: Option<ObjectId>) -> Self {
        Self { name: name.to_owned(), target: target.map(|id| id.to_string()) }
    }

    /// Where it points. Checked against the key it was found under.
    pub(crate) fn target(&self, key: &str) -> Result<Option<ObjectId>> {
        if key_of(&self.name)? != key {
            return Err(RemoteError::damaged(key, "is the ref of another name"));
        }
        let id = self.target.as_deref().map(str::parse::<ObjectId>).transpose();
        id.map_err(|_| RemoteError::damaged(key, "points at something that is no id"))
    }
}

/// Where the ref of a name lies. What servers treat in their own ways is written as `=` and two hex digits.
pub(crate) fn key_of(name: &str) -> Result<String> {
    let bad = |reason| cas_core::StoreError::RefName { name: name.to_owned(), reason };
    base::names::check_ref_path(name).map_err(bad)?;
    if !["threads/", "tags/"].iter().any(|prefix| name.starts_with(prefix)) {
        return Err(bad("it is neither a thread nor a tag").into());
    }
    let mut key = "refs/".to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => key.push(char::from(byte)),
            _ => key += &format!("={byte:02x}"),
        }
    }
    Ok(key)
}

/// Where a ref is. `None`: there is none, or it is gone.
pub(crate) fn get(bucket: &Bucket, hasher: &IdHasher, name: &str) -> Result<Option<ObjectId>> {
    let key = key_of(name)?;
    match bucket.read::<RefBody>(hasher, &key)? {
        Some(found) => found.body().target(&key),
        None => Ok(None),
    }
}

/// Where some refs are: those with these names, and others if there are no more than `limit` in all. What cannot be read is left out.
pub(crate) fn some(
    bucket: &Bucket,
    hasher: &IdHasher,
    names: &[&str],
    limit: usize,
) -> Result<HashSet<ObjectId>> {
    let all = bucket.list("refs/")?;
    let keys: HashSet<String> = if all.len() <= limit {
        all.into_iter().map(|listed| listed.key).collect()
    } else {
        let there: HashSet<String> = all.into_iter().map(|listed| listed.key).collect();
        let wanted: Vec<String> = names.iter().map(|name| key_of(name)).collect::<Result<_>>()?;
        wanted.into_iter().filter(|key| there.contains(key)).collect()
    };
    let mut targets = HashSet::new();
    for key in keys {
        match bucket
            .read::<RefBody>(hasher, &key)
            .and_then(|found| found.map_or(Ok(None), |found| found.body().target(&key)))
        {
            Ok(target) => targets.extend(target),
            Err(RemoteError::Damaged { .. } | RemoteError::Store(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(targets)
}

/// All refs, sorted by name, and what is wrong with those that cannot be read.
pub(crate) fn list(bucket: &Bucket, hasher: &IdHasher) -> Result<(Vec<NamedTarget>, Vec<RemoteError>)> {
    let (mut refs, mut broken) = (Vec::new(), Vec::new());
    for listed in bucket.list("refs/")? {
        let read = bucket.read::<RefBody>(hasher, &listed.key).and_then(|found| match found {
            Some(found) => Ok(found.body().target(&listed.key)?.map(|id| (found.body().name.clone(), id))),
            None => Ok(None),
        });
        match read {
            Ok(found) => refs.extend(found),
            Err(error @ (RemoteError::Damaged { .. } | RemoteError::Store(_))) => broken.push(error),
            Err(error) => return Err(error),
        }
    }
    refs.sort_unstable();
    Ok((refs, broken))
}
