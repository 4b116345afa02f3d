//! `demo` where something is missing: what it says, how it ends, and that it leaves nothing behind. That it works is shown in a browser.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::home::Home;

/// `demo` for somebody who has nothing in the path but a `jupyter-lab` with this text.
fn demo(home: &Home, script: Option<&str>) -> Command {
    let bin = home.path("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(home.path("home")).unwrap();
    if let Some(script) = script {
        fs::write(bin.join("jupyter-lab"), script).unwrap();
        fs::set_permissions(bin.join("jupyter-lab"), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = home.command(&["demo", "--no-browser"]);
    command.env("PATH", bin);
    command
}

fn made_nothing(home: &Home) {
    assert_eq!(fs::read_dir(home.path("home")).unwrap().count(), 0, "the home is not empty");
}

#[test]
fn without_jupyterlab_it_says_what_to_install() {
    let home = Home::without_daemon();
    let ran = home.fails(&mut demo(&home, None), 3, "IJ-C046");
    assert!(ran.err.contains("JupyterLab is not installed"), "{ran:?}");
    assert!(ran.err.contains("pip install \"infinijup[criu]\" jupyterlab"), "{ran:?}");
    made_nothing(&home);
}

#[test]
fn a_jupyterlab_without_our_package_is_named() {
    let home = Home::without_daemon();
    // A Python that has neither.
    let python = home.path("python");
    fs::write(&python, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
    let script = format!("#!{}\n", python.display());
    let ran = home.fails(&mut demo(&home, Some(&script)), 3, "IJ-C046");
    assert!(ran.err.contains("bin/jupyter-lab` does not have infinijup"), "{ran:?}");
    made_nothing(&home);
}

#[test]
fn where_snapshots_do_not_work_it_says_why_and_what_helps() {
    let Some(home) = Home::new() else { return };
    // There is no CRIU here.
    let ran = home.fails(&mut demo(&home, Some("#!/bin/sh\nexit 1\n")), 3, "IJ-C035");
    assert!(ran.err.contains("criu") && ran.err.contains("What helps: "), "{ran:?}");
    assert!(!home.path("home/infinijup-demo").exists());
}
