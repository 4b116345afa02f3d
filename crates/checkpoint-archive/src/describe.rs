//! What our archives say of themselves: the files and annotations by which podman and checkpointctl know what they have.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is known of a container, or of a session, that becomes an archive.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Described {
    /// Its id, 64 hex digits.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The image that it was made of, by name; empty if it was of none.
    pub image: String,
    /// The same by its id.
    pub image_id: String,
    /// The runtime, `runc` or `crun`; empty if it had none.
    pub runtime: String,
    /// When its snapshot was taken, as RFC 3339 has it.
    pub checkpointed: String,
    /// Which engine it belonged to: `podman`, `containerd`; empty if it was none.
    pub engine: String,
    /// Version of CRIU, as `4.2.1`.
    pub criu: String,
    /// `amd64`, `arm64`.
    pub architecture: String,
    /// The kernel's release.
    pub kernel: String,
}

/// Texts of the checkpoint image specification.
const OF_CRIU: &str = "org.criu.checkpoint.";
/// The same in podman's own words, by which it knows an image to restore.
const OF_PODMAN: &str = "io.podman.annotations.checkpoint.";

impl Described {
    /// A `config.dump` for what has none: podman and checkpointctl read these fields.
    pub fn config(&self) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "rootfsImageName": self.image,
            "rootfsImageID": self.image_id,
            "rootfsImageRef": self.image_id,
            "runtime": self.runtime,
            "createdTime": self.checkpointed,
            "checkpointedTime": self.checkpointed,
            "restored": false,
        })
    }

    /// A `spec.dump` for what has none: it names its maker, and asks for nothing.
    pub fn spec(&self) -> Value {
        json!({
            "ociVersion": "1.1.0",
            "annotations": {
                "io.container.manager": "infinijup",
                "io.kubernetes.cri.container-name": self.name,
            },
        })
    }
}

/// What an image with this archive says about itself.
pub fn annotations(of: &Described, version: &str) -> BTreeMap<String, String> {
    // podman writes CRIU's version as one number.
    let mut parts = of.criu.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    let mut part = || parts.next().unwrap_or_default();
    let number = part() * 10_000 + part() * 100 + part();
    let engine = if of.engine.is_empty() { "infinijup" } else { &of.engine };
    let known = [
        (OF_CRIU, "engine.name", engine),
        (OF_CRIU, "engine.version", version),
        (OF_CRIU, "container.name", &of.name),
        (OF_CRIU, "rootfsImageName", &of.image),
        (OF_CRIU, "rootfsImageID", &of.image_id),
        (OF_CRIU, "runtime.name", &of.runtime),
        (OF_CRIU, "criu.version", &of.criu),
        (OF_CRIU, "host.arch", &of.architecture),
        (OF_CRIU, "host.kernel", &of.kernel),
        (OF_PODMAN, "name", &of.name),
        (OF_PODMAN, "rawImageName", &of.image),
        (OF_PODMAN, "rootfsImageName", &of.image),
        (OF_PODMAN, "rootfsImageID", &of.image_id),
        (OF_PODMAN, "runtime.name", &of.runtime),
        (OF_PODMAN, "host.arch", &of.architecture),
        (OF_PODMAN, "host.kernel", &of.kernel),
    ];
    let texts = known.into_iter().filter(|(.., value)| !value.is_empty());
    let mut all: BTreeMap<String, String> =
        texts.map(|(prefix, key, value)| (format!("{prefix}{key}"), value.to_owned())).collect();
    if number > 0 {
        all.insert(format!("{OF_PODMAN}criu.version"), number.to_string());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_say_what_is_known_and_nothing_else() {
        let of = Described {
            name: "web".into(),
            runtime: "runc".into(),
            criu: "4.2.1".into(),
            ..Described::default()
        };
        let all = annotations(&of, "0.1.0");
        assert_eq!(all["org.criu.checkpoint.container.name"], "web");
        assert_eq!(all["org.criu.checkpoint.engine.name"], "infinijup");
        assert_eq!(all["io.podman.annotations.checkpoint.runtime.name"], "runc");
        assert_eq!(all["io.podman.annotations.checkpoint.criu.version"], "40201");
        assert!(!all.contains_key("org.criu.checkpoint.rootfsImageName"));
    }
}
