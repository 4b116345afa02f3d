//! Exported functions: memory.
use super::export;

export! {}
