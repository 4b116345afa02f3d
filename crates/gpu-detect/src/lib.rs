//! What a process has on the GPU, from `/proc` and NVML, and which strategy fits it.
#![forbid(unsafe_code)]
