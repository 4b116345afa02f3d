//! The section `session` of a snapshot: what must be known of a session to restore it, beside its images and files.

use std::path::PathBuf;

use manifest::{Extra, ManifestError, Section, TypedSection};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ports::HabitatKind;
use crate::record::{KernelRecord, Network, Record};

/// A session, as it was when the snapshot was taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct SessionSection {
    pub(crate) session: String,
    pub(crate) name: String,
    pub(crate) command: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) workspace: PathBuf,
    pub(crate) network: Network,
    /// Name of the kernelspec, and the ports inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<KernelPorts>,
    /// Where its processes lived.
    #[serde(rename = "attached")]
    pub(crate) habitat: HabitatKind,
}

/// A kernel's ports inside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KernelPorts {
    pub(crate) spec: String,
    pub(crate) ports: Vec<u16>,
}

impl SessionSection {
    pub(crate) fn of(record: &Record) -> Self {
        let ports = |kernel: &KernelRecord| KernelPorts {
            spec: kernel.spec.clone(),
            ports: kernel.ports.iter().map(|(_, inside)| *inside).collect(),
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
