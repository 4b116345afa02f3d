//! One leaf of the map: what the 512 pages of 2 MiB of address space are.
//!
//! ```text
//! version   1 byte (1)
//! objects   varint n, then n times: id (32 bytes), pages of the object (varint)
//! extents   varint n, then n times: gap (varint: absent pages since the last extent),
//!           length * 2 + stored (varint); if stored: object index (varint), first page in the object (varint)
//! ```
//!
//! Extents are in address order and never adjacent where they could be one; objects are in the order of their first use.
//! So equal content has one encoding, and parsing refuses every other.

use crate::id::ObjectId;
use crate::memory::{DENSE_PAGES, LEAF_PAGES};
use crate::varint::{self, Cursor};

const VERSION: u8 = 1;

/// An object that holds pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PagesRef {
    /// The object.
    pub id: ObjectId,
    /// How many pages it has, used here or not.
    pub pages: u16,
}

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// All zeros.
    Zero,
    /// In an object.
    Stored {
        /// Index into the leaf's objects.
        object: u16,
        /// Page of that object.
        page: u16,
    },
}

/// A run of pages that lie one after the other in the address space and in their object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First page, counted within the leaf.
    pub first: u16,
    /// How many pages.
    pub pages: u16,
    /// Where they are; of a stored extent, the first one.
    pub target: Target,
}

impl Extent {
    /// What of it lies in the pages `start..end` of the leaf. Some of it must.
    pub(crate) fn part(&self, start: u16, end: u16) -> Self {
        let first = self.first.max(start);
        let pages = (self.first + self.pages).min(end) - first;
        Self { first, pages, target: self.target_at(first - self.first) }
    }

    /// The target of the `n`-th page of this extent.
    fn target_at(&self, n: u16) -> Target {
        match self.target {
            Target::Zero => Target::Zero,
            Target::Stored { object, page } => Target::Stored { object, page: page + n },
        }
    }
}

/// A leaf.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LeafMap {
    /// The objects that its extents point into.
    pub objects: Vec<PagesRef>,
    /// Its extents, in address order.
    pub extents: Vec<Extent>,
}

/// What one page of a leaf is, without the index indirection. Leaves are taken apart into pages to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Page {
    Absent,
    Zero,
    Stored { object: PagesRef, page: u16 },
}

impl LeafMap {
    /// The leaf as 512 single pages.
    pub(crate) fn unfold(&self) -> Vec<Page> {
        let mut pages = vec![Page::Absent; LEAF_PAGES];
        for extent in &self.extents {
            for n in 0..extent.pages {
                pages[usize::from(extent.first + n)] = match extent.target_at(n) {
                    Target::Zero => Page::Zero,
                    Target::Stored { object, page } => {
                        Page::Stored { object: self.objects[usize::from(object)], page }
                    }
                };
            }
        }
        pages
    }

    /// The inverse of [`LeafMap::unfold`].
    #[expect(clippy::cast_possible_truncation, reason = "a leaf has 512 pages, so at most 512 objects")]
    pub(crate) fn fold(pages: &[Page]) -> Self {
        let mut leaf = Self::default();
        for (at, page) in pages.iter().enumerate() {
            let target = match *page {
                Page::Absent => continue,
                Page::Zero => Target::Zero,
                Page::Stored { object, page } => {
                    let known = leaf.objects.iter().rposition(|known| *known == object);
                    let index = known.unwrap_or_else(|| {
                        leaf.objects.push(object);
                        leaf.objects.len() - 1
                    });
                    Target::Stored { object: index as u16, page }
                }
            };
            let at = at as u16;
            match leaf.extents.last_mut() {
                Some(last) if last.first + last.pages == at && last.target_at(last.pages) == target => {
                    last.pages += 1
                }
                _ => leaf.extents.push(Extent { first: at, pages: 1, target }),
            }
        }
        leaf
    }

    /// Pages that are there, zero or not.
    pub fn present(&self) -> u64 {
        self.extents.iter().map(|extent| u64::from(extent.pages)).sum()
    }

    /// Pages that each object gives to this leaf, in the order of `objects`.
    pub(crate) fn uses(&self) -> Vec<u16> {
        let mut uses = vec![0; self.objects.len()];
        for extent in &self.extents {
            if let Target::Stored { object, .. } = extent.target {
                uses[usize::from(object)] += extent.pages;
            }
        }
        uses
    }

    /// The bytes of the leaf's object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.objects.len() * 34 + self.extents.len() * 6);
        out.push(VERSION);
        varint::put(&mut out, self.objects.len() as u64);
        for object in &self.objects {
            out.extend_from_slice(object.id.as_bytes());
            varint::put(&mut out, u64::from(object.pages));
        }
        varint::put(&mut out, self.extents.len() as u64);
        let mut end = 0;
        for extent in &self.extents {
            varint::put(&mut out, u64::from(extent.first - end));
            end = extent.first + extent.pages;
            match extent.target {
                Target::Zero => varint::put(&mut out, u64::from(extent.pages) * 2),
                Target::Stored { object, page } => {
                    varint::put(&mut out, u64::from(extent.pages) * 2 + 1);
                    varint::put(&mut out, u64::from(object));
                    varint::put(&mut out, u64::from(page));
                }
            }
        }
        out
    }

    /// Reads a leaf's object. `Err` is a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut cursor = Cursor::new(bytes);
        let version = cursor.byte()?;
        if version != VERSION {
            return Err(format!("is a map leaf of version {version}"));
        }
        let limit = LEAF_PAGES as u64 + 1;
        let mut leaf = Self::default();
        for _ in 0..cursor.below(limit, "number of objects")? {
            let id = ObjectId::from_bytes(cursor.take()?);
            let pages = small(cursor.below(DENSE_PAGES as u64 + 1, "number of pages")?)?;
            leaf.objects.push(PagesRef { id, pages });
        }
        let mut end = 0u64;
        for _ in 0..cursor.below(limit, "number of extents")? {
            let first = end + cursor.below(limit, "gap")?;
            let tagged = cursor.below(limit * 2, "length of an extent")?;
            let pages = tagged / 2;
            end = first + pages;
            if pages == 0 || end > LEAF_PAGES as u64 {
                return Err(format!("has an extent of {pages} pages at {first}"));
            }
            let target = if tagged % 2 == 0 {
                Target::Zero
            } else {
                let object = cursor.below(leaf.objects.len() as u64, "object index")?;
                let page = cursor.below(limit, "page of an object")?;
                let known = usize::try_from(object).ok().and_then(|object| leaf.objects.get(object));
                if known.is_none_or(|known| page + pages > u64::from(known.pages)) {
                    return Err(format!("has an extent that reaches beyond its object at {first}"));
                }
                Target::Stored { object: small(object)?, page: small(page)? }
            };
            leaf.extents.push(Extent { first: small(first)?, pages: small(pages)?, target });
        }
        cursor.end()?;
        if Self::fold(&leaf.unfold()) == leaf {
            Ok(leaf)
        } else {
            Err("is a map leaf in another than its one form".into())
        }
    }
}

fn small(value: u64) -> Result<u16, String> {
    u16::try_from(value).map_err(|_| format!("has {value} where a small number should be"))
}
