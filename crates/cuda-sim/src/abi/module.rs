//! Exported functions: module.
use super::export;

export! {}
