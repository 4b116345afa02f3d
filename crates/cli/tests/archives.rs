//! `export --checkpoint-image` and `import` of checkpoint archives, by the real program.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::process::{Command, Stdio};

use common::Sandbox;
use serde_json::Value;

const COMMON: u32 = 0x5456_4319;

fn image(magics: &[u32], message: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = magics.iter().flat_map(|magic| magic.to_le_bytes()).collect();
    bytes.extend(u32::try_from(message.len()).unwrap().to_le_bytes());
    bytes.extend(message);
    bytes
}

/// A store with a snapshot of one process and one file.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::with_store();
    sandbox.write("inventory.img", image(&[0x5831_3116], &[0x08, 2]));
    sandbox
        .write("pstree.img", image(&[COMMON, 0x5027_3030], &[0x08, 1, 0x10, 0, 0x18, 1, 0x20, 1, 0x28, 1]));
    sandbox.write("core-1.img", image(&[COMMON, 0x5505_3847], &[0x08, 1]));
    sandbox.write("work/notes", "remember");
    let blobs = ["inventory.img", "pstree.img", "core-1.img"].map(|name| format!("--blob={name}={name}"));
    sandbox.commit("with processes", ["--tree", "work"].into_iter().chain(blobs.iter().map(String::as_str)));
    sandbox
}

fn tar(sandbox: &Sandbox, args: &[&str]) -> String {
    let done = Command::new("tar").args(args).current_dir(sandbox.path("")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_snapshot_goes_out_as_an_archive_and_comes_in_again() {
    let sandbox = sandbox();
    let line = sandbox.json(["export", "main", "out.tar", "--checkpoint-image"]).remove(0);
    assert_eq!((&line["form"], &line["members"]), (&"archive".into(), &6.into()));
    // Other programs see the same.
    let names = tar(&sandbox, &["-tf", "out.tar"]);
    let expected = "config.dump\nspec.dump\nrootfs-diff.tar\ncheckpoint/\ncheckpoint/core-1.img\ncheckpoint/inventory.img\ncheckpoint/pstree.img\n";
    assert_eq!(names, expected);
    tar(&sandbox, &["-xf", "out.tar", "rootfs-diff.tar"]);
    assert!(tar(&sandbox, &["-tf", "rootfs-diff.tar"]).ends_with("/work/notes\n"));

    for (file, options) in [
        ("out.tar", &[][..]),
        ("out.tar.gz", &["--checkpoint-image"]),
        ("out.tar.zst", &["--checkpoint-image=archive"]),
        ("out.oci.tar", &["--checkpoint-image=image"]),
    ] {
        if !options.is_empty() {
            sandbox.ok(["export", "main", file].iter().chain(options));
        }
        let line = sandbox.json(["import", file, "--tag", file]).remove(0);
        assert_eq!(
            (&line["message_type"], &line["engine"]),
            (&"archive_imported".into(), &"infinijup".into())
        );
        assert_eq!((&line["ref"], &line["container"]), (&format!("tags/{file}").into(), &"main".into()));
        let shown = sandbox.json(["show", file]).remove(0);
        let sections: Vec<&str> = shown["sections"]
            .as_array()
            .unwrap()
            .iter()
            .map(|section| section["name"].as_str().unwrap())
            .collect();
        assert_eq!(sections, ["archive", "criu", "memory"], "nothing that a restore would act upon");
    }
    let never = sandbox.ok(["cat", "out.tar:archive/never-applied"]).out;
    let never: Value = serde_json::from_str(&never).unwrap();
    assert!(never.as_array().unwrap().iter().any(|claim| claim["what"] == "annotation"), "{never}");
    assert!(sandbox.ok(["show", "out.tar"]).out.contains("container main of infinijup"));
    // What went out again is what came in.
    sandbox.ok(["export", "out.tar", "again.tar", "--checkpoint-image"]);
    sandbox.ok(["import", "again.tar", "--tag", "again"]);
    let snapshot = |name: &str| sandbox.json(["show", name]).remove(0)["sections"].clone();
    assert_eq!(snapshot("again"), snapshot("out.tar"));
}

#[test]
fn through_a_pipe() {
    let sandbox = sandbox();
    let mut out = sandbox
        .command(["export", "main", "-", "--checkpoint-image"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ran = sandbox
        .command(["import", "-", "--tag", "piped"])
        .stdin(out.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(
        out.wait().unwrap().success() && ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    sandbox.ok(["show", "piped"]);
}

#[test]
fn what_is_no_archive_or_a_hostile_one_is_refused_with_its_code() {
    let sandbox = sandbox();
    sandbox.ok(["export", "main", "good.tar", "--checkpoint-image"]);
    let packs = sandbox.files(".infinijup/objects").len();
    sandbox.write("text", "hello");
    sandbox.fails(2, "IJ-A002", ["import", "text"]);
    let whole = std::fs::read(sandbox.path("good.tar")).unwrap();
    sandbox.write("cut.tar", &whole[..whole.len() / 2]);
    sandbox.fails(1, "IJ-A010", ["import", "cut.tar"]);
    sandbox.fails(3, "IJ-A020", ["import", "good.tar", "--at-most", "1k"]);
    std::fs::create_dir(sandbox.path("checkpoint")).unwrap();
    for name in ["inventory.img", "core-1.img", "pstree.img"] {
        std::fs::copy(sandbox.path(name), sandbox.path("checkpoint").join(name)).unwrap();
    }
    sandbox.write("config.dump", "{}");
    sandbox.write("spec.dump", "{}");
    let pack = |file: &str, more: &[&str]| {
        let all = [
            "--format=posix",
            "--pax-option=delete=atime,delete=ctime",
            "-cf",
            file,
            "config.dump",
            "spec.dump",
            "checkpoint",
        ];
        tar(&sandbox, &[&all[..], more].concat());
    };
    pack("theirs.tar", &[]);
    sandbox.ok(["import", "theirs.tar", "--tag", "theirs"]);
    std::os::unix::fs::symlink("/etc/shadow", sandbox.path("ctr.log")).unwrap();
    pack("link.tar", &["ctr.log"]);
    sandbox.fails(3, "IJ-A022", ["import", "link.tar"]);
    sandbox.write("evil", "x");
    pack("up.tar", &["--transform=s,^evil,../evil,", "-P", "evil"]);
    sandbox.fails(3, "IJ-A021", ["import", "up.tar"]);
    sandbox.write("checkpoint/bpfmap-file.img", "x");
    pack("bpf.tar", &[]);
    sandbox.fails(3, "IJ-A024", ["import", "bpf.tar"]);
    // Nothing but what was imported has a name, and nothing lies about.
    let tags: Vec<Value> = sandbox.json(["tag", "--list"]);
    assert_eq!(tags.len(), 1, "{tags:?}");
    let left: Vec<_> = std::fs::read_dir(sandbox.path(".infinijup"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("archive")), "{left:?}");
    assert!(packs > 0);
}

#[test]
fn a_snapshot_without_processes_is_no_archive() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/a", "a");
    sandbox.commit("files", ["--tree", "work"]);
    sandbox.fails(2, "IJ-A004", ["export", "main", "out.tar", "--checkpoint-image"]);
    assert!(!sandbox.path("out.tar").exists());
    assert_eq!(sandbox.run(["export", "main", "x", "--checkpoint-image", "--history"]).code, 2);
}
