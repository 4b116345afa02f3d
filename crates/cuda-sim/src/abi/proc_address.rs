//! Exported functions: proc_address.
use super::export;

export! {}
