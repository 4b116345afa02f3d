//! Root for six calls: the program `infinijup-gpu-helper`, for drivers that let nobody but root checkpoint a process.
//!
//! Everything of ours runs as its user. If the driver answers a call of the worker with "not permitted", and an administrator has
//! opted into it, the worker asks this program to make that one call. It is started anew for each call, by systemd's socket
//! activation, with the connection as its standard input; it takes one message, makes at most one call and ends.
//!
//! What it lets an ordinary user do to it is meant to be small enough to be read in one sitting:
//! * The message has one length and no text: a verb, a time limit and pairs of GPU names ([`message`]). It brings one
//!   descriptor, the target's pidfd. There is no path, no process id and no name of a user in it.
//! * Who asks is the kernel's word (`SO_PEERCRED`). Whose the target is, is the kernel's word too (`target`): all user ids
//!   of all its threads, and the owner of its user namespace. All of them must be the one who asks.
//! * The driver wants a process id. It is the one that the pidfd stands for in this program's own pid namespace, and the pidfd tells
//!   before and after the call that the target still lives. A number cannot be given to another process while the one who has
//!   it lives, so what lived before and after the call is what the call was about.
//! * What can happen in between is small and is undone: a target that ends, or becomes another user's by executing a setuid
//!   program, while the driver locks it, is unlocked at once (`serve`).
//! * It keeps nothing: no file, no memory of earlier calls.
//!
//! The worker's side is in `client`.

pub(crate) mod client;
pub mod message;
mod serve;
mod target;

pub use self::serve::serve_one;

/// Where an administrator's `infinijup setup-gpu` lets the helper listen.
pub const SOCKET: &str = "/run/infinijup-gpu.sock";
