//! Finding out whether a server keeps its word, before anything is trusted to it.
//!
//! Several servers that speak S3 take the conditions of conditional puts and ignore them, and some return a whole object when a
//! part was asked for. With such a server two writers lose each other's work without an error, so it is refused.

use super::{Condition, Objects, Put};
use crate::error::{RemoteError, Result};
use crate::token::Token;

/// How many create the same object at the same time.
const RACERS: usize = 8;

/// Tries what a remote needs of a server on an object of its own, which is removed again.
pub fn probe(objects: &dyn Objects) -> Result<()> {
    let key = format!("probe/{}", Token::random()?);
    let tried = try_all(objects, &key);
    let removed = objects.delete(&key);
    tried.and(removed)
}

fn try_all(objects: &dyn Objects, key: &str) -> Result<()> {
    let first =
        done(objects.put(key, b"first 0123456789".to_vec(), &Condition::Absent)?, "create an object")?;
    let again = objects.put(key, b"again".to_vec(), &Condition::Absent)?;
    must(again == Put::Refused, "an object was created that was there already (If-None-Match is ignored)")?;
    let second = done(objects.put(key, b"second".to_vec(), &Condition::Is(first.clone()))?, "replace it")?;
    let stale = objects.put(key, b"stale".to_vec(), &Condition::Is(first))?;
    must(stale == Put::Refused, "an object was replaced that had changed (If-Match is ignored)")?;
    let read = objects.get(key, 100)?;
    must(
        read.is_some_and(|(bytes, version)| bytes == b"second" && version == second),
        "a read did not return what was written last",
    )?;
    let part = objects.get_range(key, 2, 3)?;
    must(part.as_deref() == Some(b"con"), "a read of a part returned something else")?;
    must(objects.list("probe/")?.iter().any(|listed| listed.key == key), "a list left an object out")?;
    objects.delete(key)?;
    must(objects.get(key, 100)?.is_none(), "an object was there after it was deleted")?;
    race(objects, key)
}

fn race(objects: &dyn Objects, key: &str) -> Result<()> {
    let answers: Vec<Result<Put>> = std::thread::scope(|scope| {
        let racer = |n: usize| {
            scope.spawn(move || objects.put(key, format!("racer {n}").into_bytes(), &Condition::Absent))
        };
        let racers: Vec<_> = (0..RACERS).map(racer).collect();
        racers.into_iter().filter_map(|racer| racer.join().ok()).collect()
    });
    let mut winners = 0;
    for answer in answers {
        winners += usize::from(matches!(answer?, Put::Done(_)));
    }
    must(
        winners == 1,
        &format!("of {RACERS} that created one object at a time, {winners} were told that they did"),
    )
}

fn done(put: Put, what: &str) -> Result<super::Version> {
    match put {
        Put::Done(version) => Ok(version),
        Put::Refused => Err(RemoteError::Unreliable {
            broken: format!("it refused to {what} though nothing was in the way"),
        }),
    }
}

fn must(kept: bool, broken: &str) -> Result<()> {
    if kept { Ok(()) } else { Err(RemoteError::Unreliable { broken: broken.to_owned() }) }
}
