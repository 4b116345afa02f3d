//! An archive, read: first which of its two forms it has, then member by member.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use serde_json::Value;

use crate::claims::{Claim, claims};
use crate::error::{ArchiveError, Result, shown};
use crate::image::{self, Blobs};
use crate::json;
use crate::limits::Limits;
use crate::members::{At, Member};
use crate::stream::{self, Budget, Plain, Remembering, small};
use crate::tar::{Entry, Kind, TarReader, parts};

/// Where the members of an archive go.
pub trait Take {
    /// One member, with so many bytes. A tar file comes decompressed (containerd compresses its layers). What it is was checked by its name; what JSON says was checked as well. Everything else in it is
    /// for the taker to judge.
    fn take(&mut self, member: &Member, size: u64, content: &mut dyn Read) -> Result<()>;
}

/// What was in an archive.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Found {
    /// The members, with their sizes.
    pub members: BTreeMap<Member, u64>,
    /// `config.dump`.
    pub config: Value,
    /// `spec.dump`.
    pub spec: Value,
    /// Paths of the container's image that it had removed.
    pub deleted: Vec<String>,
    /// What the image around it says, if it was in one.
    pub annotations: BTreeMap<String, String>,
    /// Files that are not known, and were not taken.
    pub left_out: Vec<String>,
}

impl Found {
    /// What the archive asks for, and never gets.
    pub fn claims(&self) -> Vec<Claim> {
        claims(&self.spec, &self.config, &self.annotations)
    }

    /// A text of `config.dump`; empty if it is not there.
    pub fn config_text(&self, key: &str) -> &str {
        self.config.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Which engine wrote it.
    pub fn engine(&self) -> &'static str {
        match self.spec.pointer("/annotations/io.container.manager").and_then(Value::as_str) {
            Some("libpod") => "podman",
            Some("cri-o") => "cri-o",
            Some("infinijup") => "infinijup",
            Some(_) => "another engine",
            None => "containerd",
        }
    }
}

/// Reads an archive in either form. `blobs` keeps the parts of an image while they are sorted; nothing is left there that is still needed.
pub fn read_archive(
    input: impl Read,
    limits: &Limits,
    blobs: &mut dyn Blobs,
    take: &mut dyn Take,
) -> Result<Found> {
    let budget = Budget::new(*limits);
    let mut tar = TarReader::new(stream::outer(input, &budget)?, limits);
    let first = tar.next_entry().map_err(|error| match error {
        // Whatever its first block is, it is no header.
        ArchiveError::Damaged { detail } => ArchiveError::NotAnArchive { detail },
        other => other,
    })?;
    let Some(first) = first else {
        return Err(ArchiveError::NotAnArchive { detail: "it is empty".to_owned() });
    };
    if !image::is_part(&first, limits)? {
        return Reading::new(limits, &budget, take).all(&mut tar, first);
    }
    let found = image::read(&mut tar, first, limits, blobs)?;
    let layer = blobs.open(&found.layer)?;
    let mut tar = TarReader::new(stream::plain(layer, &budget)?, limits);
    let Some(first) = tar.next_entry()? else {
        return Err(ArchiveError::Image { detail: "its layer is empty".to_owned() });
    };
    let inner = Reading::new(limits, &budget, take).all(&mut tar, first)?;
    Ok(Found { annotations: found.annotations, ..inner })
}

struct Reading<'a> {
    limits: &'a Limits,
    budget: Budget,
    take: &'a mut dyn Take,
    found: Found,
    seen: BTreeSet<Vec<u8>>,
}

impl<'a> Reading<'a> {
    fn new(limits: &'a Limits, budget: &Budget, take: &'a mut dyn Take) -> Self {
        Self { limits, budget: budget.clone(), take, found: Found::default(), seen: BTreeSet::new() }
    }

    fn all(mut self, tar: &mut TarReader<Plain<'_>>, first: Entry) -> Result<Found> {
        let mut next = Some(first);
        let mut count = 0;
        while let Some(entry) = next {
            count += 1;
            if count > self.limits.members {
                return Err(ArchiveError::TooMuch { what: "members", most: self.limits.members });
            }
            self.entry(&entry, tar)?;
            next = tar.next_entry()?;
        }
        for (member, name) in [
            (Member::Config, "config.dump"),
            (Member::Spec, "spec.dump"),
            (Member::Image("inventory.img".to_owned()), "checkpoint/inventory.img"),
        ] {
            if !self.found.members.contains_key(&member) {
                return Err(ArchiveError::Missing { name });
            }
        }
        Ok(self.found)
    }

    fn entry(&mut self, entry: &Entry, tar: &mut TarReader<Plain<'_>>) -> Result<()> {
        let parts = parts(&entry.path, entry.kind == Kind::Directory, self.limits)?;
        match &entry.kind {
            Kind::Directory => return Member::check_directory(&parts),
            Kind::File => {}
            other => return Err(ArchiveError::Kind { name: shown(&entry.path), what: other.name() }),
        }
        if !self.seen.insert(parts.join(&b'/')) {
            return Err(ArchiveError::Twice { name: shown(&entry.path) });
        }
        let member = match Member::at(&parts)? {
            At::Member(member) => member,
            At::LeftOut => {
                self.found.left_out.push(shown(&entry.path));
                return Ok(());
            }
        };
        if let Member::Log(_) = member
            && entry.size > self.limits.log
        {
            return Err(ArchiveError::TooMuch { what: "bytes of a log", most: self.limits.log });
        }
        if member.is_json() {
            self.json(&member, entry.size, tar)?;
        } else {
            let mut content = Remembering::new(tar);
            let taken = if member.is_files() {
                stream::within(&mut content, &self.budget)
                    .and_then(|mut plain| self.take.take(&member, entry.size, &mut plain))
            } else {
                self.take.take(&member, entry.size, &mut content)
            };
            content.result(taken)?;
        }
        self.found.members.insert(member, entry.size);
        Ok(())
    }

    fn json(&mut self, member: &Member, size: u64, tar: &mut TarReader<Plain<'_>>) -> Result<()> {
        let bytes = small(tar, size, self.limits.json)?;
        let wrong = |detail: String| ArchiveError::Unreadable { name: member.to_string(), detail };
        let value = json::parse(&bytes).map_err(wrong)?;
        let is_object = value.is_object();
        match member {
            Member::Config | Member::Spec if !is_object => return Err(wrong("it is no object".to_owned())),
            Member::Config => self.found.config = value,
            Member::Spec => self.found.spec = value,
            Member::Deleted => self.found.deleted = self.deleted(&value)?,
            _ => {}
        }
        self.take.take(member, size, &mut bytes.as_slice())
    }

    /// Paths from `/`, each of which names something in the container.
    fn deleted(&self, value: &Value) -> Result<Vec<String>> {
        let wrong = |detail: &str| ArchiveError::Unreadable {
            name: Member::Deleted.to_string(),
            detail: detail.to_owned(),
        };
        let list = match value {
            Value::Null => return Ok(Vec::new()),
            Value::Array(list) => list,
            _ => return Err(wrong("it is no list")),
        };
        let path = |value: &Value| {
            let path = value.as_str().ok_or_else(|| wrong("an element is no text"))?;
            parts(path.strip_prefix('/').unwrap_or(path).as_bytes(), false, self.limits)?;
            Ok(path.to_owned())
        };
        list.iter().map(path).collect()
    }
}
