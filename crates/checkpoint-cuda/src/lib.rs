//! The NVIDIA driver's checkpoint calls as a state machine of types.
//!
//! Every line of FFI is in [`sys`]; it runs in a worker process of its own, `infinijup-gpu`.
#![deny(unsafe_code)]
