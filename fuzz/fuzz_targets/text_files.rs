//! The `format` file and the files of refs.
#![no_main]

use cas_core::{layout::Format, refs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(format) = Format::parse(bytes) {
        assert_eq!(format.encode().as_bytes(), bytes);
    }
    let _ = refs::parse("threads/main", bytes);
});
