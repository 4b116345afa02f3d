//! A whole pack file, damaged in any way: opened, its footer read, its objects read, and salvaged.

use std::cell::RefCell;
use std::io::Write;

use cas_core::PackId;
use cas_core::pack::{PackReader, Trailer, salvage};
use cas_core::packs::PackBytes;

thread_local! {
    static FILE: RefCell<tempfile::NamedTempFile> = RefCell::new(tempfile::NamedTempFile::new_in("/dev/shm").unwrap());
}

pub(crate) fn run(bytes: &[u8]) {
    FILE.with_borrow_mut(|file| {
        file.as_file().set_len(0).unwrap();
        std::os::unix::fs::FileExt::write_all_at(file.as_file(), bytes, 0).unwrap();
        file.flush().unwrap();
        let open = || PackBytes::of_file(file.path()).unwrap();
        let found = salvage(&open()).unwrap();
        assert!(found.lost <= bytes.len() as u64);
        let Ok(reader) = PackReader::new(open()) else { return };
        let name = Trailer::parse(bytes).map_or(PackId::from_bytes([0; 32]), |trailer| trailer.id);
        let mut buffer = Vec::new();
        for record in reader.footer(&name).into_iter().flatten().chain(found.records) {
            let _ = reader.read(&record.entry.id, record.offset, record.entry.stored_len, &mut buffer);
        }
    });
}
