//! CRIU, the engine for process state, over its RPC.
#![forbid(unsafe_code)]
