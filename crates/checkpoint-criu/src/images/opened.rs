//! For what mapped files are to be opened: the flags that a dump gets wrong, put right.
//!
//! CRIU takes them from the mode of the links in `/proc/PID/map_files`. Once somebody has looked at such a link, the kernel keeps it for as
//! long as something is mapped at exactly its addresses (`map_files_d_revalidate` in fs/proc/base.c of Linux), and its mode with it. So where
//! a mapping has taken the place of another one since the dump before, the mode is that of what was there then. A library that lies where
//! shared memory had been would be restored by opening it for writing, which its user may not do; and where a file of the user's lies in the
//! place of a library, it could not be mapped for writing. Such images cannot be restored, and nobody would know before they try.
//!
//! What the mapping itself says is always right, and goes before:
//!
//! - a private one needs its file to be read: what is written to it goes into memory;
//! - a shared one that may be written to needs it to be written, too;
//! - of a shared one that is only read nobody can tell whether it could become writable (`mprotect`). What CRIU says stays, unless
//!   that is a file that cannot be opened for writing, so that it has never been.

use std::path::Path;

use prost::Message;

use super::entries::{Entries, MAX_IMAGE, magic, put_entry, read_whole, replace};
use super::fields::{Value, fields, put_bytes, put_number};
use super::{FileEntry, FileKind, Images, Vma};
use crate::error::{CriuError, Result};

const MM_VMA: u64 = 14;
const VMA_FILE_FLAGS: u64 = 10;

/// `O_RDONLY`, `O_RDWR` and the bits in which they are.
const FOR_READING: u32 = 0;
const FOR_BOTH: u32 = 2;
const FOR_WHAT: u32 = 3;

/// Puts the images in `dir` right. `refuses_writers` says of the path of a file, as the processes see it, whether they may not open it for
/// writing; it is asked of few.
pub(crate) fn put_right(dir: &Path, refuses_writers: &dyn Fn(&Path) -> bool) -> Result<()> {
    let images = Images::open(dir)?;
    let mut files: Option<Vec<FileEntry>> = None;
    for name in images.address_spaces()? {
        let path = dir.join(name);
        let old = read_whole(&path, MAX_IMAGE)?;
        let fresh = rewrite(&path, &old, &mut |file| {
            if files.is_none() {
                files = Some(images.files()?);
            }
            let found = files.iter().flatten().find(|entry| entry.id == file);
            Ok(found.is_some_and(
                |entry| matches!(&entry.kind, FileKind::Reg(regular) if refuses_writers(regular.path())),
            ))
        })?;
        if let Some(fresh) = fresh {
            replace(&path, &fresh)?;
        }
    }
    Ok(())
}

/// The image of an address space with the right flags, every other byte as it was; `None` if they are right. `refuses` is asked about
/// files by their number.
fn rewrite(
    path: &Path,
    image: &[u8],
    refuses: &mut dyn FnMut(u32) -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    let mut entries = Entries::new(path, image, magic::MM)?;
    let mut fresh = entries.head(image).to_vec();
    let mut changed = false;
    while let Some(entry) = entries.next_bytes()? {
        let mut message = Vec::with_capacity(entry.len());
        for field in fields(entry).ok_or_else(|| malformed(path))? {
            let new = match (field.number, field.value) {
                (MM_VMA, Value::Bytes(mapping)) => rewrite_mapping(path, mapping, refuses)?,
                _ => None,
            };
            match &new {
                Some(mapping) => put_bytes(&mut message, MM_VMA, mapping),
                None => message.extend(field.raw),
            }
            changed |= new.is_some();
        }
        put_entry(path, &mut fresh, &message)?;
    }
    Ok(changed.then_some(fresh))
}

fn rewrite_mapping(
    path: &Path,
    bytes: &[u8],
    refuses: &mut dyn FnMut(u32) -> Result<bool>,
) -> Result<Option<Vec<u8>>> {
    let mapping = Vma::decode(bytes)
        .map_err(|error| CriuError::image(path, format!("has a mapping that cannot be decoded: {error}")))?;
    let Some(right) = right_flags(&mapping, refuses)? else { return Ok(None) };
    let mut fresh = Vec::with_capacity(bytes.len());
    for field in fields(bytes).ok_or_else(|| malformed(path))? {
        if field.number != VMA_FILE_FLAGS {
            fresh.extend(field.raw);
        }
    }
    put_number(&mut fresh, VMA_FILE_FLAGS << 3);
    put_number(&mut fresh, u64::from(right));
    Ok(Some(fresh))
}

/// The flags that the mapping needs, if it has others.
fn right_flags(mapping: &Vma, refuses: &mut dyn FnMut(u32) -> Result<bool>) -> Result<Option<u32>> {
    // Without any, CRIU finds out by the same rules.
    let (Some(file), Some(flags)) = (mapping.file_id(), mapping.file_flags) else { return Ok(None) };
    let needed = if !mapping.is_shared() {
        FOR_READING
    } else if mapping.is_writable() {
        FOR_BOTH
    } else if flags & FOR_WHAT != FOR_READING && refuses(file)? {
        FOR_READING
    } else {
        return Ok(None);
    };
    Ok((flags & FOR_WHAT != needed).then_some(flags & !FOR_WHAT | needed))
}

