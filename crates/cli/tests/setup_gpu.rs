//! `setup-gpu`: what it writes and removes, and what it says of it.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{BINARY, Ran, Sandbox};

const FILES: [(&str, u32); 3] = [
    ("etc/systemd/system/infinijup-gpu.socket", 0o644),
    ("etc/systemd/system/infinijup-gpu@.service", 0o644),
    ("usr/libexec/infinijup/infinijup-gpu-helper", 0o755),
];

/// A place where the program has a helper beside it.
fn installation() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("bin/infinijup-gpu-helper", "the helper");
    fs::copy(BINARY, sandbox.path("bin/infinijup")).unwrap();
    sandbox
}

fn run(sandbox: &Sandbox, words: &[&str]) -> Ran {
    Ran::from(
        Command::new(sandbox.path("bin/infinijup"))
            .args(words)
            .current_dir(sandbox.path(""))
            .output()
            .unwrap(),
    )
}

fn ok(sandbox: &Sandbox, words: &[&str]) -> Ran {
    let ran = run(sandbox, words);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran
}

#[test]
fn three_files_come_and_go_and_each_is_named() {
    let sandbox = installation();
    let said = ok(&sandbox, &["setup-gpu", "--root", "image"]);
    let below: Vec<_> = sandbox.files("image").into_keys().collect();
    assert_eq!(below, FILES.map(|(name, _)| sandbox.path("image").join(name)));
    for (name, mode) in FILES {
        let path = sandbox.path("image").join(name);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, mode, "{name}");
        assert!(said.out.contains(&format!("write image/{name} (")), "{}", said.out);
    }
    assert_eq!(said.out.lines().count(), 3, "{}", said.out);
    assert!(said.err.contains("nothing was started"), "{}", said.err);
    assert_eq!(fs::read(sandbox.path("image").join(FILES[2].0)).unwrap(), b"the helper");
    // The unit starts what was copied.
    let unit = fs::read_to_string(sandbox.path("image").join(FILES[1].0)).unwrap();
    assert!(unit.contains(&format!("ExecStart=/{}\n", FILES[2].0)));

    // Once more, over a newer program, whatever the mode of the old one.
    sandbox.write("bin/infinijup-gpu-helper", "the newer helper");
    let said = ok(&sandbox, &["setup-gpu", "--root", "image", "--json"]).json();
    assert_eq!(said[0]["message_type"], "gpu_helper_installed");
    assert_eq!((said[0]["steps"].as_array().unwrap().len(), said[0]["systemd"].as_bool()), (3, Some(false)));
    assert_eq!(fs::read(sandbox.path("image").join(FILES[2].0)).unwrap(), b"the newer helper");

    let said = ok(&sandbox, &["setup-gpu", "--remove", "--root", "image"]);
    assert!(sandbox.files("image").is_empty());
    assert!(!sandbox.path("image/usr/libexec/infinijup").exists());
    assert_eq!(said.out.lines().filter(|line| line.starts_with("remove ")).count(), 4, "{}", said.out);
    let said = ok(&sandbox, &["setup-gpu", "--remove", "--root", "image", "--json"]).json();
    assert_eq!(
        (said[0]["message_type"].as_str(), said[0]["steps"].as_array().unwrap().len()),
        (Some("gpu_helper_removed"), 0)
    );
}

#[test]
fn what_others_put_beside_it_stays() {
    let sandbox = installation();
    ok(&sandbox, &["setup-gpu", "--root", "image"]);
    sandbox.write("image/usr/libexec/infinijup/other", "not ours");
    ok(&sandbox, &["setup-gpu", "--remove", "--root", "image"]);
    assert_eq!(sandbox.files("image").len(), 1);
}

#[test]
fn without_a_helper_beside_it_nothing_is_written() {
    let sandbox = installation();
    fs::remove_file(sandbox.path("bin/infinijup-gpu-helper")).unwrap();
    let ran = run(&sandbox, &["setup-gpu", "--root", "image"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("infinijup-gpu-helper`, which is installed beside this program"), "{}", ran.err);
    assert!(!sandbox.path("image").exists());
}

/// The machine's own directories, in a mount namespace where they are others, with a `systemctl` that writes down what it is told.
#[test]
fn on_the_machine_itself_the_socket_is_started_and_ended() {
    let sandbox = installation();
    if !rustix::process::geteuid().is_root() {
        let ran = run(&sandbox, &["setup-gpu"]);
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(ran.err.contains("sudo infinijup setup-gpu"), "{}", ran.err);
        return;
    }
    sandbox.write("fake/systemctl", "#!/bin/sh\necho \"$*\" >> \"$0.log\"\n");
    fs::set_permissions(sandbox.path("fake/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    let script = "set -e
        for place in /run /etc/systemd /usr/libexec; do mkdir -p $place; mount -t tmpfs none $place; done
        mkdir -p /run/systemd/system
        PATH=$PWD/fake:$PATH
        bin/infinijup setup-gpu
        stat -c '%a %U:%G %n' /usr/libexec/infinijup/* /etc/systemd/system/*
        bin/infinijup setup-gpu --remove
        find /usr/libexec /etc/systemd -type f
        exec setpriv --reuid 61001 --clear-groups bin/infinijup setup-gpu";
    let ran =
        Command::new("unshare").args(["--mount", "sh", "-c", script]).current_dir(sandbox.path("")).output();
    let ran = Ran::from(ran.unwrap());
    let expected = [
        "write /usr/libexec/infinijup/infinijup-gpu-helper",
        "write /etc/systemd/system/infinijup-gpu.socket",
        "write /etc/systemd/system/infinijup-gpu@.service",
        "run systemctl daemon-reload",
        "run systemctl enable infinijup-gpu.socket",
        "run systemctl restart infinijup-gpu.socket",
        "755 root:root /usr/libexec/infinijup/infinijup-gpu-helper",
        "644 root:root /etc/systemd/system/infinijup-gpu.socket",
        "644 root:root /etc/systemd/system/infinijup-gpu@.service",
        "run systemctl disable --now infinijup-gpu.socket",
        "remove /etc/systemd/system/infinijup-gpu.socket",
        "remove /etc/systemd/system/infinijup-gpu@.service",
        "remove /usr/libexec/infinijup/infinijup-gpu-helper",
        "remove /usr/libexec/infinijup",
        "run systemctl daemon-reload",
    ];
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{ran:?}");
    for (line, start) in lines.iter().zip(expected) {
        assert!(line.starts_with(start), "{line}: {start}");
    }
    let told = fs::read_to_string(sandbox.path("fake/systemctl.log")).unwrap();
    let unit = "infinijup-gpu.socket";
    assert_eq!(
        told,
        format!("daemon-reload\nenable {unit}\nrestart {unit}\ndisable --now {unit}\ndaemon-reload\n")
    );
    // The last word is an ordinary user's.
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("error[IJ-C001]: only root can install the GPU helper"), "{}", ran.err);
}
