//! Exported functions: device.
use super::export;

export! {}
