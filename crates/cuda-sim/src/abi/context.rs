//! Exported functions: context.
use super::export;

export! {}
