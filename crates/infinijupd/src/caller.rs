//! Who is at the other end of a connection.
//!
//! The kernel says which user called `connect`, and nothing that a client sends can change that. The name, home and groups
//! come from the system's user database, as a login would get them; the groups of the calling process do not count.

use std::ffi::CString;
use std::path::PathBuf;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use nix::unistd::{Gid, Uid, User, getgrouplist};

use crate::error::DaemonError;
use crate::listener::Peer;
use crate::operations::Failure;

/// A user who asks for something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Their number, from the kernel.
    pub uid: u32,
    /// Their main group.
    pub gid: u32,
    /// All their groups.
    pub groups: Vec<u32>,
    /// Their name, or the number where there is none.
    pub name: String,
    /// Their home, or `/`.
    pub home: PathBuf,
}

impl Caller {
    /// Root, as whom the daemon asks for itself.
    pub fn root() -> Self {
        Self { uid: 0, gid: 0, groups: vec![0], name: "root".to_owned(), home: "/root".into() }
    }

    /// Looks a user up. This may ask a directory service, and block.
    ///
    /// A user without an entry has the group that the kernel names and no other.
    pub fn look_up(peer: Peer) -> Self {
        let Peer { uid, gid } = peer;
        let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else {
            return Self { uid, gid, groups: vec![gid], name: uid.to_string(), home: "/".into() };
        };
        let gid = user.gid.as_raw();
        let groups = CString::new(user.name.as_str())
            .ok()
            .and_then(|name| getgrouplist(&name, Gid::from_raw(gid)).ok())
            .map_or_else(|| vec![gid], |groups| groups.into_iter().map(Gid::as_raw).collect());
        Self { uid, gid, groups, name: user.name, home: user.dir }
    }

    /// Whether something of this owner's may be seen and touched.
    pub fn may_touch(&self, owner_uid: u32) -> bool {
        self.uid == 0 || self.uid == owner_uid
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<Peer>>().copied() else {
            return Err(DaemonError::Bug { detail: "a connection without a peer".to_owned() }.into());
        };
        tokio::task::spawn_blocking(move || Self::look_up(peer)).await.map_err(|error| {
            DaemonError::Bug { detail: format!("looking up uid {}: {error}", peer.uid) }.into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_nobody_knows_the_last_uid() {
        let root = Caller::look_up(Peer { uid: 0, gid: 0 });
        assert_eq!((root.uid, root.name.as_str()), (0, "root"));
        assert!(root.groups.contains(&0));

        let stranger = Caller::look_up(Peer { uid: 4_000_000_001, gid: 77 });
        assert_eq!((stranger.gid, stranger.groups.as_slice()), (77, &[77][..]));
        assert_eq!(stranger.name, "4000000001");
    }

    #[test]
    fn only_root_and_the_owner_may_touch() {
        let ada = Caller { uid: 1000, ..Caller::root() };
        assert!(ada.may_touch(1000) && !ada.may_touch(1001) && !ada.may_touch(0));
        assert!(Caller::root().may_touch(1000));
    }
}
