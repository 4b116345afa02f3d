//! What archives ask for is told, wherever it stands.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::*;

fn of(spec: &Value, config: &Value) -> Vec<(ClaimKind, String)> {
    let found = claims(spec, config, &BTreeMap::new());
    found.into_iter().map(|claim| (claim.kind, claim.text)).collect()
}

/// What is forged in one place, of which sort it is, and what is told of it.
type Forged = (&'static str, Value, ClaimKind, &'static str);

/// Everything that `spec.dump` can ask for: the OCI runtime specification, each place once at least.
fn forged_in_spec() -> Vec<Forged> {
    vec![
        // CVE-2024-8676
        (
            "/mounts",
            json!([{ "destination": "/host", "source": "/", "options": ["rbind"] }]),
            Mount,
            "source=/",
        ),
        (
            "/linux/devices",
            json!([{ "path": "/dev/mem", "type": "c", "major": 1, "minor": 1 }]),
            Device,
            "/dev/mem",
        ),
        ("/linux/netDevices", json!({ "eth0": { "name": "mine" } }), Device, "eth0"),
        ("/linux/resources/devices", json!([{ "allow": true, "access": "rwm" }]), Device, "allow=true"),
        ("/process/user", json!({ "uid": 0, "gid": 0, "additionalGids": [6] }), User, "additionalGids=[6]"),
        ("/linux/uidMappings", json!([{ "containerID": 0, "hostID": 0, "size": 1 }]), User, "hostID=0"),
        ("/linux/gidMappings", json!([{ "containerID": 7, "hostID": 0, "size": 1 }]), User, "containerID=7"),
        ("/process/capabilities", json!({ "bounding": ["CAP_SYS_ADMIN"] }), Right, "CAP_SYS_ADMIN"),
        ("/process/rlimits", json!([{ "type": "RLIMIT_NPROC", "hard": 99 }]), Right, "hard=99"),
        ("/process/apparmorProfile", json!("unconfined"), Right, "unconfined"),
        ("/process/selinuxLabel", json!("system_u:system_r:spc_t:s0"), Right, "spc_t"),
        ("/process/noNewPrivileges", json!(false), Right, "false"),
        ("/process/oomScoreAdj", json!(-1000), Right, "-1000"),
        ("/process/scheduler", json!({ "policy": "SCHED_FIFO", "priority": 99 }), Right, "SCHED_FIFO"),
        ("/process/ioPriority", json!({ "class": "IOPRIO_CLASS_RT" }), Right, "IOPRIO_CLASS_RT"),
        ("/linux/mountLabel", json!("system_u:object_r:etc_t:s0"), Right, "etc_t"),
        ("/linux/seccomp", json!({ "defaultAction": "SCMP_ACT_ALLOW" }), Right, "SCMP_ACT_ALLOW"),
        ("/linux/sysctl", json!({ "kernel.core_pattern": "|/bin/sh" }), Right, "core_pattern=|/bin/sh"),
        ("/linux/personality", json!({ "domain": "LINUX32" }), Right, "LINUX32"),
        ("/linux/rootfsPropagation", json!("rshared"), Right, "rshared"),
        ("/linux/maskedPaths", json!(["/proc/only-this"]), Right, "/proc/only-this"),
        ("/linux/readonlyPaths", json!(["/proc/only-that"]), Right, "/proc/only-that"),
        ("/linux/intelRdt", json!({ "closID": "of-another" }), Right, "of-another"),
        ("/linux/memoryPolicy", json!({ "mode": "MPOL_BIND" }), Right, "MPOL_BIND"),
        ("/linux/resources", json!({ "pids": { "limit": -1 } }), Right, "limit"),
        ("/hooks/prestart", json!([{ "path": "/bin/sh-1" }]), Hook, "/bin/sh-1"),
        ("/hooks/createRuntime", json!([{ "path": "/bin/sh-2" }]), Hook, "/bin/sh-2"),
        ("/hooks/createContainer", json!([{ "path": "/bin/sh-3" }]), Hook, "/bin/sh-3"),
        ("/hooks/startContainer", json!([{ "path": "/bin/sh-4" }]), Hook, "/bin/sh-4"),
        ("/hooks/poststart", json!([{ "path": "/bin/sh-5" }]), Hook, "/bin/sh-5"),
        ("/hooks/poststop", json!([{ "path": "/bin/sh-6" }]), Hook, "/bin/sh-6"),
        ("/annotations", json!({ "org.criu.config": "/tmp/evil" }), Annotation, "org.criu.config=/tmp/evil"),
        // CVE-2026-53492
        ("/annotations", json!({ "cdi.k8s.io/x": "nvidia.com/gpu=all" }), Cdi, "nvidia.com/gpu=all"),
        ("/root", json!({ "path": "/", "readonly": false }), Path, "path=/"),
        ("/linux/cgroupsPath", json!("/system.slice"), Path, "/system.slice"),
        ("/linux/namespaces", json!([{ "type": "mount", "path": "/proc/1/ns/mnt" }]), Path, "/proc/1/ns/mnt"),
        ("/process/cwd", json!("/proc/self/fd/8"), Path, "/proc/self/fd/8"),
        ("/process/args", json!(["/bin/other"]), Command, "/bin/other"),
        ("/process/env", json!(["LD_PRELOAD=/x"]), Command, "LD_PRELOAD=/x"),
        ("/hostname", json!("somebody-else"), Network, "somebody-else"),
        ("/domainname", json!("other.example"), Network, "other.example"),
    ]
}

