//! What the writable layer of an overlay says beside its files.
//!
//! A container whose root is an overlay writes to a directory of its own, which lies over those of its image (`overlayfs.rst` in the
//! kernel's documentation). That directory holds what differs from the image, so it also has to say what is *not* there any more:
//!
//! * A name of the image that was removed is a character device 0/0, a *whiteout*.
//! * A directory that hides the image's directory of the same name has the attribute `trusted.overlay.opaque`, with the value `y`.
//!   `user.overlay.opaque` is the same where an ordinary user has mounted the overlay.
//!
//! Both belong to a snapshot of the layer. All whiteouts may be names of a single inode, so its number and times say nothing of any of them.
//!
//! Other attributes say that a part is elsewhere: the content of a file (`metacopy`), or the image's directory that is shown under
//! a name (`redirect`). They lead into an image, and mean nothing without exactly that one. What has them is not carried over: of such a file
//! the layer holds zeros in the place of the bytes.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use manifest::tree::Xattr;
use manifest::{ByteText, Entry, FileName, Node};
use rustix::fs::{FileType, Mode, XattrFlags};
use rustix::io::Errno;

use super::access::Facts;

/// Where a kernel has the attributes: of an overlay that root has mounted, and of one that somebody else has.
const SPACES: [&str; 2] = ["trusted.overlay.", "user.overlay."];
const OPAQUE: &str = "opaque";
/// That a directory hides all of what is below. Other values have other meanings.
const HIDES: &[u8] = b"y";
/// Attributes of what the layer by itself does not have.
const ELSEWHERE: [(&str, &str); 3] = [
    ("metacopy", "only its attributes are in the container's layer, and its content is the image's"),
    ("redirect", "it shows a part of the image that has another name there"),
    ("whiteout", "it stands for a name of the image that was removed, in a way that is not carried over"),
];

/// Whether this is a name that was removed.
pub(crate) fn is_whiteout(facts: &Facts) -> bool {
    facts.kind == FileType::CharacterDevice && facts.names_device == (0, 0)
}

/// Whether an entry says that its name was removed.
pub(crate) fn says_removed(entry: &Entry) -> bool {
    entry.node == Node::Char { major: 0, minor: 0 }
}

/// The entry of a name that was removed.
pub(crate) fn removed(name: FileName) -> Entry {
    Entry::new(name, Node::Char { major: 0, minor: 0 })
}

/// Removes a name of the image. Nothing may have it in the layer.
pub(crate) fn make_whiteout(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::mknodat(parent, name, FileType::CharacterDevice, Mode::empty(), 0)?)
}

/// What a file or directory of the layer says of what is below. It is refused if a part of it is elsewhere.
pub(crate) fn marks_of(handle: impl AsFd) -> io::Result<Vec<Xattr>> {
    for (name, why) in ELSEWHERE {
        for space in SPACES {
            if value(&handle, &format!("{space}{name}"))?.is_some() {
                return Err(io::Error::other(why));
            }
        }
    }
    let mut marks = Vec::new();
    for space in SPACES {
        let name = format!("{space}{OPAQUE}");
        match value(&handle, &name)? {
            Some(said) if said == HIDES => {
                marks.push(Xattr { name: ByteText::new(name), value: ByteText::new(HIDES) })
            }
            Some(_) => {
                return Err(io::Error::other(
                    "it hides a part of the image in a way that is not carried over",
                ));
            }
            None => {}
        }
    }
    Ok(marks)
}

/// Lets a directory hide what the entry says that it hid, and no more. Says whether that was another thing before.
pub(crate) fn mark(handle: impl AsFd, entry: &Entry) -> io::Result<bool> {
    let there = marks_of(&handle)?;
    let mut changed = false;
    for space in SPACES {
        let name = format!("{space}{OPAQUE}");
        let is_in = |marks: &[Xattr]| {
            marks.iter().any(|mark| mark.name.as_bytes() == name.as_bytes() && mark.value.as_bytes() == HIDES)
        };
        match (is_in(&there), is_in(&entry.xattrs)) {
            (false, true) => rustix::fs::fsetxattr(&handle, name.as_str(), HIDES, XattrFlags::CREATE)?,
            (true, false) => rustix::fs::fremovexattr(&handle, name.as_str())?,
            _ => continue,
        }
        changed = true;
    }
    Ok(changed)
}

/// The value of an attribute; of a long one no more than that it is there.
fn value(handle: impl AsFd, name: &str) -> io::Result<Option<Vec<u8>>> {
    let mut buffer = [0; 16];
    match rustix::fs::fgetxattr(handle, name, &mut buffer[..]) {
        Ok(count) => Ok(Some(buffer.get(..count).unwrap_or_default().to_vec())),
        Err(Errno::RANGE) => Ok(Some(Vec::new())),
        // Nothing can have one there.
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
