//! The management library, without its C interface.
