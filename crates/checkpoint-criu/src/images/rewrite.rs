//! Changing paths inside `files.img`.
//!
//! A branch gets private copies of files that the original has open for writing. Where such a copy cannot be mounted over the
//! original, the image has to name another path. The change is made on wire level, not with the generated messages: those know the
//! fields that we use and would lose all others. Here every byte that is not the name, or the length of something around it, stays as
//! CRIU wrote it.
//!
//! An entry of the file is a `u32` length and a message; in it, field 3 is the message of a file with a path; in that, field 1 is the
//! file's number and field 6 its name.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::entries::{Entries, MAX_IMAGE, magic, put_entry, read_whole, replace};
use super::fields::{Value, fields, put_bytes};
use crate::error::{CriuError, Result};

const FRAME_REG: u64 = 3;
const REG_ID: u64 = 1;
const REG_NAME: u64 = 6;

/// Gives the files of `names` (by [`super::FileEntry::id`]) other paths, in the `files.img` of `dir`. All must be there and be
/// files with a path. The file is replaced as a whole or not at all.
pub fn set_paths(dir: &Path, names: &BTreeMap<u32, PathBuf>) -> Result<()> {
    let path = dir.join("files.img");
    let old = read_whole(&path, MAX_IMAGE)?;
    let fresh = rewrite(&path, &old, names)?;
    replace(&path, &fresh)
}

/// The same on bytes; `path` is only for messages.
pub fn rewrite(path: &Path, image: &[u8], names: &BTreeMap<u32, PathBuf>) -> Result<Vec<u8>> {
    for name in names.values() {
        let bytes = name.as_os_str().as_bytes();
        if !name.is_absolute() || bytes.contains(&0) {
            return Err(CriuError::Invalid {
                what: format!("`{}` cannot be the path of an open file", name.display()),
            });
        }
    }
    let mut entries = Entries::new(path, image, magic::FILES)?;
    let mut fresh = entries.head(image).to_vec();
    let mut changed = BTreeSet::new();
    while let Some(entry) = entries.next_bytes()? {
        let new = change_entry(path, entry, names, &mut changed)?;
        put_entry(path, &mut fresh, new.as_deref().unwrap_or(entry))?;
    }
    match names.keys().find(|id| !changed.contains(*id)) {
        Some(id) => Err(CriuError::image(path, format!("has no file {id} with a path"))),
        None => Ok(fresh),
    }
}

