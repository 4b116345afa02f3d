//! Exported functions of the management library.
