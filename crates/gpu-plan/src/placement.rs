//! Which GPU a session gets in place of which.
//!
//! The driver restores a process onto the GPUs that it had, or along a map from old to new UUIDs. The map must name *every* GPU
//! that the process could see, also those that it had nothing on, and no new one twice; the chips must be the same. So this is
//! a matching, not a packing: each old GPU gets one new GPU, and one that held bytes needs a new one with so many bytes free.
//!
//! GPUs that held most are placed first. Each takes, of those that fit: itself; else one that the session had before; else the
//! one with the most free bytes. Where a first choice stands in the way of somebody who has no other, it is moved (an
//! augmenting path, as in Kuhn's algorithm), so a placement is found whenever there is one.
//!
//! Everything here is arithmetic over what was read before; who else reserves bytes is in [`reserve`](crate::reserve).

use std::collections::{BTreeMap, BTreeSet};

use manifest::host::Gpu;

/// A GPU of the snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Which one.
    pub gpu: Gpu,
    /// How much the session's processes had on it.
    pub bytes: u64,
}

/// A GPU that is here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Here {
    /// Which one.
    pub gpu: Gpu,
    /// How much is free for this restore.
    pub free: u64,
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// GPUs for what held bytes; all if `None`.
    pub among: Option<&'a BTreeSet<String>>,
    /// GPUs that the session has: taken before others.
    pub own: &'a BTreeSet<String>,
    /// Take also GPUs of another chip or with less memory, and let the driver say no.
    pub force: bool,
}

/// Old UUID to new UUID, for every GPU of the snapshot.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Placement {
    /// From the old to the new.
    pub pairs: BTreeMap<String, String>,
}

impl Placement {
    /// Whether every GPU takes its own place: then the driver must not be given a map.
    pub fn is_identity(&self) -> bool {
        self.pairs.iter().all(|(old, new)| old == new)
    }

    /// The GPUs that the session has then.
    pub fn granted(&self) -> Vec<String> {
        let granted: BTreeSet<String> = self.pairs.values().cloned().collect();
        granted.into_iter().collect()
    }
}

/// Finds a place for every GPU of the snapshot, or says in sentences why there is none.
pub fn place(taken: &[Taken], here: &[Here], choice: Choice<'_>) -> Result<Placement, Vec<String>> {
    let mut order: Vec<usize> = (0..taken.len()).collect();
    order.sort_by_key(|index| {
        (std::cmp::Reverse(taken[*index].bytes), taken[*index].gpu.bus_id.as_str(), *index)
    });
    let candidates: Vec<Vec<usize>> = taken.iter().map(|old| candidates(old, here, choice)).collect();
    let mut holder: Vec<Option<usize>> = vec![None; here.len()];
    let mut homeless = Vec::new();
    for old in order {
        let free = candidates[old].iter().copied().find(|new| holder[*new].is_none());
        if let Some(new) = free {
            holder[new] = Some(old);
        } else if !make_way(old, &candidates, &mut holder, &mut vec![false; here.len()]) {
            homeless.push(old);
        }
    }
    if !homeless.is_empty() {
        return Err(homeless.into_iter().map(|old| why(&taken[old], here, choice)).collect());
    }
    let pairs = holder.iter().enumerate().filter_map(|(new, old)| {
        let old = (*old)?;
        Some((taken[old].gpu.uuid.clone(), here[new].gpu.uuid.clone()))
    });
    Ok(Placement { pairs: pairs.collect() })
}

/// Moves others so that `old` gets a place.
fn make_way(old: usize, candidates: &[Vec<usize>], holder: &mut [Option<usize>], asked: &mut [bool]) -> bool {
    for new in &candidates[old] {
        if std::mem::replace(&mut asked[*new], true) {
            continue;
        }
        let moved = match holder[*new] {
            None => true,
            Some(other) => make_way(other, candidates, holder, asked),
        };
        if moved {
            holder[*new] = Some(old);
            return true;
        }
    }
    false
}

/// The GPUs that could take its place, the best first.
fn candidates(old: &Taken, here: &[Here], choice: Choice<'_>) -> Vec<usize> {
    let mut fitting: Vec<usize> = (0..here.len()).filter(|new| fits(old, &here[*new], choice)).collect();
    fitting.sort_by_key(|index| {
        let new = &here[*index];
        (
            !allowed(new, choice),
            new.gpu.uuid != old.gpu.uuid,
            !choice.own.contains(&new.gpu.uuid),
            std::cmp::Reverse(new.free),
            new.gpu.bus_id.as_str(),
            *index,
        )
    });
    fitting
}

