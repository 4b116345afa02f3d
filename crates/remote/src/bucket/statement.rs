//! Small objects that change: read with their seal compared, and changed by conditional put.
//!
//! `docs/format-remote.md` says what a write id is for. The one rule here: a conflict is believed only after the object was read
//! back and does not have our write id, because the answer to a put may be lost on its way, and the put that is made again then
//! meets its own work.

use cas_core::{IdHasher, Kind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Bucket, Condition, Put, Version};
use crate::error::{RemoteError, Result};
use crate::token::Token;

/// How many write ids an object remembers.
const REMEMBERED: usize = 32;

/// How often a change that meets others' is tried.
const CHANGES: u32 = 60;

/// What such an object says.
pub(crate) trait Statement: Serialize + DeserializeOwned + Clone {
    /// No longer object is read.
    const LIMIT: u64;
}

/// What it says, with who wrote it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stamped<T> {
    #[serde(flatten)]
    body: T,
    write: Token,
    #[serde(default)]
    before: Vec<Token>,
}

impl<T> Stamped<T> {
    fn was_written_by(&self, write: &Token) -> bool {
        self.write == *write || self.before.contains(write)
    }
}

/// A statement that was read.
#[derive(Clone, Debug)]
pub(crate) struct Found<T> {
    stamped: Stamped<T>,
    pub(crate) version: Version,
}

impl<T> Found<T> {
    /// What it says.
    pub(crate) fn body(&self) -> &T {
        &self.stamped.body
    }

    /// Which put wrote it.
    pub(crate) fn write(&self) -> Token {
        self.stamped.write
    }
}

/// What shall become of a statement.
pub(crate) enum Edit<T> {
    /// It stays.
    Keep,
    /// It says this.
    Set(T),
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Changed<T> {
    /// It stayed, as the edit wanted.
    Kept,
    /// It says this now, or did for a moment.
    Set(T),
}

impl Bucket {
    /// Reads a statement. `None`: there is none.
    pub(crate) fn read<T: Statement>(&self, hasher: &IdHasher, key: &str) -> Result<Option<Found<T>>> {
        let Some((bytes, version)) = self.get(key, T::LIMIT)? else { return Ok(None) };
        let stamped = parse(hasher, key, &bytes).map_err(|detail| RemoteError::damaged(key, detail))?;
        Ok(Some(Found { stamped, version }))
    }

    /// Changes a statement. `permit` is called between reading and writing: a writer renews its lease there, and must not write
    /// without.
    pub(crate) fn change<T: Statement>(
        &self,
        hasher: &IdHasher,
        key: &str,
        permit: &dyn Fn() -> Result<()>,
        edit: &mut dyn FnMut(Option<&T>) -> Result<Edit<T>>,
    ) -> Result<Changed<T>> {
        for attempt in 0..CHANGES {
            let found = self.read::<T>(hasher, key)?;
            let Edit::Set(body) = edit(found.as_ref().map(Found::body))? else { return Ok(Changed::Kept) };
            permit()?;
            if self.replace(hasher, key, found.as_ref(), &body)?.is_some() {
                return Ok(Changed::Set(body));
            }
            self.patience.wait(attempt.min(3));
        }
        Err(RemoteError::Contended { key: key.to_owned() })
    }

    /// Puts a statement in the place of the one that was found. `None`: somebody else was quicker.
    pub(crate) fn replace<T: Statement>(
        &self,
        hasher: &IdHasher,
        key: &str,
        found: Option<&Found<T>>,
        body: &T,
    ) -> Result<Option<Found<T>>> {
        let write = Token::random()?;
        let before = found.map(|found| {
            let mut before = vec![found.stamped.write];
            before.extend(&found.stamped.before);
            before.truncate(REMEMBERED);
            before
        });
        let stamped = Stamped { body: body.clone(), write, before: before.unwrap_or_default() };
        let condition = found.map_or(Condition::Absent, |found| Condition::Is(found.version.clone()));
        let bytes = encode(hasher, key, &stamped)?;
        let mut attempt = 0;
        loop {
            let error = match self.objects.put(key, bytes.clone(), &condition) {
                Ok(Put::Done(version)) => return Ok(Some(Found { stamped, version })),
                Ok(Put::Refused) => {
                    let now = self.read::<T>(hasher, key)?;
                    return Ok(now.filter(|now| now.stamped.was_written_by(&write)));
                }
                Err(error) if !error.is_transient() => return Err(error),
                Err(error) => error,
            };
            attempt += 1;
            if attempt >= self.patience.tries {
                tracing::debug!(%error, key, "given up without knowing whether it was written");
                return Err(RemoteError::Unsettled { key: key.to_owned() });
            }
            self.patience.wait(attempt);
        }
    }
}

/// What a statement says whose seal nobody can compare yet.
pub(crate) fn first_line<T: DeserializeOwned>(key: &str, bytes: &[u8]) -> Result<T> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    serde_json::from_slice(line)
        .map_err(|error| RemoteError::damaged(key, format!("cannot be understood: {error}")))
}

fn encode<T: Serialize>(hasher: &IdHasher, key: &str, stamped: &Stamped<T>) -> Result<Vec<u8>> {
    let json = serde_json::to_string(stamped)
        .map_err(|error| cas_core::StoreError::Bug { detail: format!("cannot write `{key}`: {error}") })?;
    Ok(format!("{json}\n{}\n", seal(hasher, key, &json)).into_bytes())
}

fn parse<T: DeserializeOwned>(hasher: &IdHasher, key: &str, bytes: &[u8]) -> Result<Stamped<T>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not text")?;
    let (json, rest) = text.split_once('\n').ok_or("has one line only")?;
    if rest != format!("{}\n", seal(hasher, key, json)) {
        return Err("does not fit its seal".to_owned());
    }
    serde_json::from_str(json).map_err(|error| format!("cannot be understood: {error}"))
}

fn seal(hasher: &IdHasher, key: &str, json: &str) -> String {
    hasher.id(Kind(0), format!("infinijup remote 1 {key}\n{json}").as_bytes()).to_string()
}
