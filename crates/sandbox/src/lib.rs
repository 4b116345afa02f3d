//! How a session's processes live.
#![forbid(unsafe_code)]
