//! Everything that needs a real CRIU, and root.

mod common;
mod dump;
mod images;
mod kernel;
mod memory;
mod restore;
