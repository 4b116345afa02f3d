//! Exported functions: stream.
use super::export;

export! {}
