//! Exported functions: vmm.
use super::export;

export! {}
