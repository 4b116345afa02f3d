//! The round of calls, alone and around a real dump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use cuda_sim::checkpoint::state::State;

use super::world::{Target, World, skip, state};

const MIB: u64 = 1 << 20;

fn criu() -> Option<PathBuf> {
    let path = std::env::var_os("INFINIJUP_CRIU")
        .map_or_else(|| "/opt/infinijup/criu/bin/criu".into(), PathBuf::from);
    if path.exists() {
        return Some(path);
    }
    skip("there is no CRIU");
    None
}

fn run_criu(criu: &Path, action: &str, images: &Path, more: &[&str]) -> Output {
    fs::create_dir_all(images.join("no-plugins")).unwrap();
    Command::new(criu)
        .args([action, "-v4", "-o", &format!("{action}.log"), "-D"])
        .arg(images)
        .arg("--libdir")
        .arg(images.join("no-plugins"))
        .args(more)
        .output()
        .unwrap()
}

fn log_of(images: &Path, action: &str) -> String {
    fs::read_to_string(images.join(format!("{action}.log"))).unwrap_or_default()
}

#[test]
fn memory_moves_to_the_process_and_back() {
    let Some(world) = World::new() else { return };
    let target = Target::start(&world, &["--mib", "16"]);
    let before = target.report();
    let caller = world.caller();
    let small = target.anonymous();
    let (_, held) = world.known(target.pid).unwrap();
    assert!(held >= 32 * MIB, "{held}");
    assert!(target.descriptors().iter().any(|link| link.ends_with("nvidia0")));

    caller.lock(target.pid, None).unwrap();
    assert_eq!(state(&world, &target), State::Locked);
    caller.checkpoint(target.pid).unwrap();
    assert_eq!(state(&world, &target), State::Checkpointed);
    assert_eq!(world.status()["bytes"], 0);
    assert_eq!(world.known(target.pid), Some(("checkpointed".to_owned(), 0)));
    assert!(target.anonymous() >= small + 32 * MIB, "{} {small}", target.anonymous());
    let left = target.descriptors();
    assert!(!left.iter().any(|link| link.contains("nvidia") || link.starts_with("socket:")), "{left:?}");
    let mut pipes: Vec<_> = left.iter().filter(|link| link.starts_with("pipe:")).collect();
    pipes.sort_unstable();
    assert_eq!(pipes.len(), 4, "{left:?}");
    pipes.dedup();
    assert_eq!(pipes.len(), 2, "both ends of both pipes are the process's own: {left:?}");

    caller.restore(target.pid, Vec::new()).unwrap();
    assert_eq!(state(&world, &target), State::Locked);
    caller.unlock(target.pid).unwrap();
    assert_eq!(state(&world, &target), State::Running);
    assert_eq!(world.known(target.pid), Some(("running".to_owned(), held)));
    target.assert_whole(&before);
    assert!(target.anonymous() < small + 16 * MIB);
}

#[test]
fn criu_takes_a_checkpointed_process_and_no_other() {
    let (Some(world), Some(criu)) = (World::new(), criu()) else { return };
    let mut target = Target::start(&world, &["--mib", "8"]);
    let images = tempfile::tempdir().unwrap();
    let pid = target.pid.to_string();
    let before = target.report();

    let failed = run_criu(&criu, "dump", images.path(), &["-t", &pid]);
    assert!(!failed.status.success());
    assert!(log_of(images.path(), "dump").contains("(chr 10:237)"), "{}", log_of(images.path(), "dump"));
    target.assert_whole(&before);

    let caller = world.caller();
    caller.lock(target.pid, None).unwrap();
    caller.checkpoint(target.pid).unwrap();
    let dumped = run_criu(&criu, "dump", images.path(), &["-t", &pid]);
    assert!(dumped.status.success(), "{}", log_of(images.path(), "dump"));
    target.reap();
    let restored = run_criu(&criu, "restore", images.path(), &["-d"]);
    assert!(restored.status.success(), "{}", log_of(images.path(), "restore"));

    assert_eq!(state(&world, &target), State::Checkpointed);
    assert_eq!(world.status()["bytes"], 0);
    caller.restore(target.pid, Vec::new()).unwrap();
    caller.unlock(target.pid).unwrap();
    target.assert_whole(&before);
}
