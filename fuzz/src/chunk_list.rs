//! Lists of chunks. What is accepted has exactly one encoding.

use cas_core::blob::List;

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(list) = List::parse(bytes) {
        assert_eq!(list.encode(), bytes);
    }
}
