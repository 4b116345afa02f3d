//! Which sort of habitat a session lives in, as its record says; and of a container, which one it is.

use std::path::PathBuf;

use api::{ContainerName, Text};
use containers::{ContainerId, Image, Query, Runtime};
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};

use crate::session::SessionId;

/// The longest id that containerd takes.
const LONGEST_ID: usize = 76;

/// Which of them. On disk the first two are what they were before there were names for it: whether a tree was adopted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(try_from = "OnDisk", into = "OnDisk")]
pub enum HabitatKind {
    /// A box of ours.
    #[default]
    OwnBox,
    /// The machine itself: not started by us, and nothing around it.
    HostTree,
    /// A container, which its runtime has made.
    Container,
}

impl HabitatKind {
    /// Whether somebody else started what lives there.
    pub fn is_adopted(self) -> bool {
        self != Self::OwnBox
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OnDisk {
    Attached(bool),
    Named(String),
}

const CONTAINER: &str = "container";

impl TryFrom<OnDisk> for HabitatKind {
    type Error = &'static str;

    fn try_from(written: OnDisk) -> Result<Self, Self::Error> {
        match written {
            OnDisk::Attached(false) => Ok(Self::OwnBox),
            OnDisk::Attached(true) => Ok(Self::HostTree),
            OnDisk::Named(name) if name == CONTAINER => Ok(Self::Container),
            OnDisk::Named(_) => Err("a habitat that this version does not know"),
        }
    }
}

impl From<HabitatKind> for OnDisk {
    fn from(kind: HabitatKind) -> Self {
        match kind {
            HabitatKind::OwnBox => Self::Attached(false),
            HabitatKind::HostTree => Self::Attached(true),
            HabitatKind::Container => Self::Named(CONTAINER.to_owned()),
        }
    }
}

/// The container that a session is: what is needed to ask its runtime for it, also when it is not there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ContainerRecord {
    /// Who looks after it.
    pub runtime: Runtime,
    /// Its id there.
    pub id: ContainerId,
    /// The name that somebody gave it.
    #[serde(default)]
    pub name: Option<String>,
    /// containerd's namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// The directory with the specification that it is made from.
    pub bundle: PathBuf,
    /// Directories of it that are in memory or the kernel's, and so not files of anybody's.
    #[serde(default)]
    pub private: Vec<PathBuf>,
    /// Places in it that it may only read; `/` for its root.
    #[serde(default)]
    pub read_only: Vec<PathBuf>,
    /// Whether its own files are the writable layer of an overlay, and not all that it sees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_layer: bool,
    /// What it was made from.
    #[serde(default)]
    pub image: Option<Image>,
    /// We have had it made for a branch: it goes when its session is removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
    /// It is not the session's own, but the model of one that is to be made: its specification counts, and its files are somebody else's. Never
    /// so on disk.
    #[serde(skip)]
    pub is_model: bool,
}

impl ContainerRecord {
    /// A second one beside it, for a branch: not there yet, under an id that nobody else has. `None` if the session's own id is no container's.
    pub(crate) fn beside(&self, session: &SessionId, name: &str) -> Option<Self> {
        let short = |id: &ContainerId| id.as_str().len() <= LONGEST_ID;
        let id = ContainerId::new(format!("{name}-{session}")).filter(short);
        let id = id.or_else(|| ContainerId::new(format!("branch-{session}")))?;
        // What is not known yet is asked of nobody: least of all of the first one.
        Some(Self { id, name: None, bundle: PathBuf::new(), ours: true, is_model: false, ..self.clone() })
    }

    /// Whether both are the same container of the same runtime.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.runtime, &self.namespace, &self.id) == (&other.runtime, &other.namespace, &other.id)
    }

