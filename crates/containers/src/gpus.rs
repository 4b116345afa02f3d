//! The GPUs that a container was given, whether or not something in it uses them.
//!
//! By its specification (`linux.devices`, mounts of `/dev/nvidia*`), by what the device cgroup of version 1 allows, and by the hook or the
//! mounts of NVIDIA's container toolkit. Version 2 has a program of the kernel's instead of a list, which nobody can read.

use base::proc;
use gpu_detect::{Report, Strategy};

use crate::container::Container;
use crate::finding::{Finding, Topic};

/// NVIDIA's devices have this major number; nvidia-uvm's and others' are given out when the driver is loaded.
const NVIDIA: u32 = 195;
/// What the toolkit bind-mounts or reads.
const NODES: [&str; 2] = ["/dev/nvidia", "/dev/dri/"];

/// What says that it was given GPUs, a line each.
pub(crate) fn granted(container: &Container, init: i32) -> Vec<String> {
    let mut found = Vec::new();
    let is_node = |path: &std::path::Path| NODES.iter().any(|node| path.to_string_lossy().starts_with(node));
    for device in container.specification.devices().iter().filter(|device| is_node(&device.path)) {
        let (path, major, minor) = (device.path.display(), device.major, device.minor);
        found.push(format!("its specification has the device {path} ({major}:{minor})"));
    }
    for mount in container.specification.mounts().iter().filter(|mount| is_node(&mount.destination)) {
        found.push(format!("its specification mounts {}", mount.destination.display()));
    }
    let visible = container.specification.at("/process/env").and_then(|env| env.as_array());
    let visible = visible.into_iter().flatten().filter_map(|word| word.as_str());
    found.extend(
        visible
            .filter(|word| word.starts_with("NVIDIA_VISIBLE_DEVICES="))
            .map(|word| format!("its environment has {}", word.chars().take(200).collect::<String>())),
    );
    found.extend(allowed(init));
    found
}

/// The rules of the device cgroup of version 1 that are about NVIDIA's devices: `c 195:0 rw`. One that allows everything says nothing about GPUs.
fn allowed(init: i32) -> Vec<String> {
    let own = proc::cgroups_of(init, "devices").ok().flatten().unwrap_or_default();
    let own = own.into_iter().find(|cgroup| cgroup.version == proc::CgroupVersion::One);
    let Some(directory) = own.and_then(|cgroup| cgroup.directories.into_iter().next()) else {
        return Vec::new();
    };
    let list = directory.join("devices.list");
    let rules = proc::read_text_at(&list).unwrap_or_default();
    let majors = majors(&proc::read_text_at(std::path::Path::new("/proc/devices")).unwrap_or_default());
    rules
        .lines()
        .filter(|rule| rule_is_of(rule, &majors))
        .take(32)
        .map(|rule| format!("`{}` allows `{rule}`", list.display()))
        .collect()
}

fn rule_is_of(rule: &str, majors: &[u32]) -> bool {
    let numbers = rule.split(' ').nth(1).unwrap_or_default();
    let major = numbers.split(':').next().and_then(|major| major.parse::<u32>().ok());
    rule.starts_with("c ") && major.is_some_and(|major| majors.contains(&major))
}

/// The numbers that NVIDIA's drivers have here: lines ` 195 nvidia-frontend`, `508 nvidia-uvm`.
fn majors(devices: &str) -> Vec<u32> {
    let of_nvidia = |line: &str| {
        let (number, name) = line.trim().split_once(' ')?;
        name.trim().starts_with("nvidia").then(|| number.parse().ok())?
    };
    devices.lines().filter_map(of_nvidia).chain([NVIDIA]).collect()
}

/// What that, and what is really open, means.
pub(crate) fn look(gpu: &Report, granted: &[String]) -> Vec<Finding> {
    let mut found = Vec::new();
    let uses = gpu.processes.iter().filter(|process| process.uses_gpu).count();
    if uses > 0 && !matches!(gpu.strategy, Strategy::Refuse { .. }) {
        let line = |process: &gpu_detect::ProcessReport| {
            format!(
                "{} ({}) has {} MiB on {} GPUs",
                process.comm,
                process.pid,
                process.vram_bytes >> 20,
                process.gpus.len()
            )
        };
        let evidence = gpu.processes.iter().filter(|process| process.uses_gpu).map(line).collect();
        let what = "its work on GPUs is taken off them by the driver, while it runs and is thawed";
        found.push(Finding::note(Topic::Gpu, what, evidence));
    } else if uses == 0 && !granted.is_empty() {
        found.push(Finding::note(Topic::Gpu, "it was given GPUs and uses none now", granted.to_vec()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_nvidias_devices_are_told_from_the_rest() {
        let majors =
            majors("Character devices:\n  1 mem\n195 nvidia-frontend\n508 nvidia-uvm\n\nBlock devices:\n");
        assert_eq!(majors, [195, 508, 195]);
        for rule in ["c 195:* rwm", "c 195:255 rw", "c 508:0 rw"] {
            assert!(rule_is_of(rule, &majors), "{rule}");
        }
        for rule in ["a *:* rwm", "c *:* m", "b 195:0 rwm", "c 1:3 rwm", "c", ""] {
            assert!(!rule_is_of(rule, &majors), "{rule}");
        }
    }
}
