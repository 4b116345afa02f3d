//! The section `session` of a snapshot: what must be known of a session to restore it, beside its images and files.

use std::path::PathBuf;

use api::Network;
use manifest::{Extra, ManifestError, Section, TypedSection};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::habitat::{ContainerRecord, HabitatKind};
use crate::record::{KernelRecord, Record};

/// A session, as it was when the snapshot was taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionSection {
    /// Its id.
    pub session: String,
    /// Its name for people.
    pub name: String,
    /// What it ran, for people.
    pub command: Vec<String>,
    /// Where its command ran.
    pub cwd: PathBuf,
    /// Its own directory, as seen inside.
    pub workspace: PathBuf,
    /// Its network.
    pub network: Network,
    /// Name of the kernelspec, and the ports inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelPorts>,
    /// Where its processes lived.
    #[serde(rename = "attached")]
    pub habitat: HabitatKind,
    /// Which container it was. A restore asks the runtime what it is now, and nobody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<ContainerRecord>,
}

/// A kernel's ports inside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelPorts {
    /// Name of the kernelspec.
    pub spec: String,
    /// In the order of a connection file.
    pub ports: Vec<u16>,
}

impl SessionSection {
    /// What is to be known of it.
    pub fn of(record: &Record) -> Self {
        let ports = |kernel: &KernelRecord| KernelPorts {
            spec: kernel.spec.clone(),
            ports: kernel.inner().collect(),
        };
        Self {
            session: record.id.to_string(),
            name: record.name.clone(),
            command: record.command.clone(),
            cwd: record.cwd.clone(),
            workspace: record.workspace.clone(),
            network: record.network,
            kernel: record.kernel.as_ref().map(ports),
            habitat: record.habitat,
            container: record.container.clone(),
        }
    }
}

impl TypedSection for SessionSection {
    const NAME: &str = "session";
    const VERSION: u32 = 1;

    fn to_section(&self) -> Result<Section, ManifestError> {
        let what = format!("section `{}`", Self::NAME);
        let value = serde_json::to_value(self)
            .map_err(|error| ManifestError::Malformed { what: what.clone(), detail: error.to_string() })?;
        let Value::Object(members) = value else {
            return Err(ManifestError::Malformed { what, detail: "it is not an object".to_owned() });
        };
        Ok(Section {
            name: Self::NAME.to_owned(),
            version: Self::VERSION,
            attributes: members.into_iter().collect(),
            roots: Vec::new(),
            extra: Extra::default(),
        })
    }

    fn read(section: &Section) -> Result<Self, ManifestError> {
        let members = section.attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        serde_json::from_value(Value::Object(members)).map_err(|error| ManifestError::Malformed {
            what: format!("section `{}`", Self::NAME),
            detail: error.to_string(),
        })
    }
}
