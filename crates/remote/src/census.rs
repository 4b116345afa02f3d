//! What the index says about packs: which are needed, and which hold little that is.

use std::collections::{HashMap, HashSet};

use cas_core::pack::ENTRY_LEN;

use crate::error::Result;
use crate::index::{SegmentRef, ShortId};
use crate::remote::View;
use crate::root::Root;
use crate::token::Token;

/// No more than this is moved out of mostly dead packs by one collection, so that it ends; the next one goes on.
const MOVED: u64 = 4 << 30;

/// What packs are needed for.
pub(crate) struct Census {
    /// Each pack that is in the index.
    pub(crate) packs: HashMap<Token, Needed>,
    /// Which packs each segment names.
    pub(crate) segments: Vec<(SegmentRef, HashSet<Token>)>,
}

/// How much of a pack is needed.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Needed {
    /// Whether it has something that is needed and nowhere else.
    must_stay: bool,
    /// The length of what refs lead to.
    live: u64,
    /// The length of everything in it.
    all: u64,
}

impl Census {
    pub(crate) fn take(view: &View, live: &HashSet<ShortId>) -> Result<Self> {
        let mut census = Self { packs: HashMap::new(), segments: Vec::new() };
        let mut safe: HashSet<ShortId> = HashSet::new();
        view.index.for_each(&mut |segment, entry| {
            if census.segments.last().is_none_or(|(last, _)| last.name != segment.name) {
                census.segments.push((segment.clone(), HashSet::new()));
            }
            if let Some((_, named)) = census.segments.last_mut() {
                named.insert(entry.pack);
            }
            let length = u64::from(entry.stored) + ENTRY_LEN as u64;
            let pack = census.packs.entry(entry.pack).or_default();
            pack.all += length;
            if live.contains(&entry.id) && !view.condemned.contains(&entry.pack) {
                pack.must_stay = true;
                pack.live += length;
                safe.insert(entry.id);
            }
        })?;
        // A condemned pack is needed only for what is in no other.
        view.index.for_each(&mut |_, entry| {
            if view.condemned.contains(&entry.pack) && live.contains(&entry.id) && !safe.contains(&entry.id) {
                census.packs.entry(entry.pack).or_default().must_stay = true;
            }
        })?;
        Ok(census)
    }

    /// Whether an object of the remote must stay.
    pub(crate) fn is_needed(&self, key: &str, root: &Root) -> bool {
        if let Some(name) = key.strip_prefix("packs/") {
            // What is not called like a pack is not ours to judge.
            return name
                .parse::<Token>()
                .map_or(true, |pack| self.packs.get(&pack).is_some_and(|pack| pack.must_stay));
        }
        root.segments.iter().any(|segment| segment.key() == key)
    }

    /// Packs of which less than half is needed, the emptiest first: at most `most`, and as many as can be moved at a time.
    pub(crate) fn worn(&self, view: &View, most: usize) -> Vec<Token> {
        let worn = |(pack, needed): (&Token, &Needed)| {
            let is = needed.must_stay && needed.live * 2 < needed.all && !view.condemned.contains(pack);
            is.then_some((needed.live, *pack))
        };
        let mut packs: Vec<(u64, Token)> = self.packs.iter().filter_map(worn).collect();
        packs.sort_unstable();
        let mut moved = 0;
        let fits = |(live, _): &(u64, Token)| {
            moved += live;
            moved <= MOVED
        };
        packs.into_iter().take(most).take_while(fits).map(|(_, pack)| pack).collect()
    }
}
