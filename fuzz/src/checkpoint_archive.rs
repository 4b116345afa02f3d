//! Checkpoint archives of others, in both forms; tar files within them; their JSON. Whatever is accepted has plain names, each once, and what
//! is written of it again is read as the same.

use std::collections::BTreeMap;
use std::io::Read;

use checkpoint_archive::{
    ArchiveError, ArchiveWriter, Compression, Limits, Member, MemoryBlobs, Take, check_memory_files,
    parse_json, read_archive, read_files,
};

#[derive(Default)]
struct Kept(BTreeMap<Member, Vec<u8>>);

impl Take for Kept {
    fn take(&mut self, member: &Member, size: u64, content: &mut dyn Read) -> Result<(), ArchiveError> {
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|_| ArchiveError::NotKept)?;
        assert_eq!(bytes.len() as u64, size);
        assert!(self.0.insert(member.clone(), bytes).is_none(), "{member} is there twice");
        Ok(())
    }
}

pub(crate) fn run(bytes: &[u8]) {
    read(bytes);
    read(&with_checksums(bytes));
}

/// The same with a fitting sum in every block that could be a header: nobody guesses one.
fn with_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}

fn read(bytes: &[u8]) {
    let limits =
        Limits { bytes: Some(1 << 22), members: 100, entries: 1000, json: 1 << 16, ..Limits::default() };
    let mut kept = Kept::default();
    if let Ok(found) = read_archive(bytes, &limits, &mut MemoryBlobs::default(), &mut kept) {
        assert!(kept.0.keys().eq(found.members.keys()));
        let mut again = ArchiveWriter::new(Vec::new(), Compression::None, 0).unwrap();
        for (member, bytes) in &kept.0 {
            assert_eq!(Member::named(&member.to_string()).as_ref(), Some(member));
            again.bytes(member, bytes).unwrap();
        }
        let (file, _) = again.finish().unwrap();
        let mut second = Kept::default();
        let reread =
            read_archive(&file[..], &Limits::default(), &mut MemoryBlobs::default(), &mut second).unwrap();
        assert_eq!(second.0, kept.0);
        assert_eq!(
            (reread.spec, reread.config, reread.deleted),
            (found.spec.clone(), found.config.clone(), found.deleted.clone())
        );
        for claim in found.claims() {
            assert!(!claim.text.chars().any(char::is_control));
        }
    }
    let stored = read_files(&mut &bytes[..], &limits, &mut |entry, _| {
        assert!(!entry.path.starts_with(b"/"));
        Ok(())
    });
    if let Ok(files) = stored {
        for name in files.root.children.keys() {
            assert!(
                !matches!(name.as_slice(), b"" | b"." | b"..") && !name.contains(&b'/') && !name.contains(&0)
            );
        }
    }
    let _ = check_memory_files(bytes, &limits);
    let _ = parse_json(bytes);
}