/// The same for `config.dump`, which is podman's, CRI-O's or containerd's own.
fn forged_in_config() -> Vec<Forged> {
    let of_kind = |kind: ClaimKind, places: &[&'static str]| -> Vec<Forged> {
        let forged = |place: &&'static str| match kind {
            Label => (*place, json!({ "key": "/host/evil" }), kind, "key=/host/evil"),
            _ => (*place, json!(["/host/evil"]), kind, "/host/evil"),
        };
        places.iter().map(forged).collect()
    };
    let mounts = [
        "/mounts",
        "/namedVolumes",
        "/overlayVolumes",
        "/ctrImageVolumes",
        "/artifactVolumes",
        "/userVolumes",
        "/volumes",
        "/image_volumes",
        "/overlay_volumes",
        "/chroot_directories",
        "/storageOpts",
    ];
    let users = ["/user", "/groups", "/HostUsers", "/idMappingsOptions", "/passwd_entry", "/group_entry"];
    let rights = [
        "/privileged",
        "/cap_add",
        "/cap_drop",
        "/ProcessLabel",
        "/MountLabel",
        "/labelopts",
        "/selinux_opts",
        "/apparmor_profile",
        "/seccomp_profile_path",
        "/no_new_privileges",
    ];
    let paths = [
        "/secrets",
        "/secret_env",
        "/rootfs",
        "/rootfs_mapping",
        "/staticDir",
        "/secretsPath",
        "/ShmDir",
        "/logPath",
        "/conmonPidFile",
        "/pid_file",
        "/sdnotifySocket",
        "/baseHostsFile",
        "/cgroupParent",
        "/ipcNsCtr",
        "/mountNsCtr",
        "/netNsCtr",
        "/pidNsCtr",
        "/userNsCtr",
        "/utsNsCtr",
        "/cgroupNsCtr",
        "/healthLogDestination",
    ];
    let networks = [
        "/newPortMappings",
        "/portMappings",
        "/orderedNetworks",
        "/newNetworks",
        "/networks",
        "/networkMode",
        "/network_options",
        "/dnsServer",
        "/dnsSearch",
        "/dnsOption",
        "/hostsAdd",
    ];
    // CVE-2026-50195: what an image is called, and by which digest.
    let images = ["/rootfsImage", "/rootfsImageID", "/rootfsImageName", "/rootfsImageRef", "/RawImageName"];
    [
        of_kind(Mount, &mounts),
        of_kind(Device, &["/device_host_src", "/host_device_list", "/mountAllDevices"]),
        of_kind(Cdi, &["/cdiDevices", "/gpus"]),
        of_kind(User, &users),
        of_kind(Right, &rights),
        of_kind(Path, &paths),
        of_kind(Hook, &["/healthcheck", "/startupHealthCheck"]),
        of_kind(Image, &images),
        // CVE-2026-53488
        of_kind(Label, &["/labels"]),
        of_kind(Network, &networks),
        of_kind(Command, &["/entrypoint", "/command"]),
    ]
    .concat()
}

/// An object with this value at a place and nothing else.
fn with(place: &str, value: &Value) -> Value {
    let parts = place.rsplit('/').filter(|part| !part.is_empty());
    parts.fold(value.clone(), |whole, part| json!({ part: whole }))
}

#[track_caller]
fn told(spec: &Value, config: &Value, (place, _, kind, words): &Forged, file: &str) {
    let found = claims(spec, config, &BTreeMap::new());
    let at = format!("{file}{place}");
    let is_it = |claim: &Claim| {
        claim.kind == *kind
            && claim.text.contains(words)
            && (claim.place == at || claim.place.starts_with(&format!("{at}/")))
    };
    assert!(found.iter().any(is_it), "{at}, {words}: {found:?}");
}

#[test]
fn everything_that_can_be_forged_is_told_and_no_place_is_forgotten() {
    for forged in forged_in_spec() {
        let spec = with(forged.0, &forged.1);
        told(&spec, &json!({}), &forged, "spec.dump ");
        // podman has the specification in its own file once more.
        told(&json!({}), &json!({ "spec": spec }), &forged, "config.dump /spec");
    }
    for forged in forged_in_config() {
        told(&json!({}), &with(forged.0, &forged.1), &forged, "config.dump ");
    }
    for (places, forged) in [(OF_SPEC, forged_in_spec()), (OF_CONFIG, forged_in_config())] {
        let known: BTreeSet<&str> = places.iter().map(|(place, _)| *place).collect();
        assert_eq!(known, forged.iter().map(|(place, ..)| *place).collect());
        assert_eq!(known.len(), places.len(), "each place once");
    }
    let kinds: BTreeSet<ClaimKind> =
        forged_in_spec().into_iter().chain(forged_in_config()).map(|(_, _, kind, _)| kind).collect();
    assert_eq!(kinds.len(), ClaimKind::ALL.len(), "each sort is forged");
}

#[test]
fn a_device_in_an_annotation_is_called_one() {
    let spec =
        json!({ "annotations": { "cdi.k8s.io/x": "nvidia.com/gpu=all", "io.container.manager": "libpod" } });
    let found = of(&spec, &json!({}));
    assert_eq!(found[0], (Cdi, "cdi.k8s.io/x=nvidia.com/gpu=all".to_owned()));
    assert_eq!(found[1].0, Annotation);
    let image = BTreeMap::from([("cdi.k8s.io/y".to_owned(), "v".to_owned())]);
    assert_eq!(claims(&json!({}), &json!({}), &image)[0].kind, Cdi);
}

#[test]
fn there_are_only_so_many_and_each_is_short() {
    let list: Vec<Value> = (0..5000).map(|_| json!({ "source": "\u{1b}[31m/".repeat(1000) })).collect();
    let found = claims(&json!({ "mounts": list }), &json!({}), &BTreeMap::new());
    assert_eq!(found.len(), MOST);
    assert!(found.iter().all(|claim| claim.text.len() < 2000 && !claim.text.contains('\u{1b}')));
}
