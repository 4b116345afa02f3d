//! One test for each thing that an archive can try.

use checkpoint_archive::tar::{Entry, Kind, TarWriter};
use checkpoint_archive::{ClaimKind, Limits};
use serde_json::{Value, json};

use crate::{archive, archive_of, config, file, read, read_with, spec};

#[track_caller]
fn refused(code: &str, bytes: &[u8]) {
    match read(bytes) {
        Ok((found, _)) => panic!("it was read: {found:?}"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

fn entry(path: &str, kind: Kind) -> (Entry, Vec<u8>) {
    (Entry::new(path, kind, 0o600), Vec::new())
}

/// The claims of an archive with this specification and configuration. What is claimed does not change what is read.
fn claims(spec: &Value, config: &Value) -> Vec<(ClaimKind, String)> {
    let (found, kept) = read(&archive_of(spec, config, &[])).unwrap();
    let (plain, _) = read(&archive(&[])).unwrap();
    assert_eq!(found.members.keys().collect::<Vec<_>>(), plain.members.keys().collect::<Vec<_>>());
    assert_eq!(kept.0.len(), 3, "{:?}", kept.0.keys());
    found.claims().into_iter().map(|claim| (claim.kind, claim.text)).collect()
}

#[track_caller]
fn only_claimed(kind: ClaimKind, words: &str, spec: &Value, config: &Value) {
    let found = claims(spec, config);
    assert!(
        found.iter().any(|(of, text)| *of == kind && text.contains(words)),
        "no {kind} {words}: {found:?}"
    );
}

// ---- names ----

#[test]
fn names_that_lead_elsewhere() {
    for path in ["/etc/passwd", "../x", "checkpoint/../../x", "checkpoint/../config.dump", "checkpoint//x"] {
        refused("IJ-A021", &archive(&[file(path, "x")]));
    }
    for path in ["/", "../", "checkpoint/../..", "etc", "checkpoint/sub"] {
        refused("IJ-A021", &archive(&[entry(path, Kind::Directory)]));
    }
}

#[test]
fn names_of_images_and_volumes_are_plain() {
    for path in [
        "checkpoint/a b",
        "checkpoint/\u{202e}gmi",
        "checkpoint/-x",
        "volumes/a/b.tar",
        "volumes/x",
        "etc/cron.d",
    ] {
        refused("IJ-A021", &archive(&[file(path, "x")]));
    }
    let long = format!("checkpoint/{}", "x".repeat(5000));
    refused("IJ-A021", &archive(&[file(&long, "x")]));
}

// ---- kinds ----

#[test]
fn links_and_devices() {
    for kind in [
        Kind::Symlink(b"/etc/shadow".to_vec()),
        Kind::HardLink(b"config.dump".to_vec()),
        Kind::HardLink(b"/etc/shadow".to_vec()),
        Kind::Char(1, 1),
        Kind::Char(0, 0),
        Kind::Block(8, 0),
        Kind::Fifo,
    ] {
        for path in ["checkpoint/core-1.img", "ctr.log", "rootfs-diff.tar", "unknown", "volumes"] {
            refused("IJ-A022", &archive(&[entry(path, kind.clone())]));
        }
    }
}

/// A dump that says where its parent is: CRIU would follow it.
#[test]
fn a_parent_of_images() {
    refused("IJ-A022", &archive(&[entry("checkpoint/parent", Kind::Symlink(b"../pre-checkpoint".to_vec()))]));
}

/// containerd read the log and others through links in the archive, as root (CVE-2026-53489).
#[test]
fn cve_2026_53489_a_log_that_is_a_link_to_a_file_of_the_host() {
    for path in ["container.log", "ctr.log", "status", "spec.dump"] {
        refused("IJ-A022", &archive(&[entry(path, Kind::Symlink(b"/etc/shadow".to_vec()))]));
    }
    // And in two steps: a directory that is a link, then a file in it.
    refused(
        "IJ-A022",
        &archive(&[entry("artifacts", Kind::Symlink(b"/etc".to_vec())), file("artifacts/cron.d", "x")]),
    );
}

// ---- the same twice ----

#[test]
fn members_that_are_there_twice() {
    for path in ["config.dump", "./config.dump", "spec.dump", "checkpoint/inventory.img"] {
        refused("IJ-A023", &archive(&[file(path, "{}")]));
    }
    refused("IJ-A023", &archive(&[file("x", "1"), file("x", "2")]));
}

#[test]
fn json_with_two_meanings() {
    refused("IJ-A012", &archive(&[file("network.status", r#"{"a":1,"a":2}"#)]));
    let mut tar = TarWriter::new(Vec::new());
    let text = br#"{"mounts":[],"mounts":[{"source":"/"}]}"#;
    tar.put(&Entry::file("spec.dump", text.len() as u64), &mut &text[..]).unwrap();
    refused("IJ-A012", &tar.finish().unwrap());
    refused("IJ-A012", &archive(&[file("network.status", "[".repeat(1000))]));
    refused("IJ-A012", &archive_of(&json!([]), &config(), &[]));
    refused("IJ-A012", &archive_of(&spec(), &json!("x"), &[]));
}

// ---- how much ----

#[test]
fn too_much_of_anything() {
    let many: Vec<_> = (0..20).map(|number| file(&format!("checkpoint/core-{number}.img"), "x")).collect();
    let bytes = archive(&many);
    let over = |limits: Limits, what: &str| {
        let error = read_with(&bytes, &limits).unwrap_err();
        assert_eq!(error.code(), "IJ-A020", "{error}");
        assert!(error.to_string().contains(what), "{error}");
    };
    over(Limits { members: 20, ..Limits::default() }, "members");
    over(Limits { json: 10, ..Limits::default() }, "JSON");
    over(Limits { bytes: Some(4096), ..Limits::default() }, "bytes");
    read_with(&bytes, &Limits { members: 24, bytes: Some(bytes.len() as u64), ..Limits::default() }).unwrap();
    let log = archive(&[file("ctr.log", "x".repeat(100))]);
    let error = read_with(&log, &Limits { log: 99, ..Limits::default() }).unwrap_err();
    assert_eq!(error.code(), "IJ-A020");
}

/// A member says that it has more bytes than the file: nothing is allocated for it.
#[test]
fn a_size_that_is_a_lie() {
    let mut tar = TarWriter::new(Vec::new());
    tar.put(&Entry::file("config.dump", 2), &mut &b"{}"[..]).unwrap();
    let mut bytes = tar.finish().unwrap();
    let spec = Entry::file("spec.dump", (1 << 62) + 7);
    let mut lie = TarWriter::new(Vec::new());
    // The header is written before the content is missed.
    lie.put(&spec, &mut &b""[..]).unwrap_err();
    bytes.truncate(1024);
    bytes.extend(header_of(&spec));
    let error = read(&bytes).unwrap_err();
    assert_eq!(error.code(), "IJ-A020", "{error}");
    let image = Entry::file("checkpoint/pages-1.img", (1 << 62) + 7);
    bytes.truncate(1024);
    bytes.extend(header_of(&image));
    let error = read(&bytes).unwrap_err();
    assert_eq!(error.code(), "IJ-A010", "{error}");
}

fn header_of(entry: &Entry) -> Vec<u8> {
    let mut out = Vec::new();
    TarWriter::new(&mut out).put(entry, &mut &b""[..]).unwrap_err();
    out
}

// ---- what can be read in two ways ----

#[test]
fn something_behind_the_end() {
    let mut bytes = archive(&[]);
    bytes.extend(archive(&[]));
    refused("IJ-A010", &bytes);
    let mut padded = archive(&[]);
    padded.extend([0; 8192]);
    read(&padded).unwrap();
}

#[test]
fn global_records_and_sparse_files() {
    for kind in [b'g', b'S', b'7', b'D', b'V'] {
        let mut bytes = archive(&[]);
        bytes.truncate(bytes.len() - 1024);
        let mut header = TarWriter::new(Vec::new());
        header.entry(&Entry::new("x", Kind::Fifo, 0)).unwrap();
        let mut block = header.finish().unwrap()[..512].to_vec();
        let sum = |block: &[u8]| -> u32 { block.iter().map(|byte| u32::from(*byte)).sum() };
        block[156] = kind;
        block[148..156].fill(b' ');
        let checksum = format!("{:06o}\0 ", sum(&block));
        block[148..156].copy_from_slice(checksum.as_bytes());
        bytes.extend(block);
        bytes.extend([0; 1024]);
        refused("IJ-A022", &bytes);
    }
}

// ---- what is said about the container ----

/// CRI-O mounted what the archive's specification listed (CVE-2024-8676).
#[test]
fn cve_2024_8676_mounts_of_the_host() {
    let spec = json!({ "mounts": [{ "destination": "/host", "source": "/", "type": "bind", "options": ["rbind", "rw"] }] });
    only_claimed(ClaimKind::Mount, "source=/", &spec, &config());
    let config = json!({ "name": "x", "namedVolumes": [{ "volumeName": "secrets", "dest": "/s" }], "mounts": ["/etc"] });
    only_claimed(ClaimKind::Mount, "secrets", &json!({}), &config);
}

/// containerd kept CDI annotations of the archive, and so gave it devices that nobody had granted (CVE-2026-53492).
#[test]
fn cve_2026_53492_devices_by_annotation() {
    let spec = json!({ "annotations": { "cdi.k8s.io/devices": "nvidia.com/gpu=all" } });
    only_claimed(ClaimKind::Cdi, "nvidia.com/gpu=all", &spec, &config());
    let config = json!({ "name": "x", "cdiDevices": ["vendor.com/disk=0"], "gpus": ["all"] });
    only_claimed(ClaimKind::Cdi, "vendor.com/disk=0", &json!({}), &config);
}

/// containerd let the archive say what an image is called here (CVE-2026-50195). A name of ours is given by whoever imports, and by nobody else.
#[test]
fn cve_2026_50195_names_of_images() {
    let config = json!({ "name": "x", "rootfsImageName": "docker.io/library/postgres:16", "rootfsImageRef": "sha256:00" });
    only_claimed(ClaimKind::Image, "postgres:16", &json!({}), &config);
}

/// containerd passed labels of an image on to plugins that run programs (CVE-2026-53488).
#[test]
fn cve_2026_53488_labels() {
    let config =
        json!({ "name": "x", "labels": { "containerd.io/restart.loguri": "binary:///bin/sh?-c=id" } });
    only_claimed(ClaimKind::Label, "binary:///bin/sh", &json!({}), &config);
}

#[test]
fn devices_users_hooks_annotations_and_paths() {
    for (kind, words, spec) in [
        (
            ClaimKind::Device,
            "/dev/mem",
            json!({ "linux": { "devices": [{ "path": "/dev/mem", "type": "c", "major": 1 }] } }),
        ),
        (
            ClaimKind::Device,
            "allow=true",
            json!({ "linux": { "resources": { "devices": [{ "allow": true, "access": "rwm" }] } } }),
        ),
        (
            ClaimKind::User,
            "uid=0",
            json!({ "process": { "user": { "uid": 0, "gid": 0, "additionalGids": [0, 6] } } }),
        ),
        (
            ClaimKind::User,
            "containerID=0",
            json!({ "linux": { "uidMappings": [{ "containerID": 0, "hostID": 0, "size": 1 }] } }),
        ),
        (
            ClaimKind::Hook,
            "/bin/sh",
            json!({ "hooks": { "prestart": [{ "path": "/bin/sh", "args": ["sh", "-c", "id"] }] } }),
        ),
        (ClaimKind::Hook, "/bin/sh", json!({ "hooks": { "createRuntime": [{ "path": "/bin/sh" }] } })),
        (ClaimKind::Hook, "/bin/sh", json!({ "hooks": { "poststop": [{ "path": "/bin/sh" }] } })),
        (
            ClaimKind::Annotation,
            "org.criu.config=/tmp/evil",
            json!({ "annotations": { "org.criu.config": "/tmp/evil" } }),
        ),
        (
            ClaimKind::Annotation,
            "run.oci",
            json!({ "annotations": { "run.oci.hooks.stdout": "/etc/passwd" } }),
        ),
        (ClaimKind::Path, "path=/", json!({ "root": { "path": "/", "readonly": false } })),
        (
            ClaimKind::Path,
            "/proc/1/ns/mnt",
            json!({ "linux": { "namespaces": [{ "type": "mount", "path": "/proc/1/ns/mnt" }] } }),
        ),
        (ClaimKind::Path, "/system.slice", json!({ "linux": { "cgroupsPath": "/system.slice" } })),
        (
            ClaimKind::Right,
            "CAP_SYS_ADMIN",
            json!({ "process": { "capabilities": { "effective": ["CAP_SYS_ADMIN"] } } }),
        ),
        (
            ClaimKind::Right,
            "SCMP_ACT_ALLOW",
            json!({ "linux": { "seccomp": { "defaultAction": "SCMP_ACT_ALLOW" } } }),
        ),
        (
            ClaimKind::Right,
            "core_pattern",
            json!({ "linux": { "sysctl": { "kernel.core_pattern": "|/bin/sh" } } }),
        ),
        (ClaimKind::Command, "LD_PRELOAD=/x", json!({ "process": { "env": ["LD_PRELOAD=/x"] } })),
    ] {
        only_claimed(kind, words, &spec, &config());
        // podman keeps the specification within its own file as well.
        let config = json!({ "name": "x", "spec": spec });
        only_claimed(kind, words, &json!({}), &config);
    }
    for (kind, words, config) in [
        (ClaimKind::User, "root", json!({ "user": "root" })),
        (ClaimKind::Right, "true", json!({ "privileged": true })),
        (ClaimKind::Path, "/etc", json!({ "staticDir": "/etc" })),
        (ClaimKind::Path, "/etc/shadow", json!({ "logPath": "/etc/shadow" })),
        (ClaimKind::Path, "/etc/cron.d/x", json!({ "conmonPidFile": "/etc/cron.d/x" })),
        (ClaimKind::Path, "/", json!({ "rootfs": "/" })),
        (ClaimKind::Path, "key", json!({ "secrets": [{ "name": "key" }] })),
        (ClaimKind::Hook, "CMD-SHELL", json!({ "healthcheck": { "Test": ["CMD-SHELL", "id"] } })),
        (ClaimKind::Network, "22", json!({ "newPortMappings": [{ "host_port": 22 }] })),
        (ClaimKind::Device, "/dev/sda", json!({ "device_host_src": [{ "path": "/dev/sda" }] })),
    ] {
        only_claimed(kind, words, &json!({}), &config);
    }
}

#[test]
fn removed_files_are_in_the_container() {
    for path in ["../etc/shadow", "/../etc/shadow", "/a/../../etc", "", "/"] {
        let text = json!([path]).to_string();
        refused("IJ-A021", &archive(&[file("deleted.files", text)]));
    }
    for text in [r#"{"a":1}"#, "[1]", "[null]"] {
        refused("IJ-A012", &archive(&[file("deleted.files", text)]));
    }
}

#[test]
fn archives_of_something_else() {
    refused("IJ-A002", &archive(&[file("pod.dump", "x")]));
    refused("IJ-A002", &archive(&[file("pre-checkpoint/pages-1.img", "x")]));
}
