//! Lists of chunks. What is accepted has exactly one encoding.
#![no_main]

use cas_core::blob::List;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(list) = List::parse(bytes) {
        assert_eq!(list.encode(), bytes);
    }
});
