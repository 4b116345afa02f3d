//! The management library without its C interface: what it answers, and with which codes.
//!
//! Each call asks the server for the whole machine at that moment and answers out of that: nothing is kept between calls, no
//! channel and no device file. (The real library holds device files from `nvmlInit` to `nvmlShutdown`; drivers from 570 on
//! let go of them when the process is checkpointed.) As with CUDA, a GPU is there for a process if it may open its node.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod facts;
mod library;
mod status;

pub use facts::{clocks, milliwatts, pci_text, temperature};
pub use library::{Device, device, device_at, init, machine, shutdown, with_uuid};
pub(crate) use library::{initialised, set_persistence};
pub use status::{Result, Status};

/// The structures of our C interface: C's name of one, our size of it, C's name of a field, our offset of it.
#[must_use]
pub fn layouts() -> Vec<(&'static str, usize, &'static str, usize)> {
    crate::abi::nvml::layouts()
}

/// What the control socket can make NVML say: `{"do": "nvml", …}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct Settings {
    /// Processes in every list that hold nothing, as real lists have them.
    pub zero_byte_pids: Vec<u32>,
    /// The memory of processes is not told.
    pub memory_unavailable: bool,
    /// Persistence mode by index; on where it is not said.
    pub persistence: BTreeMap<u32, bool>,
    /// MIG instances by index; MIG is off where it is not said.
    pub mig: BTreeMap<u32, u32>,
    /// All processes are clients of the multi-process service.
    pub mps: bool,
    /// All GPUs are linked with each other.
    pub nvlink: bool,
    /// Whether GPUs say that they are in confidential computing mode.
    pub confidential: bool,
    /// No question is answered.
    pub hang: bool,
}

impl Settings {
    /// Changes what the command names; the rest stays.
    pub(crate) fn change(&mut self, command: &Value) -> std::result::Result<(), String> {
        let mut all = serde_json::to_value(&*self).map_err(|cause| cause.to_string())?;
        let (Some(all_keys), Some(new)) = (all.as_object_mut(), command.as_object()) else {
            return Err("not an object".to_owned());
        };
        all_keys.extend(
            new.iter().filter(|(key, _)| *key != "do").map(|(key, value)| (key.clone(), value.clone())),
        );
        *self = serde_json::from_value(all).map_err(|cause| cause.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_command_changes_what_it_names() {
        let mut settings = Settings::default();
        settings.change(&json!({"do": "nvml", "zero-byte-pids": [7], "persistence": {"1": false}})).unwrap();
        settings.change(&json!({"do": "nvml", "mig": {"0": 2}})).unwrap();
        assert_eq!(settings.zero_byte_pids, [7]);
        assert_eq!(settings.persistence.get(&1), Some(&false));
        assert_eq!(settings.mig.get(&0), Some(&2));
        assert!(settings.change(&json!({"do": "nvml", "zero-byte-pid": []})).is_err());
        assert!(settings.change(&json!([])).is_err());
    }
}
