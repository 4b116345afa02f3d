//! GPU nodes inside boxes. What stands behind them here is the loop device's control node: it opens, and CRIU cannot dump it
//! once it is open, just like a real one.

use std::fs;

use sandbox::{DeviceNode, as_user, host_nodes, usable_nodes};

use crate::common::{Scene, can_make_boxes, open_to_all};

/// A machine with GPUs, for the box alone: a `/dev` in a mount namespace of its own.
pub(crate) const MACHINE_WITH_GPUS: &str = "\
mount -t tmpfs -o mode=755 none /dev
while read -r name major minor; do mknod -m 666 \"/dev/$name\" c \"$major\" \"$minor\"; done <<END
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
nvidia0 10 237
nvidia1 10 237
nvidiactl 10 237
nvidia-uvm 10 237
END
";

pub(crate) fn nodes(names: &[&str]) -> Vec<DeviceNode> {
    names.iter().map(|name| DeviceNode { name: (*name).to_owned(), major: 10, minor: 237 }).collect()
}

#[test]
fn a_box_has_the_nodes_that_it_was_given_and_may_open_them() {
    if !can_make_boxes("GPU nodes in a box") {
        return;
    }
    let scene = Scene::on_machine(MACHINE_WITH_GPUS);
    let look = "ls /dev | grep nvidia | tr '\\n' ' '; stat -c '%a %t:%T' /dev/nvidia0; exec 3<>/dev/nvidia0 && echo opened";
    let mut spec = scene.spec(&["sh", "-c", look]);
    spec.devices = nodes(&["nvidia0", "nvidiactl", "nvidia-uvm"]);
    let (status, log) = scene.run(&spec);
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(log, "nvidia-uvm nvidia0 nvidiactl 666 a:ed\nopened\n");

    // A number that was true before the machine was started again is not.
    let mut spec = scene.spec(&["true"]);
    spec.devices = vec![DeviceNode { name: "nvidia0".to_owned(), major: 195, minor: 0 }];
    let refused = scene.launch(&spec).expect_err("it is another device").to_string();
    assert!(refused.contains("/dev/nvidia0") && refused.contains("195:0"), "{refused}");
}

#[test]
fn a_box_without_gpus_has_none_and_no_other_device_can_be_asked_for() {
    if !can_make_boxes("a box without GPU nodes") {
        return;
    }
    let scene = Scene::on_machine(MACHINE_WITH_GPUS);
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
    open_to_all(&dev);
    for (name, mode) in [("nvidia0", 0o666), ("nvidia1", 0o660), ("nvidia-modeset", 0o666)] {
        let (kind, mode) = (rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::from_raw_mode(mode));
        let number = rustix::fs::makedev(10, 237);
        rustix::fs::mknodat(rustix::fs::CWD, dev.join(name), kind, mode, number).expect("a node");
        rustix::fs::chmod(dev.join(name), mode).expect("its mode");
    }
    assert_eq!(host_nodes(&dev), nodes(&["nvidia0", "nvidia1"]));
    assert_eq!(as_user(&scene.user, || usable_nodes(&dev)).expect("they are asked"), nodes(&["nvidia0"]));
    assert_eq!(usable_nodes(&dev), nodes(&["nvidia0", "nvidia1"]), "root may open both");
}