    /// Whether people mean it by this.
    pub fn is_meant(&self, by: &ContainerName) -> bool {
        let called = self.name.as_deref() == Some(by.which.as_str());
        let is_it = called || Query::parse(&by.which).is_ok_and(|query| query.fits_id(self.id.as_str()));
        let (socket, root) = match &self.runtime {
            Runtime::Containerd { socket } => (Some(socket), None),
            Runtime::Runc { root, .. } | Runtime::Crun { root, .. } => (None, Some(root)),
            Runtime::Podman { .. } => (None, None),
        };
        let fits = |said: &Option<Text>, known: Option<&PathBuf>| {
            said.as_ref().is_none_or(|said| known.is_some_and(|known| known == said.as_path()))
        };
        let namespace = by.namespace.is_none() || by.namespace == self.namespace;
        let kind = by.runtime.as_ref().is_none_or(|word| word == self.runtime.kind().word());
        is_it && kind && namespace && fits(&by.address, socket) && fits(&by.runtime_root, root)
    }
}

/// Something that runs already and becomes a session.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// Its first process.
    pub init: Identity,
    /// Where it lives.
    pub habitat: HabitatKind,
    /// The container, if it is one.
    pub container: Option<ContainerRecord>,
    /// What it runs, for people.
    pub command: Vec<String>,
    /// Where that runs, as it sees it.
    pub cwd: PathBuf,
    /// Its own directory, as it sees it and where that is.
    pub workspace: (PathBuf, PathBuf),
    /// Directories that lie elsewhere than it sees them.
    pub mapped: Vec<(PathBuf, PathBuf)>,
}

impl Adopted {
    /// What a session of it is called if nobody says: as the container is.
    pub fn called(&self) -> Option<&str> {
        let container = self.container.as_ref()?;
        let name = container.name.as_deref().unwrap_or_else(|| container.id.short());
        base::names::check_session(name).is_ok().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_meant_by_its_name_where_it_is_looked_for() {
        let container = ContainerRecord {
            runtime: Runtime::Runc { program: "/usr/bin/runc".into(), root: "/run/runc".into() },
            id: ContainerId::new("c1").unwrap(),
            name: Some("train".to_owned()),
            namespace: None,
            bundle: "/b".into(),
            private: Vec::new(),
            read_only: Vec::new(),
            is_layer: false,
            image: None,
            ours: false,
            is_model: true,
        };
        let second = container.beside(&SessionId::random().unwrap(), "idea").unwrap();
        assert!(
            second.ours
                && !second.is_model
                && second.id.as_str().starts_with("idea-")
                && second.name.is_none()
        );
        assert!(!second.is_same(&container));
        let odd = container.beside(&SessionId::random().unwrap(), &"ü".repeat(90)).unwrap();
        assert!(odd.id.as_str().starts_with("branch-"), "{}", odd.id);
        let by = |which: &str, runtime: Option<&str>, at: Option<&str>| ContainerName {
            which: which.to_owned(),
            runtime: runtime.map(str::to_owned),
            address: None,
            namespace: None,
            runtime_root: at.map(Into::into),
        };
        assert!(container.is_meant(&by("c1", None, None)) && container.is_meant(&by("train", None, None)));
        assert!(container.is_meant(&by("c1", Some("runc"), Some("/run/runc"))));
        for other in [by("c2", None, None), by("c1", Some("crun"), None), by("c1", None, Some("/run/other"))]
        {
            assert!(!container.is_meant(&other), "{other:?}");
        }
    }

    #[test]
    fn a_habitat_is_written_as_it_always_was_and_a_container_by_its_name() {
        for (kind, text) in [
            (HabitatKind::OwnBox, "false"),
            (HabitatKind::HostTree, "true"),
            (HabitatKind::Container, "\"container\""),
        ] {
            assert_eq!(serde_json::to_string(&kind).unwrap(), text);
            assert_eq!(serde_json::from_str::<HabitatKind>(text).unwrap(), kind);
        }
        serde_json::from_str::<HabitatKind>("\"moon\"").unwrap_err();
    }
}
