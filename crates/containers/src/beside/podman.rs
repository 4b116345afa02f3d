//! podman: a clone of the first one, which podman makes of its own notes.
//!
//! A clone has no specification until it is prepared, and podman restores nothing that has none. So it is prepared (`init`), which starts nothing of the
//! container's, and stopped again: then it is a container that has ended, as one that was put to sleep. podman has no word for another source of a
//! volume: that is changed in the specification, where podman reads it whenever it restores.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use base::io_error;
use serde::Deserialize;

use super::second::{Made, Second};
use crate::back::{BackError, Podman, Result};
use crate::command::Said;
use crate::container::ContainerId;
use crate::specification::Specification;

/// How long podman may take for one of these.
const LIMIT: Duration = Duration::from_secs(60);
const ACTION: &str = "the making of a second one";
/// Who is in a network of podman's, the default one or one that somebody made by `podman network create`: podman gives a clone an address there, too.
const BRIDGE: &str = "bridge";

/// What it says of a container, as far as it is read.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    id: String,
    #[serde(default, rename = "OCIConfigPath")]
    config: PathBuf,
    #[serde(default)]
    pod: String,
    #[serde(default)]
    graph_driver: Driver,
    #[serde(default)]
    host_config: HostConfig,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    network_mode: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Driver {
    data: Option<BTreeMap<String, String>>,
}

impl Inspected {
    fn place(&self, name: &str) -> Option<&String> {
        self.graph_driver.data.as_ref()?.get(name).filter(|path| !path.is_empty())
    }
}

impl Podman<'_> {
    /// Makes a second one, of this name.
    pub(crate) fn beside(&self, second: &Second<'_>) -> Result<Made> {
        let (name, first) = (second.id.as_str(), self.inspect::<Inspected>(self.id.as_str(), ACTION)?);
        if !first.pod.is_empty() {
            return Err(BackError::NotThisSort {
                container: self.id.to_string(),
                why: "it is part of a pod, whose network a second one would share".to_owned(),
            });
        }
        if first.host_config.network_mode != BRIDGE {
            second.check()?;
        }
        self.done(&["container", "clone", self.id.as_str(), name])?;
        self.done(&["init", name])?;
        self.done(&["stop", "--time", "0", name])?;
        self.done(&["container", "cleanup", name])?;
        let made = self.inspect::<Inspected>(name, ACTION)?;
        // A name can be moved to another image; files of the first one mean nothing on that.
        if made.place("LowerDir") != first.place("LowerDir") {
            return Err(
                self.refused(ACTION, "podman took another image for it than the first one has".to_owned())
            );
        }
        let files = made.place("UpperDir").map(PathBuf::from);
        let files =
            files.ok_or_else(|| self.refused(ACTION, "podman does not say where files are".to_owned()))?;
        let state = |why: &str| BackError::State { path: made.config.clone(), why: why.to_owned() };
        let text = fs::read(&made.config).map_err(io_error("read", &made.config))?;
        let own = Specification::parse(&text).ok_or_else(|| state("it is no specification"))?;
        let json = second.with_volumes(&own)?;
        fs::write(&made.config, json).map_err(io_error("write", &made.config))?;
        let id = ContainerId::new(made.id)
            .ok_or_else(|| self.refused(ACTION, "its id makes no sense".to_owned()))?;
        let bundle = made.config.parent().map(PathBuf::from).unwrap_or_default();
        Ok(Made { id, bundle, files })
    }

    /// Removes a container that was made for a branch; with `force` it is ended first. What is gone needs no removal.
    pub(crate) fn remove_container(&self, force: bool) -> Result<()> {
        let words = ["rm", "--ignore"]
            .into_iter()
            .chain(force.then_some(["--force", "--time", "0"]).into_iter().flatten());
        let words: Vec<&str> = words.chain([self.id.as_str()]).collect();
        match self.ask(&words, LIMIT)? {
            Said::Answer(_) => Ok(()),
            Said::Refused(why) => Err(self.refused("the removal", why)),
        }
    }

    fn done(&self, words: &[&str]) -> Result<Vec<u8>> {
        match self.ask(words, LIMIT)? {
            Said::Answer(said) => Ok(said),
            Said::Refused(why) => Err(self.refused(ACTION, why)),
        }
    }
}