/// The entry with another name, if it is one of `names`.
fn change_entry(
    path: &Path,
    entry: &[u8],
    names: &BTreeMap<u32, PathBuf>,
    changed: &mut BTreeSet<u32>,
) -> Result<Option<Vec<u8>>> {
    let malformed = || CriuError::image(path, "has an entry that is no message");
    let outer = fields(entry).ok_or_else(malformed)?;
    let mut parts = outer.iter().filter(|field| field.number == FRAME_REG);
    let (Some(reg), None) = (parts.next(), parts.next()) else { return Ok(None) };
    let Value::Bytes(message) = reg.value else { return Err(malformed()) };
    let inner = fields(message).ok_or_else(malformed)?;
    let id = inner.iter().rev().find(|field| field.number == REG_ID);
    let Some(Value::Number(id)) = id.map(|field| field.value) else { return Err(malformed()) };
    let Some((id, name)) = u32::try_from(id).ok().and_then(|id| names.get_key_value(&id)) else {
        return Ok(None);
    };
    let mut fresh = Vec::new();
    let mut named = false;
    for field in &inner {
        if field.number == REG_NAME {
            // CRIU takes the last name of several; ours is the only one.
            if !named {
                put_bytes(&mut fresh, REG_NAME, name.as_os_str().as_bytes());
                named = true;
            }
        } else {
            fresh.extend(field.raw);
        }
    }
    if !named {
        return Err(malformed());
    }
    let mut frame = Vec::new();
    for field in &outer {
        if field.number == FRAME_REG {
            put_bytes(&mut frame, FRAME_REG, &fresh);
        } else {
            frame.extend(field.raw);
        }
    }
    changed.insert(*id);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::super::entries::image_of;
    use super::super::fields::put_number;
    use super::super::{FileEntry, FileFrame, FileKind, FileSort, Images, RegFile};
    use super::*;

    fn reg(id: u32, name: &[u8]) -> FileFrame {
        let reg = RegFile { id, flags: 2, pos: 7, name: name.to_vec(), size: Some(9), ..RegFile::default() };
        FileFrame { kind: FileSort::Reg.into(), id, reg: Some(reg), ..FileFrame::default() }
    }

    /// A message with a field that nobody knows, before and inside of the file.
    fn with_unknown(frame: &FileFrame) -> Vec<u8> {
        let mut inner = frame.reg.as_ref().unwrap().encode_to_vec();
        put_bytes(&mut inner, 99, b"inner");
        let mut out = Vec::new();
        put_bytes(&mut out, 77, b"outer");
        put_number(&mut out, 1 << 3);
        put_number(&mut out, 1);
        put_number(&mut out, 2 << 3);
        put_number(&mut out, u64::from(frame.id));
        put_bytes(&mut out, FRAME_REG, &inner);
        out
    }

    fn read(image: &[u8]) -> Vec<FileEntry> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("files.img"), image).unwrap();
        std::fs::write(dir.path().join("inventory.img"), image_of(magic::INVENTORY, &[vec![8, 2]])).unwrap();
        Images::open(dir.path()).unwrap().files().unwrap()
    }

    fn path_of(files: &[FileEntry], id: u32) -> PathBuf {
        let file = files.iter().find(|file| file.id == id).unwrap();
        let FileKind::Reg(reg) = &file.kind else { panic!("{file:?}") };
        reg.path().to_path_buf()
    }

    #[test]
    fn only_the_name_changes() {
        let entries = [with_unknown(&reg(4, b"/a")), with_unknown(&reg(5, b"/b"))];
        let image = image_of(magic::FILES, &entries);
        let names = BTreeMap::from([(5, PathBuf::from("/somewhere/else"))]);
        let fresh = rewrite(Path::new("files.img"), &image, &names).unwrap();
        let expected = [entries[0].clone(), with_unknown(&reg(5, b"/somewhere/else"))];
        assert_eq!(fresh, image_of(magic::FILES, &expected));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_and_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("files.img");
        let image = image_of(magic::FILES, &[reg(4, b"/a").encode_to_vec()]);
        std::fs::write(&path, &image).unwrap();
        for (id, name) in [(9, "/x"), (4, "relative"), (4, "/x\0y")] {
            set_paths(dir.path(), &BTreeMap::from([(id, PathBuf::from(name))])).unwrap_err();
            assert_eq!(std::fs::read(&path).unwrap(), image);
        }
        set_paths(dir.path(), &BTreeMap::from([(4, PathBuf::from("/x"))])).unwrap();
        assert_eq!(path_of(&read(&std::fs::read(&path).unwrap()), 4).as_os_str(), "/x");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn renaming_there_and_back_is_nothing(
            names in proptest::collection::btree_map(0_u32..50, "/[a-zäß/]{0,200}", 1..20),
            other in "/[a-z]{0,200}",
        ) {
            let entries: Vec<Vec<u8>> =
                names.iter().map(|(id, name)| with_unknown(&reg(*id, name.as_bytes()))).collect();
            let image = image_of(magic::FILES, &entries);
            let old: BTreeMap<u32, PathBuf> = names.iter().map(|(id, name)| (*id, name.into())).collect();
            let new: BTreeMap<u32, PathBuf> = names.keys().map(|id| (*id, PathBuf::from(&other))).collect();
            let renamed = rewrite(Path::new("x"), &image, &new).unwrap();
            let files = read(&renamed);
            for id in names.keys() {
                prop_assert_eq!(path_of(&files, *id), PathBuf::from(&other));
            }
            prop_assert_eq!(rewrite(Path::new("x"), &renamed, &old).unwrap(), image);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let names = BTreeMap::from([(0, PathBuf::from("/x"))]);
            let _ = rewrite(Path::new("x"), &image_of(magic::FILES, std::slice::from_ref(&bytes)), &names);
            let _ = rewrite(Path::new("x"), &bytes, &names);
        }
    }
}
