//! Who asks.

use sandbox::User;

use crate::error::Result;

/// The user on whose behalf something is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    user: User,
}

impl Caller {
    /// The user with this id, with the groups and the home of the password database.
    pub fn by_uid(uid: u32) -> Result<Self> {
        Ok(Self { user: User::by_uid(uid)? })
    }

    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// Their id.
    pub fn uid(&self) -> u32 {
        self.user.uid
    }

    /// Root may do everything to everyone's sessions.
    pub fn is_root(&self) -> bool {
        self.user.uid == 0
    }

    /// Whether they may see and touch what belongs to `owner`.
    pub fn may_touch(&self, owner: u32) -> bool {
        self.is_root() || self.user.uid == owner
    }
}

impl From<User> for Caller {
    fn from(user: User) -> Self {
        Self { user }
    }
}
