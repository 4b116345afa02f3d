//! A stand-in for NVIDIA's driver libraries and device, for machines without a GPU: tests and demos only.
//!
//! Three parts. The *device server* ([`server`], run by the program `cuda-sim serve`) owns the video memory and carries out
//! copies, fills and kernels, one queue a stream. The *client library* ([`client`]) lives in the CUDA process: it keeps
//! handles, contexts and addresses, and asks the server over [`wire`]. The exported C functions (`abi`) are the public
//! driver interface of `cuda.h` and `nvml.h` and nothing else: only there is unsafe code.
#![deny(unsafe_code)]

#[expect(
    unsafe_code,
    reason = "the C interface: exported symbols, pointers of C callers, mappings at chosen addresses"
)]
mod abi;
pub mod checkpoint;
pub mod client;
pub mod code;
pub mod faults;
pub mod level;
pub mod nvml;
pub mod ptx;
pub mod server;
pub mod wire;
