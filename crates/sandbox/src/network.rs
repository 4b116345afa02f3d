//! Network namespaces that live at a path.
//!
//! A namespace lives as long as something holds it: a process in it, an open descriptor, or – as here and in `ip netns` – a
//! bind mount of it on a file. The pin outlives the daemon, so a session that is suspended or restored gets back into the
//! network it had.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, netlink, recv, send, socket};
use rustix::thread::{LinkNameSpaceType, gettid, move_into_link_name_space};

use crate::error::{Result, SandboxError};

/// A network namespace, pinned at a path.
#[derive(Debug)]
pub struct NetworkNamespace {
    path: PathBuf,
}

impl NetworkNamespace {
    /// Makes a new one with its loopback up and pins it at `path`. A plain file there, whose pin has gone with a crash or a
    /// reboot, is replaced; a namespace is not.
    pub fn create(path: &Path) -> Result<Self> {
        if path.is_file() && !is_namespace(path)? {
            fs::remove_file(path).map_err(SandboxError::io("remove", path))?;
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(SandboxError::io("make", directory))?;
        }
        File::create_new(path).map_err(SandboxError::io("make", path))?;
        let made = on_a_thread(|| {
            // Only this thread moves; the daemon's other threads stay where they are.
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
                .map_err(SandboxError::system("make a network namespace"))?;
            bring_loopback_up()?;
            let own = format!("/proc/self/task/{}/ns/net", gettid().as_raw_nonzero());
            mount_bind(&own, path).map_err(SandboxError::io("pin the network namespace at", path))?;
            mount_change(path, MountPropagationFlags::PRIVATE).map_err(SandboxError::io("make private", path))
        });
        if let Err(error) = made {
            // What failed is what the caller wants to hear, not this.
            let _ = fs::remove_file(path);
            return Err(error);
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The one that is pinned at `path`.
    pub fn open(path: &Path) -> Result<Self> {
        let namespace = Self { path: path.to_owned() };
        // A file that is left from before a reboot is not a namespace, and saying so now is better than in setns.
        if !is_namespace(path)? {
            return Err(SandboxError::BadSpec { detail: format!("`{}` is not a namespace", path.display()) });
        }
        Ok(namespace)
    }

    /// Where it is pinned.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A descriptor of it, for `setns` or for CRIU's `inherit_fd`.
    pub fn fd(&self) -> Result<OwnedFd> {
        Ok(File::open(&self.path).map_err(SandboxError::io("open", &self.path))?.into())
    }

    /// Its inode: how CRIU names it.
    pub fn inode(&self) -> Result<u64> {
        Ok(rustix::fs::stat(&self.path).map_err(SandboxError::io("look at", &self.path))?.st_ino)
    }

    /// Takes the pin away. The namespace ends with its last process.
    pub fn remove(self) -> Result<()> {
        unmount(&self.path, UnmountFlags::DETACH).map_err(SandboxError::io("unmount", &self.path))?;
        fs::remove_file(&self.path).map_err(SandboxError::io("remove", &self.path))
    }
}

fn is_namespace(path: &Path) -> Result<bool> {
    const NSFS_MAGIC: u64 = 0x6e73_6673;
    let kind = rustix::fs::statfs(path).map_err(SandboxError::io("look at", path))?.f_type;
    Ok(u64::try_from(kind).is_ok_and(|kind| kind == NSFS_MAGIC))
}

/// Runs `work` on a fresh thread that is in this network namespace, and waits for it.
pub(crate) fn inside<T: Send>(namespace: &OwnedFd, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    on_a_thread(|| {
        enter(namespace)?;
        work()
    })
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(namespace: &OwnedFd) -> Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(SandboxError::system("enter the network namespace"))
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

/// `ip link set lo up`, in the words of rtnetlink: one request, one acknowledgement.
fn bring_loopback_up() -> Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 1 | 4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let failed = || SandboxError::system::<rustix::io::Errno>("bring the loopback up");

    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]); // sequence and sender
    message.extend([0; 4]); // family, padding, type
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes()); // the flags …
    message.extend(UP.to_ne_bytes()); // … and which of them to change

    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None).map_err(failed())?;
    send(&socket, &message, SendFlags::empty()).map_err(failed())?;
    let mut answer = [0_u8; 256];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty()).map_err(failed())?;
    match acknowledgement(answer.get(..length).unwrap_or_default()) {
        Some(0) => Ok(()),
        Some(error) => Err(failed()(rustix::io::Errno::from_raw_os_error(-error))),
        None => Err(failed()(rustix::io::Errno::BADMSG)),
    }
}

/// The error number in a netlink acknowledgement: zero or negative.
fn acknowledgement(message: &[u8]) -> Option<i32> {
    const NLMSG_ERROR: u16 = 2;
    let kind = u16::from_ne_bytes(message.get(4..6)?.try_into().ok()?);
    let error = i32::from_ne_bytes(message.get(16..20)?.try_into().ok()?);
    (kind == NLMSG_ERROR && error <= 0).then_some(error)
}

/// A socket that can ask the kernel about the sockets of the namespace it is opened in.
pub(crate) fn diagnostics() -> Result<OwnedFd> {
    socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::SOCK_DIAG))
        .map_err(SandboxError::system("ask the kernel about sockets"))
}
