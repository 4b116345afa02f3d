//! The checkpoint calls: both sides.
