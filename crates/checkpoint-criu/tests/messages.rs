//! The messages of `src/messages/` are those that `proto/` describes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const MAKE: &str = "run `cargo run --manifest-path scripts/criu-messages/Cargo.toml`";

#[test]
fn descriptions_and_messages_are_of_one_make() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let stems = |below: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(dir.join(below)).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    let names = stems("proto");
    let mut made = stems("src/messages");
    assert!(made.remove("mod"));
    assert_eq!(names, made, "{MAKE}");
    for name in names {
        let description = fs::read(dir.join(format!("proto/{name}.proto"))).unwrap();
        let made = fs::read_to_string(dir.join(format!("src/messages/{name}.rs"))).unwrap();
        let (first, rest) = made.split_once('\n').unwrap();
        let (second, rest) = rest.split_once('\n').unwrap();
        let from = format!("// From proto/{name}.proto: {}", blake3::hash(&description));
        assert_eq!(first, from, "{name}.proto was changed: {MAKE}");
        let what = format!("// What follows: {}", blake3::hash(rest.as_bytes()));
        assert_eq!(second, what, "{name}.rs was changed by hand: change {name}.proto, and {MAKE}");
    }
}