fn malformed(path: &Path) -> CriuError {
    CriuError::image(path, "has an entry that is no message")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entries::image_of;
    use super::super::{FileFrame, FileSort, Inventory, Mm, RegFile};
    use super::*;

    const PRIVATE: u32 = 1 | 1 << 6;
    const SHARED: u32 = 1 | 1 << 7;
    const ANONYMOUS: u32 = 1 | 1 << 9;

    fn mapping(status: u32, prot: u32, file_flags: Option<u32>) -> Vma {
        Vma { start: 4096, end: 8192, shmid: 7, status, prot, file_flags, ..Vma::default() }
    }

    fn image(vmas: &[Vma]) -> Vec<u8> {
        // A field that nobody knows, before and inside.
        let mut message = Vec::new();
        put_bytes(&mut message, 77, b"outer");
        put_number(&mut message, 12 << 3);
        put_number(&mut message, 1);
        for vma in vmas {
            let mut inner = vma.encode_to_vec();
            put_bytes(&mut inner, 99, b"inner");
            put_bytes(&mut message, MM_VMA, &inner);
        }
        image_of(magic::MM, &[message])
    }

    fn flags_after(vma: Vma, refuses: bool) -> Option<u32> {
        let image = image(&[vma]);
        let fresh = rewrite(Path::new("x"), &image, &mut |_| Ok(refuses)).unwrap().unwrap_or(image);
        let mm: Mm = super::super::entries::one(Path::new("x"), &fresh, magic::MM).unwrap();
        mm.vmas[0].file_flags
    }

    #[test]
    fn what_a_mapping_says_goes_before_what_the_kernel_said() {
        let large = 0o100_000;
        for (status, prot, flags, refuses, right) in [
            (PRIVATE, 1, Some(2), false, Some(0)),
            (PRIVATE, 3, Some(large | 2), false, Some(large)),
            (PRIVATE, 5, Some(0), false, Some(0)),
            (SHARED, 3, Some(0), true, Some(2)),
            (SHARED, 3, Some(large), false, Some(large | 2)),
            (SHARED, 3, Some(2), true, Some(2)),
            // Read, and perhaps written one day; or never.
            (SHARED, 1, Some(2), false, Some(2)),
            (SHARED, 1, Some(2), true, Some(0)),
            (SHARED, 1, Some(0), false, Some(0)),
            // CRIU knows, or there is no file.
            (PRIVATE, 3, None, true, None),
            (ANONYMOUS, 3, Some(2), true, Some(2)),
        ] {
            let found = flags_after(mapping(status, prot, flags), refuses);
            assert_eq!(found, right, "{status} {prot} {flags:?} {refuses}");
        }
    }

    #[test]
    fn every_other_byte_stays() {
        let (wrong, right) = (mapping(PRIVATE, 1, Some(2)), mapping(PRIVATE, 1, Some(0)));
        let anonymous = mapping(ANONYMOUS, 3, None);
        let mut refuses = |_| Ok(false);
        let mut rewritten = |vmas: &[Vma]| rewrite(Path::new("x"), &image(vmas), &mut refuses).unwrap();
        let fresh = rewritten(&[anonymous, wrong, anonymous]).unwrap();
        // The flags go to the end of their mapping, which means the same.
        let mm: Mm = super::super::entries::one(Path::new("x"), &fresh, magic::MM).unwrap();
        assert_eq!(mm.vmas, [anonymous, right, anonymous]);
        let count = |needle: &[u8]| fresh.windows(needle.len()).filter(|bytes| bytes == &needle).count();
        assert_eq!((count(b"outer"), count(b"inner")), (1, 3));
        assert_eq!(fresh.len(), image(&[anonymous, right, anonymous]).len());
        assert_eq!(rewritten(&[anonymous, right]), None);
    }

    #[test]
    fn files_are_asked_about_by_their_paths() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: Vec<u8>| std::fs::write(dir.path().join(name), bytes).unwrap();
        let reg = RegFile { id: 7, name: b"/root/s".to_vec(), ..RegFile::default() };
        let frame = FileFrame { kind: FileSort::Reg.into(), id: 7, reg: Some(reg), ..FileFrame::default() };
        write("inventory.img", image_of(magic::INVENTORY, &[Inventory::default().encode_to_vec()]));
        write("files.img", image_of(magic::FILES, &[frame.encode_to_vec()]));
        write("mm-300.img", image(&[mapping(SHARED, 1, Some(2))]));
        write("mm-301.img", image(&[mapping(PRIVATE, 1, Some(0))]));
        let flags = |pid| Images::open(dir.path()).unwrap().mm(pid).unwrap().vmas[0].file_flags;

        put_right(dir.path(), &|_| false).unwrap();
        assert_eq!((flags(300), flags(301)), (Some(2), Some(0)));
        put_right(dir.path(), &|path| path == Path::new("/root/s")).unwrap();
        assert_eq!((flags(300), flags(301)), (Some(0), Some(0)));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4, "nothing else is left there");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut message = Vec::new();
            put_bytes(&mut message, MM_VMA, &bytes);
            for image in [image_of(magic::MM, std::slice::from_ref(&bytes)), image_of(magic::MM, &[message]), bytes] {
                let _ = rewrite(Path::new("x"), &image, &mut |_| Ok(true));
            }
        }
    }
}
