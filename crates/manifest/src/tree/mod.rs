//! A tree: one directory of a workspace.
//!
//! A restore creates files by these names as a privileged user, so a name that could lead out of its directory is not a
//! name ([`FileName`]), two entries cannot have the same one, and a tree that breaks these rules cannot be decoded.

mod entry;

pub use entry::{Entry, FileName, Node, Time, Xattr};

use cas_core::Kind;
use serde::{Deserialize, Serialize};

use crate::TREE;
use crate::error::{ManifestError, Result};
use crate::object::ManifestObject;
use crate::wire::Extra;

/// One directory: its entries, sorted by the bytes of their names.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Tree {
    entries: Vec<Entry>,
    #[serde(flatten)]
    extra: Extra,
}

impl Tree {
    /// A directory with these entries, in any order.
    pub fn new(mut entries: Vec<Entry>) -> Result<Self> {
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let tree = Self { entries, extra: Extra::default() };
        tree.check().map_err(|detail| ManifestError::invalid("tree", detail))?;
        Ok(tree)
    }

    /// The entries, sorted by the bytes of their names.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry with this name.
    pub fn get(&self, name: &[u8]) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_bytes().cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// Fields of a newer version.
    pub fn extra(&self) -> &Extra {
        &self.extra
    }
}

impl ManifestObject for Tree {
    const KIND: Kind = TREE;

    fn check(&self) -> Result<(), String> {
        for pair in self.entries.windows(2) {
            let [one, other] = pair else { continue };
            if one.name == other.name {
                return Err(format!("two entries are named {:?}", one.name));
            }
            if one.name > other.name {
                return Err(format!("entry {:?} comes after {:?}", other.name, one.name));
            }
        }
        let fault =
            |entry: &Entry| entry.check().err().map(|fault| format!("entry {:?}: {fault}", entry.name));
        self.entries.iter().find_map(fault).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::HEADER_LEN;
    use cas_core::ObjectId;
    use serde_json::{Value, json};

    fn entry(name: &str, node: Node) -> Entry {
        Entry::new(FileName::new(name).unwrap(), node)
    }

    /// A tree's bytes around a body that nobody checked.
    fn sealed(body: &Value) -> Vec<u8> {
        let mut bytes = Tree::default().encode().unwrap();
        bytes.truncate(HEADER_LEN);
        let text = body.to_string();
        bytes[10..14].copy_from_slice(&u32::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    fn fifo(name: Value) -> Value {
        json!({ "gid": 0, "mode": 0, "mtime": { "ns": 0, "s": 0 }, "name": name, "type": "fifo", "uid": 0 })
    }

    fn refusal(entries: &[Value]) -> String {
        Tree::decode(&sealed(&json!({ "entries": entries }))).unwrap_err().to_string()
    }

    #[test]
    fn entries_are_sorted_by_bytes_and_found() {
        let tree = Tree::new(vec![
            entry("é", Node::Fifo),
            entry("Z", Node::Socket),
            entry("a", Node::Dir { tree: ObjectId::from_bytes([7; 32]) }),
        ])
        .unwrap();
        let names: Vec<_> =
            tree.entries().iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["Z", "a", "é"]);
        assert_eq!(tree.get("Z".as_bytes()).unwrap().node, Node::Socket);
        assert_eq!(tree.get(b"nothing"), None);
        assert_eq!(Tree::decode(&tree.encode().unwrap()).unwrap(), tree);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_on_decode() {
        // The control: such a body is read if the name is harmless.
        Tree::decode(&sealed(&json!({ "entries": [fifo(json!("x"))] }))).unwrap();
        for name in [
            json!(""),
            json!("."),
            json!(".."),
            json!("a/b"),
            json!("/"),
            json!("a\0"),
            json!({ "hex": "2fff" }),
        ] {
            let error = refusal(&[fifo(name.clone())]);
            assert!(error.contains("file name"), "{name}: {error}");
        }
    }

    #[test]
    fn duplicates_and_disorder_are_refused_on_decode() {
        assert!(refusal(&[fifo(json!("a")), fifo(json!("a"))]).contains("two entries"));
        assert!(refusal(&[fifo(json!("b")), fifo(json!("a"))]).contains("comes after"));
        Tree::new(vec![entry("a", Node::Fifo), entry("a", Node::Socket)]).unwrap_err();
    }

    #[test]
    fn members_that_do_not_belong_to_a_type_are_refused() {
        let target = |mut entry: Value| {
            entry["target"] = json!("x");
            entry
        };
        assert!(refusal(&[target(fifo(json!("a")))]).contains("does not fit"));
        let mut link = fifo(json!("a"));
        link["type"] = json!("symlink");
        assert!(refusal(&[link.clone()]).contains("does not fit"));
        Tree::decode(&sealed(&json!({ "entries": [target(link)] }))).unwrap();
        let mut door = fifo(json!("a"));
        door["type"] = json!("door");
        assert!(refusal(&[door]).contains("door"));
    }

    #[test]
    fn a_tree_that_is_too_large_is_refused_before_it_is_parsed() {
        let mut bytes = Tree::default().encode().unwrap();
        bytes.resize(HEADER_LEN + (64 << 20) + 1, b' ');
        assert_eq!(Tree::decode(&bytes).unwrap_err().code(), "IJ-M005");
    }
}
