//! What a kernel sends to the daemon, which is root: frames of ZMTP, and Jupyter's messages in them.

use jupyter_bridge::client::understand;

/// So that the search need not find the greeting first.
const GREETING: &[u8; 64] = b"\xff\0\0\0\0\0\0\0\0\x7f\x03\0NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub(crate) fn run(bytes: &[u8]) {
    understand(bytes);
    understand(&[GREETING.as_slice(), bytes].concat());
}
