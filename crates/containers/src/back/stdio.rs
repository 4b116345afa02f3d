//! Standard input, output and error of a container that comes back.
//!
//! Whoever read the pipes of the old one was told that they ended when it did, so there is nothing to connect to again. A pipe is replaced by a
//! new one, whose other end is a file: what the container says from now on is in there. What was no pipe comes from the images.

use std::fs::File;
use std::io;
use std::process::{Command, Stdio};

/// What the runtime is given as descriptor `number` of the container, if that was `before`. What is said to a pipe goes to `log`.
pub(super) fn replaced(number: usize, before: Option<&str>, log: &File) -> io::Result<Stdio> {
    if !before.is_some_and(|name| name.starts_with("pipe:")) {
        return Ok(Stdio::null());
    }
    let (reader, writer) = io::pipe()?;
    if number == 0 {
        // Nobody has anything to say to it any more.
        return Ok(reader.into());
    }
    // A file itself will not do: CRIU could not dump what lies outside of the container's mounts. It ends with the container.
    Command::new("cat").env_clear().stdin(reader).stdout(log.try_clone()?).stderr(Stdio::null()).spawn()?;
    Ok(writer.into())
}
