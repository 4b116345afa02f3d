//! Which sort of habitat a session lives in, as its record says.

use serde::{Deserialize, Serialize};

/// Which of them. On disk it is what it was before there were names for it: whether a tree was adopted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(from = "bool", into = "bool")]
pub enum HabitatKind {
    /// A box of ours.
    #[default]
    OwnBox,
    /// The machine itself: not started by us, and nothing around it.
    HostTree,
}

impl HabitatKind {
    /// Whether it is the machine itself.
    pub fn is_host(self) -> bool {
        self == Self::HostTree
    }
}

impl From<bool> for HabitatKind {
    fn from(attached: bool) -> Self {
        if attached { Self::HostTree } else { Self::OwnBox }
    }
}

impl From<HabitatKind> for bool {
    fn from(kind: HabitatKind) -> Self {
        kind.is_host()
    }
}
