//! What ties a tree to the world outside of it, as its images say.

use std::path::Path;

use checkpoint_criu::images::{FileKind, Images};

use crate::error::Result;

/// CRIU's numbers for what has neither a name nor anybody at its other end but the tree: eventfd, epoll, signalfd, timerfd.
const OF_ITS_OWN: [i32; 4] = [6, 7, 9, 17];
/// An image without entries: two magic numbers.
const EMPTY: u64 = 8;
/// What every box has for itself.
const OF_THE_BOX: [&str; 2] = ["/dev", "/run"];

/// Connections that are closed by a restore, for people. Those to a kernel, of its clients and of its own (ipykernel 7 has one), are
/// left out: they are made again by themselves.
pub fn closed_connections(images: &Path, of_kernel: impl Fn(u32) -> bool) -> Result<Vec<String>> {
    let mut closed = Vec::new();
    for file in Images::open(images)?.files()? {
        if let FileKind::Inet(socket) = &file.kind
            && socket.is_established()
            && let Some(address) = socket.destination()
            && !of_kernel(socket.src_port)
            && !(address.is_loopback() && of_kernel(socket.dst_port))
        {
            closed.push(format!("{address}:{}", socket.dst_port));
        }
    }
    closed.sort();
    closed.dedup();
    Ok(closed)
}

/// Why a second tree of these images must not be made while the first one lives, in the same directories; `None` if nothing is said against
/// it. What they have open by name is the same file for both, and that is fine for as long as only one of them runs. But a lock is
/// somebody's, a name that CRIU makes for a moment is seen by the other, and what watches is told of what the other does.
pub fn why_not_twice(images: &Path) -> Result<Option<&'static str>> {
    let read = Images::open(images)?;
    for process in read.pstree()? {
        // One of which that cannot be read is not restored at all.
        if read.core(process.pid).is_ok_and(|core| core.is_stopped()) {
            return Ok(Some("a process of it was stopped by its user"));
        }
    }
    if std::fs::metadata(images.join("filelocks.img")).is_ok_and(|image| image.len() > EMPTY) {
        return Ok(Some("it has locks on files"));
    }
    let files = read.files()?;
    for remap in read.remaps()? {
        let path = files.iter().find_map(|file| match &file.kind {
            FileKind::Reg(regular) if file.id == remap.original_id => Some(regular.path()),
            _ => None,
        });
        let is_own = path.is_some_and(|path| OF_THE_BOX.iter().any(|own| path.starts_with(own)));
        if !is_own {
            return Ok(Some("it has a file open that was removed"));
        }
    }
    let why = files.iter().find_map(|file| match &file.kind {
        FileKind::Reg(_) | FileKind::Pipe(_) | FileKind::Inet(_) | FileKind::Memfd(_) => None,
        FileKind::Unix(socket) if socket.path().is_none() => None,
        FileKind::Other(sort) if OF_ITS_OWN.contains(sort) => None,
        FileKind::Unix(_) => Some("it has a socket with a path"),
        FileKind::Fifo(_) => Some("it has a named pipe open"),
        FileKind::Tty(_) => Some("it has a terminal open"),
        _ => Some("it has something open that could be another's, too"),
    });
    Ok(why)
}
