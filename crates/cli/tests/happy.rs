//! Each command when all goes well, by its JSON. `Sandbox::json` compares every line with `docs/scripting.md`.
#![expect(clippy::panic, reason = "tests fail by panicking")]

mod common;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use common::Sandbox;
use serde_json::Value;

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text `{field}` in {value}"))
}

#[test]
fn a_new_store_is_empty_and_private() {
    let sandbox = Sandbox::for_store();
    let created = sandbox.json(["store", "init"]).remove(0);
    assert_eq!((&created["encrypted"], &created["keys"]), (&false.into(), &Value::Array(vec![])));
    assert_eq!(std::fs::metadata(sandbox.path(".infinijup")).unwrap().permissions().mode() & 0o777, 0o700);
    let stat = sandbox.json(["store", "stat"]).remove(0);
    assert_eq!(stat["id"], created["id"]);
    for field in ["threads", "tags", "packs", "objects", "stored_bytes", "write_sessions"] {
        assert_eq!(stat[field], 0, "{field}");
    }
    let log = sandbox.ok(["log"]);
    assert_eq!((log.out.as_str(), log.err.as_str()), ("", "there are no snapshots yet\n"));
    assert!(sandbox.json(["log"]).is_empty());
    assert_eq!(sandbox.json(["store", "verify", "--bytes"])[0]["clean"], true);
}

