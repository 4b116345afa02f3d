//! Images of a real process that lives outside of boxes, taken by a real CRIU, and what happens when somebody has crafted them.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy.toml allows these in #[test] functions only, not in their helpers"
)]

mod container;
mod crafted;
mod scene;
mod wire;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::Duration;

use image_trust::{check_images, check_restored, end_refused};

use crate::scene::Scene;

#[test]
fn an_honest_session_passes_before_and_after_its_restore() {
    let Some(scene) = Scene::dumped("an honest session") else { return };
    check_images(&scene.images, &scene.user).unwrap();
    let mut verdicts = Vec::new();
    let restored = scene.restore(|pid, _| {
        verdicts.push(check_restored(pid, &scene.user).map_err(|error| error.to_string()));
        Ok(())
    });
    assert_eq!(verdicts, [Ok(())]);
    let ticks = scene.ticks();
    scene::wait_until("the restored session goes on", || scene.ticks() > ticks);
    assert!(restored.unwrap().end(Duration::from_secs(1)));
}

#[test]
fn root_may_restore_anything() {
    let Some(scene) = Scene::dumped("root may restore anything") else { return };
    wire::edit(&scene.images.join(format!("core-{}.img", scene.root)), |entries| {
        wire::at(&mut entries[0], &[5, 10]).put(1, 0)
    });
    let mut root = scene.user.clone();
    root.uid = 0;
    check_images(&scene.images, &root).unwrap();
    assert!(check_images(&scene.images, &scene.user).is_err());
}

/// The check has passed, and then the owner of a directory puts a link to somebody else's file into it. CRIU opens what the
/// link leads to, as root.
#[test]
fn a_path_that_is_exchanged_after_the_check_is_found_before_the_session_runs() {
    let Some(scene) = Scene::dumped("an exchanged path") else { return };
    check_images(&scene.images, &scene.user).unwrap();
    let own = scene.path("own/out");
    let secret = scene.path("secret/out");
    fs::create_dir(scene.path("secret")).unwrap();
    fs::set_permissions(scene.path("secret"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&secret, fs::read(&own).unwrap()).unwrap();
    fs::set_permissions(&secret, fs::metadata(&own).unwrap().permissions()).unwrap();
    fs::remove_file(&own).unwrap();
    symlink(&secret, &own).unwrap();
    let ticks = scene.ticks();
    let mut found = Vec::new();
    let restored = scene.restore(|pid, worker| {
        let verdict = check_restored(pid, &scene.user).map_err(|error| error.to_string());
        found.push(verdict.clone());
        if verdict.is_err() {
            end_refused(pid, worker).unwrap();
        }
        verdict
    });
    assert!(
        found.first().is_some_and(|verdict| verdict.as_ref().is_err_and(|text| text.contains("secret/out"))),
        "{found:?}"
    );
    assert!(restored.is_err(), "{restored:?}");
    scene::wait_until("all of it is gone", || scene.processes() == 0);
    assert_eq!(scene.ticks(), ticks, "it never ran");
}
