//! What a Jupyter kernel is.
#![forbid(unsafe_code)]
