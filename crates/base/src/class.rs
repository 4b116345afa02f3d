//! What kind of trouble an error is.

/// Decides a program's exit code, a server's status, and whether trying again can help. Every error of ours has one, beside its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The caller asked for something that cannot be.
    Usage,
    /// There is no such session, snapshot or kernelspec.
    NotFound,
    /// It was found out beforehand that this would not work; nothing was touched.
    Refused,
    /// The machine is in the way: a full disk, a missing right or program, a lock, a call that hangs.
    Environment,
    /// Stored bytes are not what was written.
    Corruption,
    /// A passphrase or key file is missing or wrong.
    Key,
    /// Somebody else is doing, or has done, something to the same thing.
    Conflict,
    /// Our own mistake.
    Bug,
}
