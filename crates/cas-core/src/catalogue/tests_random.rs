//! Random deeds against a simple model, and random damage.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::{Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::test_runner::TestCaseError;

use super::tests::{add, entries, fresh, new_pack, object, pack_id, twin};
use super::{Catalogue, Location, PackNo};
use crate::error::StoreError;
use crate::id::{ObjectId, PackId};

/// Uses everything; errors are fine, panics and hangs are not.
fn poke(path: &Path) -> Result<(), StoreError> {
    let catalogue = Catalogue::open(path)?;
    let _ = catalogue.check();
    let _ = catalogue.lookup(&object(5));
    let _ = catalogue.lookup_reusable(&object(6));
    let _ = (
        catalogue.packs(),
        catalogue.totals(),
        catalogue.open_writes(),
        catalogue.announced(),
        catalogue.doomed(),
    );
    let _ = catalogue.for_each_object(&mut |_, _| Ok(()));
    let _ = catalogue.add_pack(&new_pack(50), &entries((5000..5100).map(object)), None);
    let _ = catalogue.drop_packs(&[PackNo(1)]);
    let _ = catalogue.begin_write("x", &[object(1)]);
    catalogue.close()
}

/// A closed catalogue of a few hundred kilobytes.
fn sample() -> Vec<u8> {
    let (_dir, path, catalogue) = fresh();
    for n in 0..4 {
        add(&catalogue, n, (0..500).map(|i| object(n * 500 + i)));
    }
    catalogue.begin_write("s", &[object(1)]).unwrap();
    catalogue.close().unwrap();
    std::fs::read(path).unwrap()
}

#[derive(Debug, Clone)]
enum Deed {
    Add(u64, Vec<u64>),
    Condemn(u64),
    Pardon(u64),
    Drop(u64),
    Reopen,
}

/// Objects 0–3 share a key.
fn model_object(n: u64) -> ObjectId {
    if n < 4 { twin(u8::try_from(n).unwrap()) } else { object(n) }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let pack = 0..12u64;
    let deed = prop_oneof![
        5 => (pack.clone(), prop::collection::vec(0..24u64, 0..8)).prop_map(|(pack, ids)| Deed::Add(pack, ids)),
        2 => pack.clone().prop_map(Deed::Condemn),
        1 => pack.clone().prop_map(Deed::Pardon),
        2 => pack.prop_map(Deed::Drop),
        1 => any::<()>().prop_map(|()| Deed::Reopen),
    ];
    prop::collection::vec(deed, 1..40)
}

fn follow(deeds: Vec<Deed>) -> Result<(), TestCaseError> {
    let (_dir, path, mut catalogue) = fresh();
    // Pack -> (number, condemned); object -> pack and entry.
    let mut packs: BTreeMap<u64, (PackNo, bool)> = BTreeMap::new();
    let mut objects: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
    let mut doomed: BTreeSet<u64> = BTreeSet::new();
    for deed in deeds {
        match deed {
            Deed::Add(pack, ids) => {
                let added = catalogue.add_pack(
                    &new_pack(pack),
                    &entries(ids.iter().copied().map(model_object)),
                    None,
                );
                if doomed.contains(&pack) {
                    prop_assert!(added.is_err());
                } else if let Some((no, _)) = packs.get(&pack) {
                    prop_assert_eq!(added.unwrap(), *no);
                } else {
                    packs.insert(pack, (added.unwrap(), false));
                    for (entry, id) in (0..).zip(ids) {
                        if objects.get(&id).is_none_or(|(old, _)| packs[old].1) {
                            objects.insert(id, (pack, entry));
                        }
                    }
                }
            }
            Deed::Condemn(pack) => {
                if let Some((no, condemned)) = packs.get_mut(&pack) {
                    catalogue.condemn(&[*no]).unwrap();
                    *condemned = true;
                }
            }
            Deed::Pardon(pack) => {
                if let Some((no, condemned)) = packs.get_mut(&pack) {
                    catalogue.pardon(&[*no]).unwrap();
                    *condemned = false;
                }
            }
            Deed::Drop(pack) => {
                if let Some((no, _)) = packs.remove(&pack) {
                    catalogue.drop_packs(&[no]).unwrap();
                    objects.retain(|_, (in_pack, _)| *in_pack != pack);
                    doomed.insert(pack);
                }
            }
            Deed::Reopen => {
                drop(catalogue);
                catalogue = Catalogue::open(&path).unwrap();
            }
        }
        for id in 0..24 {
            let expected = objects.get(&id).map(|(pack, entry)| (packs[pack].0, *entry));
            let brief = |at: Location| (at.pack, at.entry);
            prop_assert_eq!(catalogue.lookup(&model_object(id)).unwrap().map(brief), expected);
            let reusable = expected.filter(|_| !packs[&objects[&id].0].1);
            prop_assert_eq!(catalogue.lookup_reusable(&model_object(id)).unwrap().map(brief), reusable);
        }
    }
    prop_assert_eq!(catalogue.check().unwrap(), Vec::<String>::new());
    prop_assert_eq!(catalogue.totals().unwrap().objects, objects.len() as u64);
    let gone: BTreeSet<PackId> = doomed.into_iter().map(pack_id).collect();
    prop_assert_eq!(catalogue.doomed().unwrap().into_iter().collect::<BTreeSet<_>>(), gone);
    Ok(())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 48, ..Default::default() })]

    #[test]
    fn behaves_like_a_map(deeds in deeds()) {
        follow(deeds)?;
    }

    #[test]
    fn damage_gives_errors_not_panics(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 0..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static SAMPLE: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(sample);
        let mut bytes = SAMPLE.clone();
        for (at, mask) in &flips {
            bytes[at.index(SAMPLE.len())] ^= mask;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(SAMPLE.len()));
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("catalogue");
        std::fs::write(&path, &bytes).unwrap();
        let _ = poke(&path);
    }
}
