//! GPU nodes inside boxes. What stands behind them here is the loop device's control node: it opens, and CRIU cannot dump it
//! once it is open, just like a real one.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use sandbox::{DeviceNode, host_nodes, host_nodes_for, settle_devices};

use crate::common::{Scene, can_make_boxes, end, wait_until};

pub(crate) fn nodes(names: &[&str]) -> Vec<DeviceNode> {
    names.iter().map(|name| DeviceNode { name: (*name).to_owned(), major: 10, minor: 237 }).collect()
}

#[test]
fn a_box_has_the_nodes_that_it_was_given_and_may_open_them() {
    if !can_make_boxes("GPU nodes in a box") {
        return;
    }
    let scene = Scene::new();
    let look = "ls /dev | grep nvidia | tr '\\n' ' '; stat -c '%a %t:%T' /dev/nvidia0; exec 3<>/dev/nvidia0 && echo opened";
    let mut spec = scene.spec(&["sh", "-c", look]);
    spec.devices = nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"]);
    let (status, log) = scene.run(&spec);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(log, "nvidia-uvm nvidia0 nvidiactl 666 a:ed\nopened\n");
}

#[test]
fn a_box_without_gpus_has_none_and_no_other_device_can_be_asked_for() {
    if !can_make_boxes("a box without GPU nodes") {
        return;
    }
    let scene = Scene::new();
    let (_, log) = scene.run(&scene.spec(&["sh", "-c", "ls /dev | grep -c nvidia"]));
    assert_eq!(log, "0\n");
    let mut spec = scene.spec(&["true"]);
    spec.devices = vec![DeviceNode { name: "sda".to_owned(), major: 8, minor: 0 }];
    let refused = scene.launch(&spec).expect_err("a disk is not for a box");
    assert_eq!(refused.code(), "IJ-B005", "{refused}");
}

#[test]
fn a_node_that_is_closed_to_a_user_is_not_for_their_box() {
    if !can_make_boxes("GPU nodes that are closed to a user") {
        return;
    }
    let scene = Scene::new();
    let dev = scene.path("dev");
    fs::create_dir(&dev).expect("a directory");
    for (name, mode) in [("nvidia0", 0o666), ("nvidia1", 0o660), ("nvidia-modeset", 0o666)] {
        let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(mode));
        let number = rustix::fs::makedev(10, 237);
        rustix::fs::mknodat(rustix::fs::CWD, dev.join(name), kind, mode, number).expect("a node");
        rustix::fs::chmod(dev.join(name), mode).expect("its mode");
    }
    fs::set_permissions(scene.path(""), fs::Permissions::from_mode(0o711)).expect("a way to it");
    assert_eq!(host_nodes(&dev), nodes(&["nvidia0", "nvidia1"]));
    assert_eq!(host_nodes_for(&dev, &scene.user).expect("they are asked"), nodes(&["nvidia0"]));
}

#[test]
fn the_nodes_of_a_running_box_are_made_what_they_should_be() {
    if !can_make_boxes("settled GPU nodes") {
        return;
    }
    let scene = Scene::new();
    let mut spec = scene.spec(&["sleep", "1000"]);
    spec.devices = nodes(&["nvidia0", "nvidia1", "nvidiactl"]);
    let launched = scene.launch(&spec).expect("the box starts");
    let dev = PathBuf::from(format!("/proc/{}/root/dev", launched.init.pid));
    wait_until("the box is up", || dev.join("nvidia0").exists());

    // one too many, one with a wrong number, one that is a link out of the box, one that is no device
    let victim = scene.path("victim");
    fs::write(&victim, "").expect("a file");
    let mode = fs::metadata(&victim).expect("it is there").mode();
    fs::remove_file(dev.join("nvidia0")).expect("root may");
    symlink(&victim, dev.join("nvidia0")).expect("a link");
    symlink(&victim, dev.join("nvidia-uvm")).expect("a link");
    fs::create_dir(dev.join("nvidia-caps")).expect("a directory");
    let mut wanted = nodes(&["nvidia-uvm", "nvidia0", "nvidia2"]);
    wanted.push(DeviceNode { name: "nvidiactl".to_owned(), major: 1, minor: 3 });
    settle_devices(launched.init.pid, &wanted).expect("they are settled");

    assert_eq!(host_nodes(&dev), wanted);
    assert!(!dev.join("nvidia-caps").exists() && !dev.join("nvidia1").exists());
    for node in &wanted {
        let found = fs::symlink_metadata(dev.join(&node.name)).expect("it is there");
        assert!(found.file_type().is_char_device() && found.mode() & 0o777 == 0o666, "{node:?}");
    }
    assert_eq!(fs::metadata(&victim).expect("it is there").mode(), mode, "no link was followed");
    assert!(dev.join("null").exists() && dev.join("shm").exists(), "the rest is left alone");

    settle_devices(launched.init.pid, &wanted).expect("a second time changes nothing");
    assert_eq!(host_nodes(&dev), wanted);
    settle_devices(launched.init.pid, &[]).expect("and all may go");
    assert_eq!(host_nodes(&dev), []);
    end(&launched);
}
