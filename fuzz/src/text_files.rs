//! The `format` file and the files of refs.

use cas_core::{layout::Format, refs};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(format) = Format::parse(bytes) {
        assert_eq!(format.encode().as_bytes(), bytes);
    }
    let _ = refs::parse("threads/main", bytes);
}
