//! The same for images that come as those of a container: each change is found, whoever its processes are.

use std::fs;
use std::os::unix::fs::symlink;

use image_trust::faults_of_container;

use crate::scene::Scene;
use crate::wire::{Fields, at, edit};

#[track_caller]
fn refused(scene: &Scene, words: &str) {
    let faults = faults_of_container(&scene.images).unwrap();
    assert!(faults.iter().any(|fault| fault.contains(words)), "no `{words}` in {faults:?}");
}

fn image(scene: &Scene, stem: &str, change: impl FnOnce(&mut Vec<Fields>)) {
    edit(&scene.images.join(format!("{stem}.img")), change);
}

fn first_file(entries: &mut [Fields]) -> &mut Fields {
    entries.iter_mut().find(|entry| entry.number(1) == Some(1)).unwrap()
}

#[test]
fn honest_images_pass_whoever_their_processes_are() {
    let Some(scene) = Scene::dumped("honest images of a container") else { return };
    assert_eq!(faults_of_container(&scene.images).unwrap(), Vec::<String>::new());
    // A container's root is root, with capabilities: its specification says whether it may.
    image(&scene, &format!("core-{}", scene.root), |entries| {
        let creds = at(&mut entries[0], &[5, 10]);
        creds.put(1, 0);
        creds.put(11, 1 << 21);
    });
    assert_eq!(faults_of_container(&scene.images).unwrap(), Vec::<String>::new());
}

#[test]
fn a_path_that_leads_elsewhere() {
    let Some(scene) = Scene::dumped("a path that leads elsewhere") else { return };
    image(&scene, "files", |entries| at(first_file(entries), &[3]).put_text(6, "/../../etc/shadow"));
    refused(&scene, "leads elsewhere");
    image(&scene, "files", |entries| at(first_file(entries), &[3]).put_text(6, "etc/shadow"));
    refused(&scene, "leads elsewhere");
}

#[test]
fn a_file_that_is_two_things_or_none() {
    let Some(scene) = Scene::dumped("a file that is two things") else { return };
    image(&scene, "files", |entries| {
        let twice = first_file(entries).clone();
        entries.push(twice);
    });
    refused(&scene, "is there twice");
    image(&scene, "files", |entries| {
        entries.pop();
        first_file(entries).put(1, 14);
    });
    refused(&scene, "not restored here");
}

#[test]
fn memory_of_another_dump() {
    let Some(scene) = Scene::dumped("memory of another dump") else { return };
    image(&scene, &format!("pagemap-{}", scene.root), |entries| entries[1].put(4, 1));
    refused(&scene, "another dump");
}

#[test]
fn a_mapping_of_the_zero_page_and_of_a_plugin() {
    let Some(scene) = Scene::dumped("a mapping of the zero page") else { return };
    image(&scene, &format!("mm-{}", scene.root), |entries| at(&mut entries[0], &[14]).put(1, 0));
    refused(&scene, "maps memory at 0x0");
    image(&scene, &format!("mm-{}", scene.root), |entries| at(&mut entries[0], &[14]).put(7, 1 << 31));
    refused(&scene, "unknown kind");
}

#[test]
fn an_image_that_no_container_has_and_a_link() {
    let Some(scene) = Scene::dumped("an image that no container has") else { return };
    fs::write(scene.images.join("bpfmap-file.img"), b"").unwrap();
    refused(&scene, "bpfmap-file.img");
    symlink("/", scene.images.join("parent")).unwrap();
    refused(&scene, "parent is not a plain file");
    fs::write(
        scene.images.join("core-99999.img"),
        fs::read(scene.images.join(format!("core-{}.img", scene.root))).unwrap(),
    )
    .unwrap();
    refused(&scene, "belongs to no process");
}

#[test]
fn an_inventory_that_names_a_plugin() {
    let Some(scene) = Scene::dumped("an inventory that names a plugin") else { return };
    image(&scene, "inventory", |entries| entries[0].put_text(99, "cuda_plugin.so"));
    refused(&scene, "not known here");
    fs::remove_file(scene.images.join("inventory.img")).unwrap();
    refused(&scene, "there is no inventory");
}
