//! Old readers and newer writers; bytes that are not what they should be.
#![expect(
    clippy::unwrap_used,
    reason = "allow-unwrap-in-tests sees #[test] functions only, not their helpers"
)]

mod samples;

use cas_core::{Class, Kind, ObjectId};
use manifest::{COMMIT, Commit, ManifestObject, SNAPSHOT, Snapshot, TREE, Target, Tree, references};
use samples::{id, sealed};

fn ids(kind: Kind, bytes: &[u8]) -> Vec<ObjectId> {
    references(kind, bytes).unwrap().into_iter().map(|reference| reference.id).collect()
}

#[test]
fn references_of_a_commit() {
    let bytes = samples::commit().encode().unwrap();
    let found = references(COMMIT, &bytes).unwrap();
    let targets: Vec<_> = found.iter().map(|reference| (reference.id, reference.target)).collect();
    assert_eq!(
        targets,
        [(id(3), Target::Object(COMMIT)), (id(2), Target::Object(COMMIT)), (id(1), Target::Object(SNAPSHOT))]
    );
}

#[test]
fn references_of_a_snapshot_include_those_of_unknown_sections() {
    let found = ids(SNAPSHOT, &samples::snapshot().encode().unwrap());
    for byte in [10, 11, 12, 20, 21, 30, 40, 90, 91] {
        assert!(found.contains(&id(byte)), "{byte}");
    }
    assert_eq!(found.len(), 9);
}

#[test]
fn references_of_a_tree() {
    let found = ids(TREE, &samples::tree().encode().unwrap());
    for byte in [50, 51, 52] {
        assert!(found.contains(&id(byte)), "{byte}");
    }
    assert_eq!(found.len(), 3);
}

#[test]
fn references_in_unknown_fields_are_found_and_the_fields_survive() {
    let commit = samples::newer(&samples::commit(), samples::newer_commit);
    assert!(ids(COMMIT, &commit).contains(&id(0xa0)));
    let mut read = Commit::decode(&commit).unwrap();
    assert_eq!(read.encode().unwrap(), commit);
    // They survive a change to something else.
    read.message = "other".into();
    assert!(ids(COMMIT, &read.encode().unwrap()).contains(&id(0xa0)));

    let snapshot = samples::newer(&samples::snapshot(), samples::newer_snapshot);
    let found = ids(SNAPSHOT, &snapshot);
    assert!([0xa1, 0xa2, 0xa3, 0xa4].iter().all(|byte| found.contains(&id(*byte))), "{found:?}");
    assert_eq!(Snapshot::decode(&snapshot).unwrap().encode().unwrap(), snapshot);

    let tree = samples::newer(&samples::tree(), samples::newer_tree);
    let found = ids(TREE, &tree);
    assert!([0xa5, 0xa6].iter().all(|byte| found.contains(&id(*byte))), "{found:?}");
    assert_eq!(Tree::decode(&tree).unwrap().encode().unwrap(), tree);
}

/// The code of the error that decoding and walking both give.
#[track_caller]
fn refused(bytes: &[u8]) -> &'static str {
    let error = Commit::decode(bytes).unwrap_err();
    assert_eq!(references(COMMIT, bytes).unwrap_err().code(), error.code());
    error.code()
}

#[test]
fn headers_are_checked_before_bodies() {
    let good = samples::commit().encode().unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    assert_eq!(refused(&[]), "IJ-M001");
    assert_eq!(refused(&good[..13]), "IJ-M001");
    assert_eq!(refused(&with(0, b'X')), "IJ-M001");
    assert_eq!(refused(&with(4, 99)), "IJ-M007");
    assert_eq!(refused(&with(5, 1)), "IJ-M007");
    assert_eq!(refused(&with(4, TREE.0)), "IJ-M004");
    assert_eq!(refused(&with(6, 0)), "IJ-M006");
    assert_eq!(refused(&with(8, 1)), "IJ-M003");
    assert_eq!(refused(&with(10, 1)), "IJ-M006");
    assert_eq!(refused(&good[..good.len() - 1]), "IJ-M006");
    assert_eq!(references(Kind::CHUNK, &good).unwrap_err().code(), "IJ-M007");
}

#[test]
fn a_newer_version_is_refused_with_a_way_out() {
    let mut bytes = samples::commit().encode().unwrap();
    bytes[6] = 2;
    bytes.truncate(20);
    let error = Commit::decode(&bytes).unwrap_err();
    assert_eq!(error.to_string(), "commit has format version 2, this program reads up to 1");
    assert_eq!(
        (error.code(), error.class(), error.hint()),
        ("IJ-M002", Class::Usage, Some("use a newer infinijup"))
    );
}

#[test]
fn a_commit_that_is_too_large_is_refused_before_it_is_parsed() {
    assert_eq!(refused(&sealed(COMMIT, &" ".repeat((1 << 20) + 1))), "IJ-M005");
}

#[test]
fn one_value_has_one_spelling() {
    let good = samples::commit().encode().unwrap();
    let body = std::str::from_utf8(&good[manifest::HEADER_LEN..]).unwrap();
    Commit::decode(&sealed(COMMIT, body)).unwrap();
    for (from, to) in [
        ("{\"author\"", "{ \"author\""),
        ("\"uid\":1000", "\"uid\":1000.0"),
        ("über", "\\u00fcber"),
        ("\"tool\":", "\"tool\":\"x\",\"tool\":"),
        ("\"tool\":\"0.1.0\"", "\"tool\":\"0.1.0\",\"unknown\":1.5"),
        ("\"tool\":\"0.1.0\"", "\"tool\":\"0.1.0\",\"a\":1"),
    ] {
        let changed = body.replacen(from, to, 1);
        assert_ne!(changed, body, "{from}");
        assert_eq!(refused(&sealed(COMMIT, &changed)), "IJ-M006", "{to}");
    }
    // These are canonical JSON, and still a second way to say the same.
    for (from, to) in [
        ("\"label\":\"before the big run\"", "\"label\":null"),
        ("02:07:09.000000123Z", "03:07:09.000000123+01:00"),
        ("[\"best\",\"paper/fig-3\"]", "[\"paper/fig-3\",\"best\"]"),
    ] {
        let changed = body.replacen(from, to, 1);
        assert_ne!(changed, body, "{from}");
        assert_eq!(Commit::decode(&sealed(COMMIT, &changed)).unwrap_err().code(), "IJ-M006", "{to}");
    }
}

#[test]
fn a_key_that_occurs_twice_cannot_hide_a_reference() {
    let hidden = format!(r#"{{"x":{{"id":"{}","kind":"tree"}},"x":1}}"#, id(7));
    assert_eq!(references(COMMIT, &sealed(COMMIT, &hidden)).unwrap_err().code(), "IJ-M006");
}

#[test]
fn deep_nesting_is_an_error_and_not_a_crash() {
    let deep = "[".repeat(200_000);
    assert_eq!(refused(&sealed(COMMIT, &deep)), "IJ-M006");
    let unknown = format!("{{\"a\":{}{}", "{\"b\":".repeat(100_000), "}".repeat(100_001));
    assert_eq!(refused(&sealed(COMMIT, &unknown)), "IJ-M006");
}

#[test]
fn a_thread_name_that_is_not_one_makes_a_commit_unreadable() {
    let bytes = samples::newer(&samples::commit(), |body| body["thread"] = "../../etc".into());
    assert_eq!(Commit::decode(&bytes).unwrap_err().code(), "IJ-M006");
}
