//! What the kernel tells about user namespaces.

use std::os::fd::BorrowedFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, ioctl, opcode};

/// The user who made a user namespace (`NS_GET_OWNER_UID` of `linux/nsfs.h`), as this process numbers users.
pub(crate) fn owner_of_user_namespace(namespace: BorrowedFd<'_>) -> Result<u32> {
    // SAFETY: this opcode makes the kernel write one `uid_t`, which is a `u32`, or fail and write nothing; for a descriptor that
    // is no user namespace it fails. No safe interface has it.
    unsafe { ioctl(namespace, Getter::<{ opcode::none(0xb7, 4) }, u32>::new()) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_user_namespace_has_an_owner_and_others_have_not() {
        let own = File::open("/proc/self/ns/user").unwrap();
        owner_of_user_namespace(own.as_fd()).unwrap();
        for other in ["/proc/self/ns/net", "/dev/null", "/proc/self/status"] {
            owner_of_user_namespace(File::open(other).unwrap().as_fd()).unwrap_err();
        }
    }
}
