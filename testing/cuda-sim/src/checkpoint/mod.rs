//! The checkpoint calls: the side that makes them and the side that carries them out.
//!
//! A caller is any process with our library and the right to trace the target ([`caller`]). It finds the target's control
//! block ([`block`]), opens the two pipes that are named there and sends a request ([`message`]) to the target's *helper*
//! thread ([`helper`]), which alone does the work:
//!
//! * *Lock* closes the gate that all calls to the device pass, waits for those inside and for the streams.
//! * *Checkpoint* lets the server write all device memory into fresh anonymous memory of the target, keeps the server's
//!   account of contexts, streams and addresses beside it, closes every channel and device file. The server then holds
//!   nothing of the process, and the process nothing of the device: CRIU can dump it.
//! * *Restore* opens them again, on the machine of the caller, and gives everything back to the server at the same
//!   addresses, on the same or other GPUs ([`placement`]). If that fails it was not done: the copies stay.
//! * *Unlock* opens the gate.
//!
//! Which step may follow which is in [`state`]. What can go wrong on request is asked of the server ([`crate::faults`]).
//!
//! Everything after Lock is done while other threads may be stopped by ptrace anywhere (CRIU's plugin works like that).
//! The library's own locks are then free, because they are taken behind the gate only; the gate is a futex word that is
//! never held. What is left is the allocator: a thread stopped inside `malloc` holds the lock of its arena. glibc gives
//! the helper an arena of its own as long as there are fewer threads than arenas (eight a processor); beyond that, or
//! with another allocator, a stopped thread could keep the helper waiting until it runs again. infinijup lets all threads
//! run during these steps, so this only matters to other users.
pub mod block;
pub mod caller;
pub mod helper;
pub mod message;
pub mod placement;
pub mod state;
pub mod storage;
pub mod target;
