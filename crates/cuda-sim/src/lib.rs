//! A stand-in for NVIDIA's driver libraries and device, for machines without a GPU: tests and demos only.
#![deny(unsafe_code)]
