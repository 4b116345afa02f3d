//! The four structures of a pack.

use cas_core::pack::{Entry, PackHeader, Trailer, parse_footer};

pub(crate) fn run(bytes: &[u8]) {
    if let Ok(header) = PackHeader::parse(bytes) {
        assert_eq!(PackHeader::parse(&header.encode()), Ok(header));
    }
    if let Ok(entry) = Entry::parse(bytes) {
        assert_eq!(Entry::parse(&entry.encode()), Ok(entry));
    }
    if let Ok(trailer) = Trailer::parse(bytes) {
        assert_eq!(Trailer::parse(&trailer.encode()), Ok(trailer));
    }
    let _ = parse_footer(bytes);
}