#[test]
fn paths_need_not_be_text() {
    let sandbox = Sandbox::new();
    let store = sandbox.path(OsStr::from_bytes(b"st\xf6re"));
    let run = |args: &[&str]| {
        let ran = common::Ran::from(sandbox.command(args).env("INFINIJUP_STORE", &store).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
        ran
    };
    let created = run(&["store", "init", "--json"]).json().remove(0);
    assert!(text(&created["store"], "hex").ends_with("7374f67265"), "{created}");
    assert_eq!(run(&["store", "stat", "--json"]).json()[0]["store"], created["store"]);
    assert!(run(&["store", "stat"]).out.contains("/st\\xf6re\n"));
}

#[test]
fn what_was_committed_is_shown_and_read_back() {
    let sandbox = Sandbox::with_store();
    let memory: Vec<u8> = (0..20_000u32).map(|n| n.to_le_bytes()[n as usize % 2] | 1).collect();
    sandbox.write("memory.bin", &memory);
    sandbox.write("core.img", "core");
    sandbox.write("nb.json", "{}");
    sandbox.write("work/sub/data.csv", "a,b\n1,2\n");
    std::os::unix::fs::symlink("sub/data.csv", sandbox.path("work/link")).unwrap();
    let odd = OsStr::from_bytes(b"caf\xe9");
    sandbox.write(std::path::Path::new("work").join(odd), "odd");
    let id = sandbox.commit(
        "two lines\nof text",
        [
            "--tree",
            "work",
            "--memory",
            "memory.bin@0x7f0000000000",
            "--blob",
            "core-1.img=core.img",
            "--blob",
            "a.ipynb=nb.json",
            "--label",
            "mark",
        ],
    );

    let mut lines = sandbox.json(["show", &id[..8], "--verdict", "--files"]);
    let shown = lines.remove(0);
    assert_eq!((text(&shown["commit"], "id"), text(&shown["commit"], "label")), (id.as_str(), "mark"));
    assert_eq!(text(&shown["here"], "verdict"), "same");
    let names: Vec<&str> =
        shown["sections"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    assert_eq!(names, ["criu", "host", "label", "memory", "notebook", "workspace"]);
    assert_eq!(shown["sections"][3]["roots"][0]["pages"], 5);
    let paths: Vec<&Value> = lines.iter().map(|line| &line["path"]).collect();
    assert_eq!(
        paths,
        [&serde_json::json!({ "hex": "636166e9" }), &"link".into(), &"sub".into(), &"sub/data.csv".into()]
    );
    assert_eq!(text(&lines[1], "target"), "sub/data.csv");

    let cat = |args: &[&str]| sandbox.ok(["cat"].iter().chain(args)).bytes;
    assert_eq!(cat(&["main:criu/core-1.img"]), b"core");
    assert_eq!(cat(&["main:notebook/content"]), b"{}");
    assert_eq!(cat(&["main:workspace/sub/data.csv"]), b"a,b\n1,2\n");
    assert_eq!(cat(&["main:workspace/tree/sub/data.csv"]), b"a,b\n1,2\n");
    assert_eq!(cat(&[text(&lines[3], "id")]), b"a,b\n1,2\n");
    assert_eq!(
        cat(&["main:memory/pid:1", "--address", "0x7f0000000ffe", "--length", "9000"]),
        memory[4094..13_094]
    );
    let end = cat(&["main:memory/pid:1", "--address", "0x7f0000004e1f", "--length", "2"]);
    assert_eq!(end, [memory[19_999], 0]);
    let json: Value = serde_json::from_slice(&cat(&[&id])).unwrap();
    assert_eq!(text(&json, "message"), "two lines\nof text");
    assert!(cat(&[&id, "--raw"]).starts_with(b"IJMF"));
    let odd = [OsStr::new("cat"), OsStr::from_bytes(b"main:workspace/caf\xe9")];
    assert_eq!(sandbox.ok(odd).bytes, b"odd");
    assert!(sandbox.ok(["show", "--files"]).out.contains("caf\\xe9\n"));
}

#[test]
fn large_files_and_memory_come_back() {
    let sandbox = Sandbox::with_store();
    let mut state = 1u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let big: Vec<u8> = (0..400_000).flat_map(|_| random()).collect();
    sandbox.write("work/big.bin", &big);
    sandbox.commit("big", ["--tree", "work", "--memory", "work/big.bin@0x10000"]);
    assert_eq!(sandbox.ok(["cat", "main:workspace/big.bin"]).bytes, big);
    let length = big.len().to_string();
    assert_eq!(
        sandbox.ok(["cat", "main:memory/pid:1", "--address", "65536", "--length", &length]).bytes,
        big
    );
    // A second snapshot with one changed page costs next to nothing.
    let mut changed = big;
    changed[1_000_000] ^= 1;
    sandbox.write("changed.bin", &changed);
    let lines = sandbox.json(["debug", "commit", "--memory", "changed.bin@0x10000"]);
    assert!(lines[0]["new_stored_bytes"].as_u64().unwrap() < 40_000, "{}", lines[0]);
    assert_eq!(
        sandbox.ok(["cat", "main:memory/pid:1", "--address", "65536", "--length", &length]).bytes,
        changed
    );
}

#[test]
fn revisions_have_many_names() {
    let sandbox = Sandbox::with_store();
    let first = sandbox.commit("first", []);
    let second = sandbox.commit("second", []);
    let third = sandbox.commit("third", []);
    sandbox.ok(["tag", "v1", "main~1"]);
    let is = |revision: &str| text(&sandbox.json(["show", revision])[0]["commit"], "id").to_owned();
    for revision in ["main", "threads/main", &third, &third[..10], "main~0"] {
        assert_eq!(is(revision), third, "{revision}");
    }
    for revision in ["v1", "tags/v1", "main~", "main~1", &format!("{}~", &third[..10])] {
        assert_eq!(is(revision), second, "{revision}");
    }
    assert_eq!((is("main~2"), is("v1~"), is("main~~")), (first.clone(), first.clone(), first));
    // A tag may have a thread's name; then it must be said which one is meant.
    sandbox.ok(["tag", "main", "v1"]);
    sandbox.fails(15, "IJ-C003", ["show", "main"]);
    assert_eq!((is("threads/main"), is("tags/main")), (third, second));
}

#[test]
fn tags_are_made_listed_and_deleted() {
    let sandbox = Sandbox::with_store();
    let id = sandbox.commit("first", []);
    let made = sandbox.json(["tag", "v1"]).remove(0);
    assert_eq!((text(&made, "message_type"), text(&made, "commit")), ("tag_created", id.as_str()));
    sandbox.ok(["tag", "a/b", &id]);
    let list = sandbox.json(["tag", "--list"]);
    assert_eq!(list.iter().map(|line| text(line, "tag")).collect::<Vec<_>>(), ["a/b", "v1"]);
    assert_eq!(text(&sandbox.json(["tag", "v1", "--delete"])[0], "message_type"), "tag_deleted");
    assert_eq!(sandbox.ok(["tag", "--list"]).out, format!("a/b  {}\n", &id[..12]));
    sandbox.fails(15, "IJ-S032", ["tag", "v1", "--delete"]);
    sandbox.fails(1, "IJ-M010", ["tag", "a..b"]);
}

#[test]
fn diff_tells_what_changed() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/kept", "kept");
    sandbox.write("work/loss.csv", "epoch,loss\n");
    let first = sandbox.commit("first", ["--tree", "work"]);
    sandbox.write("work/loss.csv", "epoch,loss\n1,0.42\n");
    sandbox.write("work/new", "");
    let second = sandbox.commit("second", ["--tree", "work"]);
    let diff = sandbox.json(["diff", "main~1", "main"]).remove(0);
    assert_eq!((text(&diff, "a"), text(&diff, "b")), (first.as_str(), second.as_str()));
    let files: Vec<_> = diff["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (text(file, "path"), text(file, "change")))
        .collect();
    let work = sandbox.path("work").canonicalize().unwrap().to_str().unwrap().to_owned();
    assert_eq!(files, [(&*format!("{work}/loss.csv"), "changed"), (&*format!("{work}/new"), "added")]);
    assert_eq!(
        (&diff["files"][0]["before_bytes"], &diff["files"][0]["after_bytes"]),
        (&11.into(), &18.into())
    );
    assert_eq!(diff["variables"], Value::Null);
    let shown = sandbox.ok(["diff", "main~1", "main"]).out;
    assert_eq!(
        shown,
        format!(
            "from {} to {}\nfiles\n  ~  11 B  18 B  {work}/loss.csv\n  +         0 B  {work}/new\n0 B of memory, 2 files, 0 processes\n",
            &first[..12],
            &second[..12]
        )
    );
    sandbox.fails(15, "IJ-C002", ["diff", "main", "nobody"]);
}

#[test]
fn diff_tells_which_lines_of_files_changed() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/loss.csv", "epoch,loss\n");
    sandbox.write("work/picture", "\0");
    sandbox.commit("first", ["--tree", "work"]);
    sandbox.write("work/loss.csv", "epoch,loss\n1,\x1b[31m0.42\n");
    sandbox.write("work/picture", "\0\0");
    sandbox.write("work/notes", "new");
    sandbox.commit("second", ["--tree", "work"]);
    let work = sandbox.path("work").canonicalize().unwrap().to_str().unwrap().to_owned();
    let shown = sandbox.ok(["diff", "main~1", "main", "--text"]).out;
    let (_, lines) = shown.split_once("0 processes\n").unwrap();
    assert_eq!(
        lines,
        format!(
            "\n--- {work}/loss.csv\n+++ {work}/loss.csv\n@@ -1,1 +1,2 @@\n epoch,loss\n+1,\\u{{1b}}[31m0.42\n\
             \n--- {work}/notes\n+++ {work}/notes\n@@ -0,0 +1,1 @@\n+new\n\\ No newline at end of file\n\
             \n{work}/picture is not text, or too long to be compared\n"
        )
    );
    let told = sandbox.json(["diff", "main~1", "main", "--text"]).remove(0);
    assert_eq!(told["texts"][0]["lines"][2], "+1,\u{1b}[31m0.42");
    assert_eq!(told["texts"][2]["lines"], Value::Null);
    assert_eq!(sandbox.json(["diff", "main~1", "main"])[0].get("texts"), None);
}

#[test]
fn gc_plans_first_and_deletes_then() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/kept", "kept");
    sandbox.write("other/gone", vec![7; 100_000]);
    sandbox.commit("kept", ["--tree", "work"]);
    sandbox.commit("gone", ["--tree", "other", "--thread", "side"]);
    let id = sandbox.commit("gone too", ["--tree", "other", "--thread", "side"]);
    sandbox.ok(["tag", "keep", "side"]);
    assert_eq!(sandbox.json(["gc", "--dry-run"])[0]["dead_objects"], 0);

    // Nothing deletes a thread yet, so this does: an export without history loses what led to it.
    sandbox.ok(["export", "main", "kept.ijx"]);
    sandbox.ok(["store", "init", "--store", "second"]);
    let there =
        |args: &[&'static str]| sandbox.json(args.iter().copied().chain(["--store", "second"])).remove(0);
    there(&["import", "kept.ijx", "--tag", "kept"]);
    sandbox.ok(["export", "side", "gone.ijx", "--history"]);
    let imported = there(&["import", "gone.ijx"]);
    assert_eq!((&imported["ref"], text(&imported, "commit")), (&Value::Null, id.as_str()));

    let before = sandbox.files("second/objects");
    let plan = there(&["gc", "--dry-run"]);
    assert_eq!((&plan["dry_run"], &plan["packs_removed"]), (&true.into(), &0.into()));
    assert!(
        plan["dead_objects"].as_u64().unwrap() > 3 && plan["freeable_bytes"].as_u64().unwrap() > 0,
        "{plan}"
    );
    assert_eq!(sandbox.files("second/objects"), before);
    let done = there(&["gc"]);
    assert!(done["packs_removed"].as_u64().unwrap() > 0, "{done}");
    assert!(sandbox.files("second/objects").len() < before.len());
    assert_eq!(there(&["gc", "--dry-run"])["dead_objects"], 0);
    assert_eq!(sandbox.ok(["cat", "kept:workspace/kept", "--store", "second"]).out, "kept");
    sandbox.fails(15, "IJ-C002", ["show", &id, "--store", "second"]);
    assert_eq!(there(&["store", "verify", "--bytes"])["clean"], true);
}

#[test]
fn a_lost_catalogue_is_made_anew() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/a", "content");
    sandbox.commit("first", ["--tree", "work"]);
    for name in ["catalogue.sqlite", "catalogue.sqlite-wal", "catalogue.sqlite-shm"] {
        let _ = std::fs::remove_file(sandbox.path(".infinijup").join(name));
    }
    assert_ne!(sandbox.run(["log"]).code, 0);
    let rebuilt = sandbox.json(["store", "rebuild"]).remove(0);
    assert_eq!((&rebuilt["salvaged"], &rebuilt["unusable"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    assert_eq!(sandbox.ok(["cat", "main:workspace/a"]).out, "content");
}

#[test]
fn encryption_changes_ids_but_not_content() {
    let sandbox = Sandbox::with_store();
    sandbox.write("pass", "a passphrase\n");
    sandbox.write("key", [9; 40]);
    sandbox.write("work/a", "content");
    let first = sandbox.commit("first", ["--tree", "work", "--memory", "key@0x1000"]);
    sandbox.write("work/a", "changed");
    let plain = sandbox.commit("second", ["--tree", "work"]);
    let created = sandbox
        .json([
            "store",
            "init",
            "--store",
            "safe",
            "--encrypt",
            "--passphrase-file",
            "pass",
            "--key-file",
            "key",
        ])
        .remove(0);
    assert_eq!(created["keys"], serde_json::json!(["key_file", "passphrase"]));
    let safe = ["--store", "safe", "--key-file", "key"];
    sandbox.ok(["export", "main~1", "first.ijx"]);
    sandbox.ok(["export", "main", "all.ijx", "--history"]);
    assert_eq!(std::fs::metadata(sandbox.path("all.ijx")).unwrap().permissions().mode() & 0o777, 0o600);
    let import = |args: &[&'static str]| sandbox.json(args.iter().copied().chain(safe)).remove(0);
    let one = import(&["import", "first.ijx", "--thread", "main"]);
    // The thread moves forward, because what it has now came before.
    let all = import(&["import", "all.ijx", "--thread", "main"]);
    assert!(text(&one, "commit") != first && text(&all, "commit") != plain);
    sandbox.fails(14, "IJ-S030", ["import", "first.ijx", "--thread", "main"].into_iter().chain(safe));

    let cat = |what: &str| {
        (sandbox.ok(["cat", what]).bytes, sandbox.ok(["cat", what].into_iter().chain(safe)).bytes)
    };
    for what in ["main:workspace/a", "main~1:workspace/a"] {
        let (plain, safe) = cat(what);
        assert_eq!(plain, safe, "{what}");
    }
    let memory = ["cat", "main~:memory/pid:1", "--address", "4096", "--length", "4096"];
    assert_eq!(sandbox.ok(memory).bytes, sandbox.ok(memory.into_iter().chain(safe)).bytes);
    let with_passphrase =
        sandbox.command(["log", "--store", "safe"]).env("INFINIJUP_PASSPHRASE_FILE", "pass").output();
    assert_eq!(String::from_utf8(with_passphrase.unwrap().stdout).unwrap().lines().count(), 2);
    let ran = sandbox.ok(["export", "main", "out.ijx"].into_iter().chain(safe));
    assert!(ran.err.contains("warning: the store is encrypted, the file is not"), "{ran:?}");

    sandbox.write("new", "another one");
    let rotated = import(&["store", "rotate-keys", "--new-passphrase-file", "new"]);
    assert_eq!(
        (&rotated["key_generation"], &rotated["keys"]),
        (&2.into(), &serde_json::json!(["passphrase"]))
    );
    sandbox.fails(12, "IJ-S021", ["log"].into_iter().chain(safe));
    sandbox.ok(["log", "--store", "safe", "--passphrase-file", "new"]);
    let stat = sandbox.json(["store", "stat", "--store", "safe", "--passphrase-file", "new"]).remove(0);
    assert_eq!(stat["encryption"], serde_json::json!({ "keys": ["passphrase"], "key_generation": 2 }));
}

#[test]
fn a_pipe_carries_a_snapshot() {
    let sandbox = Sandbox::with_store();
    sandbox.write("work/a", "content");
    sandbox.commit("first", ["--tree", "work"]);
    sandbox.ok(["store", "init", "--store", "second"]);
    let export = sandbox.ok(["export", "main", "-"]).bytes;
    let mut import = sandbox.command(["import", "-", "--tag", "t", "--store", "second"]);
    let mut child = import.stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &export).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(sandbox.ok(["cat", "t:workspace/a", "--store", "second"]).out, "content");
}

#[test]
fn the_store_itself_is_not_part_of_a_workspace() {
    let sandbox = Sandbox::with_store();
    sandbox.write("a", "content");
    sandbox.commit("first", ["--tree", "."]);
    let lines = sandbox.json(["show", "--files"]);
    assert_eq!(lines[1..].iter().map(|line| text(line, "path")).collect::<Vec<_>>(), ["a"]);
    assert!(sandbox.ok(["show"]).out.contains("left out  .infinijup: it is the store itself"));
}
