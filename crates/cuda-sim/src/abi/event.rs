//! Exported functions: event.
use super::export;

export! {}
