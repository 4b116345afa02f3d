//! The engine behind the trait.
