//! Exported functions: checkpoint.
use super::export;

export! {}
