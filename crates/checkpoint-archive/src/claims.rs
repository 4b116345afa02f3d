//! What an archive would have liked: mounts, devices, users, hooks and the like that its `spec.dump` and `config.dump` ask for.
//!
//! They are *evidence*. Each engine that made a container of them has had a CVE for it, so nothing here does: a container is made from the
//! specification that lives on the machine, and these are shown to whoever wonders what the archive was about. There is no call that
//! gives them in a form from which something could be made; they are sentences.

use std::fmt;

use serde_json::Value;

use crate::error::shown;

/// More are not listed.
const MOST: usize = 2_000;

/// One thing that an archive asks for, and never gets.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Claim {
    /// Of which sort.
    pub kind: ClaimKind,
    /// Where it stands: `spec.dump /mounts/3`.
    pub place: String,
    /// What it is, made harmless.
    pub text: String,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What sort of thing an archive asks for.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ClaimKind {
            $($(#[$doc])* $variant,)*
        }

        impl ClaimKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// One word.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// A directory of the host, or a volume (CVE-2024-8676).
    Mount = "mount",
    /// A device node, or access to devices.
    Device = "device",
    /// Who the processes are, and who else they are.
    User = "user",
    /// Capabilities, security profiles, limits, kernel settings.
    Right = "right",
    /// A program of the host that is run.
    Hook = "hook",
    /// A note that runtimes and plugins act upon.
    Annotation = "annotation",
    /// A device of the Container Device Interface, also one that an annotation names (CVE-2026-53492).
    Cdi = "cdi",
    /// A path of the host: root file system, control group, namespace, socket, log.
    Path = "path",
    /// The name of an image, which could be that of another one here (CVE-2026-50195).
    Image = "image",
    /// A label, which plugins act upon (CVE-2026-53488).
    Label = "label",
    /// An address, a port, a network.
    Network = "network",
    /// What the first process is called with.
    Command = "command",
}

impl fmt::Display for ClaimKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

use ClaimKind::{Annotation, Cdi, Command, Device, Hook, Image, Label, Mount, Network, Path, Right, User};

/// What `spec.dump` may ask for, where.
const OF_SPEC: &[(&str, ClaimKind)] = &[
    ("/mounts", Mount),
    ("/linux/devices", Device),
    ("/linux/netDevices", Device),
    ("/linux/resources/devices", Device),
    ("/process/user", User),
    ("/linux/uidMappings", User),
    ("/linux/gidMappings", User),
    ("/process/capabilities", Right),
    ("/process/rlimits", Right),
    ("/process/apparmorProfile", Right),
    ("/process/selinuxLabel", Right),
    ("/process/noNewPrivileges", Right),
    ("/process/oomScoreAdj", Right),
    ("/process/scheduler", Right),
    ("/process/ioPriority", Right),
    ("/linux/mountLabel", Right),
    ("/linux/seccomp", Right),
    ("/linux/sysctl", Right),
    ("/linux/personality", Right),
    ("/linux/rootfsPropagation", Right),
    ("/linux/maskedPaths", Right),
    ("/linux/readonlyPaths", Right),
    ("/linux/intelRdt", Right),
    ("/linux/memoryPolicy", Right),
    ("/linux/resources", Right),
    ("/hooks/prestart", Hook),
    ("/hooks/createRuntime", Hook),
    ("/hooks/createContainer", Hook),
    ("/hooks/startContainer", Hook),
    ("/hooks/poststart", Hook),
    ("/hooks/poststop", Hook),
    ("/annotations", Annotation),
    ("/root", Path),
    ("/linux/cgroupsPath", Path),
    ("/linux/namespaces", Path),
    ("/process/cwd", Path),
    ("/process/args", Command),
    ("/process/env", Command),
    ("/hostname", Network),
    ("/domainname", Network),
];

/// What `config.dump` may.
const OF_CONFIG: &[(&str, ClaimKind)] = &[
    ("/mounts", Mount),
    ("/namedVolumes", Mount),
    ("/overlayVolumes", Mount),
    ("/ctrImageVolumes", Mount),
    ("/artifactVolumes", Mount),
    ("/userVolumes", Mount),
    ("/volumes", Mount),
    ("/image_volumes", Mount),
    ("/overlay_volumes", Mount),
    ("/chroot_directories", Mount),
    ("/storageOpts", Mount),
    ("/device_host_src", Device),
    ("/host_device_list", Device),
    ("/mountAllDevices", Device),
    ("/cdiDevices", Cdi),
    ("/gpus", Cdi),
    ("/user", User),
    ("/groups", User),
    ("/HostUsers", User),
    ("/idMappingsOptions", User),
    ("/passwd_entry", User),
    ("/group_entry", User),
    ("/privileged", Right),
    ("/cap_add", Right),
    ("/cap_drop", Right),
    ("/ProcessLabel", Right),
    ("/MountLabel", Right),
    ("/labelopts", Right),
    ("/selinux_opts", Right),
    ("/apparmor_profile", Right),
    ("/seccomp_profile_path", Right),
    ("/no_new_privileges", Right),
    ("/secrets", Path),
    ("/secret_env", Path),
    ("/rootfs", Path),
    ("/rootfs_mapping", Path),
    ("/staticDir", Path),
    ("/secretsPath", Path),
    ("/ShmDir", Path),
    ("/logPath", Path),
    ("/conmonPidFile", Path),
    ("/pid_file", Path),
    ("/sdnotifySocket", Path),
    ("/baseHostsFile", Path),
    ("/cgroupParent", Path),
    ("/ipcNsCtr", Path),
    ("/mountNsCtr", Path),
    ("/netNsCtr", Path),
    ("/pidNsCtr", Path),
    ("/userNsCtr", Path),
    ("/utsNsCtr", Path),
    ("/cgroupNsCtr", Path),
    ("/healthcheck", Hook),
    ("/startupHealthCheck", Hook),
    ("/healthLogDestination", Path),
    ("/rootfsImage", Image),
    ("/rootfsImageID", Image),
    ("/rootfsImageName", Image),
    ("/rootfsImageRef", Image),
    ("/RawImageName", Image),
    ("/labels", Label),
    ("/newPortMappings", Network),
    ("/portMappings", Network),
    ("/orderedNetworks", Network),
    ("/newNetworks", Network),
    ("/networks", Network),
    ("/networkMode", Network),
    ("/network_options", Network),
    ("/dnsServer", Network),
    ("/dnsSearch", Network),
    ("/dnsOption", Network),
    ("/hostsAdd", Network),
    ("/entrypoint", Command),
    ("/command", Command),
];

/// What the two ask for, and what an image around them says.
pub fn claims<'a>(
    spec: &Value,
    config: &Value,
    of_image: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Vec<Claim> {
    let mut found = Found(Vec::new());
    for (root, name, places) in [(spec, "spec.dump", OF_SPEC), (config, "config.dump", OF_CONFIG)] {
        for (place, kind) in places {
            if let Some(value) = root.pointer(place) {
                found.value(*kind, &format!("{name} {place}"), value);
            }
        }
    }
    // podman puts the specification into its own file once more.
    if let Some(again) = config.get("spec").filter(|again| !again.is_null()) {
        for (place, kind) in OF_SPEC {
            if let Some(value) = again.pointer(place) {
                found.value(*kind, &format!("config.dump /spec{place}"), value);
            }
        }
    }
    for (key, value) in of_image {
        found.annotation("manifest /annotations", key, value);
    }
    found.0
}

struct Found(Vec<Claim>);

impl Found {
    fn add(&mut self, kind: ClaimKind, place: String, text: &str) {
        if self.0.len() < MOST {
            self.0.push(Claim { kind, place: shown(place.as_bytes()), text: shown(text.as_bytes()) });
        }
    }

    /// One claim for each element of a list or object, so that each can be seen.
    fn value(&mut self, kind: ClaimKind, place: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(members) if kind == Annotation || kind == Label => {
                for (key, value) in members {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    if kind == Annotation {
                        self.annotation(place, key, &text);
                    } else {
                        self.add(kind, place.to_owned(), &format!("{key}={text}"));
                    }
                }
            }
            Value::Array(list) => {
                for (number, value) in list.iter().enumerate() {
                    self.add(kind, format!("{place}/{number}"), &sentence(value));
                }
            }
            value => self.add(kind, place.to_owned(), &sentence(value)),
        }
    }

    fn annotation(&mut self, place: &str, key: &str, value: &str) {
        let kind = if key.starts_with("cdi.k8s.io/") || key.starts_with("cdi.") { Cdi } else { Annotation };
        self.add(kind, place.to_owned(), &format!("{key}={value}"));
    }
}

/// The first part of a value, in a form that people read.
fn sentence(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) => {
            let parts = members.iter().take(12).map(|(key, value)| match value {
                Value::String(text) => format!("{key}={text}"),
                Value::Array(_) | Value::Object(_) => format!("{key}={}", first(&value.to_string())),
                value => format!("{key}={value}"),
            });
            parts.collect::<Vec<_>>().join(" ")
        }
        value => first(&value.to_string()),
    }
}

fn first(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
