//! History: commits and their parents, as a directed graph without cycles (an id covers its parents' ids).

mod grafts;
mod graph;
mod revision;
mod walk;

pub use grafts::Grafts;
pub use graph::{Edge, Graph, Row, layout};
pub use revision::{RevisionError, resolve, resolve_with, with_prefix};
pub use walk::{Walk, is_ancestor, walk};
