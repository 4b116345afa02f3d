//! PTX: parser and interpreter.
