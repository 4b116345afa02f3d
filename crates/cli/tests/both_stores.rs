//! Each verb about snapshots is the same for the store of a daemon and, with `--store`, for one in a folder.
//!
//! A store is made in a folder and copied to where the daemon has its own. The daemon is the real one.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::path::Path;
use std::process::Command;

use common::Ran;
use common::home::Home;
use serde_json::{Value, json};

/// Two stores with the same history: the one in `folder`, and the daemon's.
fn two_stores() -> Option<Home> {
    let home = Home::new()?;
    let folder = |args: &[&str]| in_folder(&home, args);
    folder(&["store", "init"]);
    std::fs::create_dir(home.path("work")).unwrap();
    for (number, message) in ["first", "second", "third"].iter().enumerate() {
        std::fs::write(home.path("work/a"), format!("{number}")).unwrap();
        folder(&["debug", "commit", "--tree", "work", "--message", message]);
    }
    folder(&[
        "debug",
        "commit",
        "--tree",
        "work",
        "--message",
        "idea",
        "--thread",
        "idea",
        "--from",
        "main~1",
    ]);
    folder(&["tag", "good", "main~1"]);
    std::fs::create_dir(home.path("state")).unwrap();
    let copied = Command::new("cp").arg("-a").args([home.path("folder"), home.path("state/store")]).status();
    assert!(copied.unwrap().success());
    Some(home)
}

/// A command about the store in the folder, which must succeed: its lines.
#[track_caller]
fn in_folder(home: &Home, args: &[&str]) -> Vec<Value> {
    let folder = home.path("folder");
    lines(home, &[args, &["--store", folder.to_str().unwrap()]].concat())
}

