//! Faults on request, and the control socket.