fn allowed(new: &Here, choice: Choice<'_>) -> bool {
    choice.among.is_none_or(|among| among.contains(&new.gpu.uuid))
}

fn fits(old: &Taken, new: &Here, choice: Choice<'_>) -> bool {
    // One that held nothing only has to be named: any of its kind will do, so that a session that could see two GPUs and
    // used one can be restored onto the one that is asked for.
    (old.bytes == 0 || allowed(new, choice))
        && new.free >= old.bytes
        && (choice.force || is_like(&old.gpu, &new.gpu))
}

/// Whether the driver restores from one to the other.
fn is_like(old: &Gpu, new: &Gpu) -> bool {
    (&old.pci_id, &old.compute_capability, old.mig.is_some())
        == (&new.pci_id, &new.compute_capability, new.mig.is_some())
        && new.memory_bytes >= old.memory_bytes
}

fn why(old: &Taken, here: &[Here], choice: Choice<'_>) -> String {
    let name = |gpu: &Gpu| format!("{} ({})", gpu.uuid, gpu.name);
    let wanted: Vec<&Here> = here.iter().filter(|new| old.bytes == 0 || allowed(new, choice)).collect();
    let alike: Vec<&&Here> =
        wanted.iter().filter(|new| choice.force || is_like(&old.gpu, &new.gpu)).collect();
    if here.is_empty() {
        return format!("there is no GPU here to take the place of {}", name(&old.gpu));
    }
    if alike.is_empty() {
        return format!("no GPU that may be used here is of the same chip and size as {}", name(&old.gpu));
    }
    let most = alike.iter().map(|new| new.free).max().unwrap_or(0);
    if most < old.bytes {
        return format!(
            "{} held {} MiB, and no GPU of its kind that may be used has so much free: the most is {} MiB",
            name(&old.gpu),
            mebibytes(old.bytes),
            most >> 20
        );
    }
    format!(
        "every GPU that could take the place of {} is needed for another one of the snapshot: a map must \
         name each of them, and none twice",
        name(&old.gpu)
    )
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GB: u64 = 1 << 30;

    fn gpu(uuid: &str) -> Gpu {
        Gpu {
            uuid: uuid.into(),
            pci_id: "10de:2330".into(),
            bus_id: uuid.into(),
            name: "H100".into(),
            memory_bytes: 80 * GB,
            compute_capability: "9.0".into(),
            ..Gpu::default()
        }
    }

    fn taken(list: &[(&str, u64)]) -> Vec<Taken> {
        list.iter().map(|(uuid, bytes)| Taken { gpu: gpu(uuid), bytes: bytes * GB }).collect()
    }

    fn here(list: &[(&str, u64)]) -> Vec<Here> {
        list.iter().map(|(uuid, free)| Here { gpu: gpu(uuid), free: free * GB }).collect()
    }

    fn set(uuids: &[&str]) -> BTreeSet<String> {
        uuids.iter().map(|uuid| (*uuid).to_owned()).collect()
    }

    fn any<'a>() -> Choice<'a> {
        static NONE: BTreeSet<String> = BTreeSet::new();
        Choice { among: None, own: &NONE, force: false }
    }

    #[track_caller]
    fn check(taken: &[Taken], here: &[Here], choice: Choice<'_>, pairs: &[(&str, &str)]) {
        let placed = place(taken, here, choice).unwrap();
        let pairs = pairs.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
        assert_eq!(placed.pairs, pairs);
    }

    #[test]
    fn a_gpu_with_room_takes_its_own_place() {
        let two = here(&[("a", 20), ("b", 80)]);
        check(&taken(&[("a", 10), ("b", 0)]), &two, any(), &[("a", "a"), ("b", "b")]);
        assert!(place(&taken(&[("a", 10), ("b", 0)]), &two, any()).unwrap().is_identity());
        assert_eq!(place(&[], &two, any()).unwrap(), Placement::default());
    }

    #[test]
    fn a_full_gpu_changes_places_with_one_that_has_room() {
        let two = here(&[("a", 5), ("b", 80)]);
        check(&taken(&[("a", 10), ("b", 0)]), &two, any(), &[("a", "b"), ("b", "a")]);
        let three = here(&[("a", 5), ("b", 30), ("c", 60)]);
        check(&taken(&[("a", 10), ("b", 0), ("c", 0)]), &three, any(), &[("a", "c"), ("b", "b"), ("c", "a")]);
    }

    #[test]
    fn whoever_has_another_choice_makes_way() {
        // Only a has room for what b held, and a's own bytes fit on b.
        let two = here(&[("a", 40), ("b", 15)]);
        check(&taken(&[("a", 10), ("b", 30)]), &two, any(), &[("a", "b"), ("b", "a")]);
        // A chain: each has to go one further.
        let three = here(&[("a", 40), ("b", 25), ("c", 12)]);
        check(
            &taken(&[("c", 30), ("a", 20), ("b", 10)]),
            &three,
            any(),
            &[("c", "a"), ("a", "b"), ("b", "c")],
        );
    }

    #[test]
    fn a_wish_is_followed_and_what_held_nothing_is_filled_up() {
        let (own, wish) = (set(&["a", "b"]), set(&["b"]));
        let two = here(&[("a", 80), ("b", 80)]);
        let choice = Choice { among: Some(&wish), own: &own, force: false };
        check(&taken(&[("a", 10), ("b", 0)]), &two, choice, &[("a", "b"), ("b", "a")]);
        let refused = place(&taken(&[("a", 10), ("b", 10)]), &two, choice).unwrap_err();
        assert!(refused[0].contains("none twice"), "{refused:?}");
        // Own ones before free ones of the machine.
        let own = set(&["b"]);
        let choice = Choice { among: None, own: &own, force: false };
        check(&taken(&[("gone", 1)]), &here(&[("a", 80), ("b", 2), ("c", 70)]), choice, &[("gone", "b")]);
    }

    #[test]
    fn refusals_say_what_is_missing() {
        let say = |taken: &[Taken], here: &[Here]| place(taken, here, any()).unwrap_err().join("; ");
        assert!(say(&taken(&[("a", 1)]), &[]).contains("no GPU here"));
        let text = say(&taken(&[("a", 10)]), &here(&[("a", 9), ("b", 3)]));
        assert!(text.contains("a (H100) held 10240 MiB") && text.contains("9216 MiB"), "{text}");
        let mut other = here(&[("x", 80)]);
        other[0].gpu.pci_id = "10de:20b0".into();
        assert!(say(&taken(&[("a", 1)]), &other).contains("same chip"));
        let choice = Choice { force: true, ..any() };
        check(&taken(&[("a", 1)]), &other, choice, &[("a", "x")]);
        assert!(say(&taken(&[("a", 1), ("b", 1)]), &here(&[("a", 9)])).contains("none twice"));
    }

    proptest! {
        /// Each GPU of the snapshot gets one that has room, none is given twice, and where every one of them has room in its
        /// own place, there it stays.
        #[test]
        fn placements_hold(
            bytes in prop::collection::vec(0_u64..5, 0..7),
            free in prop::collection::vec(0_u64..6, 0..9),
            shift in 0_usize..4,
        ) {
            let old: Vec<_> = bytes
                .iter()
                .enumerate()
                .map(|(number, bytes)| Taken { gpu: gpu(&format!("g{number}")), bytes: *bytes })
                .collect();
            let new: Vec<_> = free
                .iter()
                .enumerate()
                .map(|(number, free)| Here { gpu: gpu(&format!("g{}", number + shift)), free: *free })
                .collect();
            // Largest to largest works if anything does, as all are of one chip.
            let (mut most, mut room) = (bytes, free);
            most.sort_unstable_by(|one, other| other.cmp(one));
            room.sort_unstable_by(|one, other| other.cmp(one));
            let possible = most.len() <= room.len() && most.iter().zip(&room).all(|(held, free)| held <= free);
            let placed = place(&old, &new, any());
            prop_assert_eq!(placed.is_ok(), possible);
            if let Ok(placed) = placed {
                prop_assert_eq!(placed.pairs.len(), old.len());
                prop_assert_eq!(placed.granted().len(), old.len());
                for one in &old {
                    let to = new.iter().find(|here| here.gpu.uuid == placed.pairs[&one.gpu.uuid]).unwrap();
                    prop_assert!(to.free >= one.bytes);
                }
                let stays = |one: &Taken| {
                    new.iter().any(|here| here.gpu.uuid == one.gpu.uuid && here.free >= one.bytes)
                };
                if old.iter().all(stays) {
                    prop_assert!(placed.is_identity());
                }
            }
        }
    }
}