#[track_caller]
fn lines(home: &Home, args: &[&str]) -> Vec<Value> {
    let ran = home.run(&[args, &["--json", "--no-progress"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

/// The same command about both, for programs and for people: the lines for programs.
#[track_caller]
fn both(home: &Home, args: &[&str]) -> Vec<Value> {
    let folder = home.path("folder");
    let in_daemons = lines(home, args);
    assert_eq!(in_folder(home, args), in_daemons, "{args:?}");
    let here = home.run(&[args, &["--store", folder.to_str().unwrap()]].concat());
    let daemons = home.run(args);
    assert_eq!((here.code, here.out, here.err), (daemons.code, daemons.out, daemons.err), "{args:?}");
    in_daemons
}

const READING: &[&[&str]] = &[
    &["log"],
    &["log", "--graph"],
    &["log", "main"],
    &["log", "main~1", "-n", "1"],
    &["log", "--thread", "idea"],
    &["log", "--all"],
    &["history"],
    &["history", "good"],
    &["show"],
    &["show", "good", "--files"],
    &["diff", "main~2", "idea"],
    &["tag", "--list"],
    &["store", "verify", "--bytes"],
    &["gc", "--dry-run"],
];

#[test]
fn reading_is_the_same_and_needs_no_daemon() {
    let Some(home) = two_stores() else { return };
    for args in READING {
        both(&home, args);
    }
    assert!(!home.path("run").exists(), "no daemon was started for it");
    home.json(&["daemon", "start"], 0);
    for args in READING {
        both(&home, args);
    }
    assert_eq!(home.run(&["cat", "good:workspace/a"]).out, "1");
    let stat = lines(&home, &["store", "stat"]).remove(0);
    assert_eq!(stat["store"].as_str().map(Path::new), Some(&*home.path("state/store")));
    assert_eq!(stat["id"], in_folder(&home, &["store", "stat"])[0]["id"]);
}

#[test]
fn a_commit_has_the_same_fields_in_every_output() {
    let Some(home) = two_stores() else { return };
    let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let history = lines(&home, &["history"]).remove(0);
    assert_eq!((&history["session"], history["commits"].as_array().unwrap().len()), (&Value::Null, 4));
    let listed = fields(&history["commits"][0]);
    assert_eq!(fields(&lines(&home, &["show"])[0]["commit"]), listed);
    let mut line = lines(&home, &["log"]).remove(0);
    assert_eq!(line.as_object_mut().unwrap().remove("message_type"), Some("commit".into()));
    assert_eq!(fields(&line), listed);
    // What the daemon itself says of a commit is among it.
    let of_the_daemon = api::CommitView {
        id: String::new(),
        parents: Vec::new(),
        thread: String::new(),
        tags: Vec::new(),
        time: String::new(),
        reason: String::new(),
        automatic: false,
        message: String::new(),
        label: None,
        bytes: 0,
        new_bytes: None,
        memory_bytes: None,
        vram_bytes: None,
        frozen_us: None,
        gpu_paused_us: None,
        cell: None,
        has_notebook: false,
        has_variables: false,
        session: None,
        back_to: None,
        elsewhere: None,
    };
    for field in fields(&serde_json::to_value(&of_the_daemon).unwrap()) {
        assert!(listed.contains(&field), "{field}");
    }
}

#[test]
fn tags_and_forgetting_are_the_same_and_go_through_the_daemon() {
    let Some(home) = two_stores() else { return };
    for args in [
        &["tag", "new", "main"][..],
        &["tag", "--list"],
        &["tag", "new", "--delete"],
        &["forget", "main~2", "good"],
        &["history", "main"],
        &["forget", "good", "--force"],
        &["tag", "--list"],
        &["log", "main"],
    ] {
        assert_eq!(in_folder(&home, args), lines(&home, args), "{args:?}");
    }
    assert!(home.path("run").exists(), "the daemon did it");
    assert_eq!(lines(&home, &["log", "main"]).len(), 1);
    for args in [&["show", "good"][..], &["tag", "x", "nobody"], &["forget", "nobody"], &["log", "nobody"]] {
        let folder = home.path("folder");
        let ran = home.run(&[args, &["--store", folder.to_str().unwrap()]].concat());
        assert_eq!((ran.code, home.run(args).code), (15, 15), "{args:?}: {ran:?}");
    }
    let (here, daemons) = (in_folder(&home, &["gc"]).remove(0), lines(&home, &["gc"]).remove(0));
    for field in ["commits", "objects", "freed_bytes", "packs_removed"] {
        assert_eq!(here[field], daemons[field], "{field}");
    }
    assert_eq!(here["commits"], 2, "{here}");
    both(&home, &["store", "verify", "--bytes"]);
}

#[test]
fn a_snapshot_goes_from_one_to_the_other_and_back() {
    let Some(home) = two_stores() else { return };
    home.json(&["daemon", "start"], 0);
    let (out, back) = (home.path("out.ijx"), home.path("back.ijx"));
    let exported = lines(&home, &["export", "idea", out.to_str().unwrap()]).remove(0);
    let imported = in_folder(&home, &["import", out.to_str().unwrap(), "--tag", "came"]).remove(0);
    assert_eq!((&imported["commit"], &imported["ref"]), (&exported["commit"], &json!("tags/came")));
    in_folder(&home, &["export", "main", back.to_str().unwrap(), "--history"]);
    lines(&home, &["import", back.to_str().unwrap(), "--tag", "returned"]);
    assert_eq!(lines(&home, &["show", "returned"])[0]["commit"]["message"], "third");
}

#[test]
fn an_encrypted_store_opens_with_the_key_of_the_settings_or_the_one_given() {
    let Some(home) = two_stores() else { return };
    let run = |args: &[&str]| {
        let mut command = home.command(&[args, &["--json", "--no-progress"]].concat());
        Ran::from(command.env("INFINIJUP_SETTINGS", home.path("config/settings.toml")).output().unwrap())
    };
    let plain = run(&["log"]).json().len();
    assert_eq!(run(&["store", "encrypt"]).code, 0);
    for started in [false, true] {
        for args in READING {
            let ran = run(args);
            assert_eq!(ran.code, 0, "{started} {args:?}: {ran:?}");
        }
        assert_eq!(run(&["log"]).json().len(), plain);
        run(&["daemon", "start"]);
    }
    assert_eq!(run(&["tag", "new", "main"]).code, 0);
    let (store, key) = (home.path("state/store"), home.path("config/store.key"));
    let named = run(&["log", "--store", store.to_str().unwrap()]);
    assert_eq!(named.json().len(), plain, "the daemon's store by its path is the daemon's store");

    let away = home.path("copy");
    let copied = Command::new("cp").arg("-a").args([&store, &away]).status();
    assert!(copied.unwrap().success());
    let copy = ["--store", away.to_str().unwrap()];
    assert_eq!(run(&[&["log"][..], &copy].concat()).code, 12, "a copy elsewhere is nobody's");
    let with_key = run(&[&["log", "--key-file", key.to_str().unwrap()][..], &copy].concat());
    assert_eq!(with_key.json().len(), plain);
}

#[test]
fn what_needs_a_store_to_itself_is_refused_while_the_daemon_runs() {
    let Some(home) = two_stores() else { return };
    home.json(&["daemon", "start"], 0);
    let refused = home.fails(&mut home.command(&["store", "rebuild"]), 11, "IJ-C043");
    assert!(refused.err.contains("infinijup daemon stop"), "{refused:?}");
    let store = home.path("state/store");
    let by_path = ["store", "rebuild", "--store", store.to_str().unwrap()];
    home.fails(&mut home.command(&by_path), 11, "IJ-C043");
    in_folder(&home, &["store", "rebuild"]);
    home.json(&["daemon", "stop"], 0);
    lines(&home, &["store", "rebuild"]);
    lines(&home, &["store", "verify", "--bytes"]);
}

#[test]
fn before_the_first_snapshot_there_is_nothing_to_see() {
    let home = Home::without_daemon();
    let ran = home.run(&["log"]);
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", "there are no snapshots yet\n"));
    assert_eq!(
        lines(&home, &["history"]),
        [json!({"message_type": "history", "session": null, "commits": []})]
    );
    assert!(lines(&home, &["tag", "--list"]).is_empty());
    for args in [&["show"][..], &["export", "main", "x"], &["store", "stat"], &["log", "main"], &["tag", "x"]]
    {
        let refused = home.fails(&mut home.command(args), 10, "IJ-C042");
        assert!(refused.err.contains("hint: `infinijup kernel start`"), "{refused:?}");
    }
    home.fails(&mut home.command(&["debug", "commit"]), 2, "IJ-C001");
    assert!(!home.path("state").exists() && !home.path("run").exists(), "nothing was made");
}

#[test]
fn a_store_that_lies_near_is_pointed_at() {
    let home = Home::without_daemon();
    assert_eq!(home.run(&["store", "init"]).code, 0);
    let ran = home.run(&["log"]);
    assert!(
        ran.err.contains("this is about your daemon's store; `--store ") && ran.out.is_empty(),
        "{ran:?}"
    );
    assert!(!home.run(&["log", "--quiet"]).err.contains("daemon"));
    assert!(!home.run(&["log", "--store", ".infinijup"]).err.contains("daemon"));
}
