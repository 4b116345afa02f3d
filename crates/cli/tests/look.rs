//! How it looks to people.

mod common;

use common::Sandbox;

/// A history with a branch, and the ids of its commits.
fn branched() -> (Sandbox, Vec<String>) {
    let sandbox = Sandbox::with_store();
    let mut ids = vec![sandbox.commit("load the data", []), sandbox.commit("train", ["--label", "lr=0.1"])];
    ids.push(sandbox.commit("try dropout", ["--thread", "dropout", "--from", "main~1"]));
    ids.push(sandbox.commit("train more", []));
    ids.push(sandbox.commit("", ["--thread", "dropout"]));
    ids.push(sandbox.commit("third way", ["--thread", "third", "--from", "main~2"]));
    sandbox.ok(["tag", "good", "main~1"]);
    (sandbox, ids)
}

/// Ids by number, times by one time.
fn normalised(text: &str, ids: &[String]) -> String {
    let mut text = text.to_owned();
    for (number, id) in ids.iter().enumerate() {
        text = text.replace(&id[..12], &format!("commit-{number}"));
    }
    let without_time = |line: &str| match line.split_once("Z  ") {
        // `2026-11-15 09:12` has 16 characters.
        Some((before, after)) => format!("{}TIME  {after}\n", &before[..before.len() - 16]),
        None => format!("{line}\n"),
    };
    text.lines().map(without_time).collect()
}

#[test]
fn the_graph_of_a_branched_history() {
    let (sandbox, ids) = branched();
    let graph = sandbox.ok(["log", "--graph"]).out;
    assert_eq!(
        normalised(&graph, &ids),
        "\
●      commit-5  TIME         0 B  (third)  third way
│ ●    commit-4  TIME         0 B  (dropout)  (manual)
│ │ ●  commit-3  TIME         0 B  (main)  train more
│ ● │  commit-2  TIME         0 B  (dropout)  try dropout
│ │ ●  commit-1  TIME         0 B  (main, tag good)  [lr=0.1] train
├─┴─╯
●      commit-0  TIME         0 B  (main)  load the data
"
    );
    let ascii = sandbox.command(["log", "--graph"]).env("LC_ALL", "C").output().unwrap();
    let ascii = String::from_utf8(ascii.stdout).unwrap();
    assert!(ascii.is_ascii(), "{ascii}");
    assert!(normalised(&ascii, &ids).contains("\n|-'-'\n*      commit-0  "), "{ascii}");
}

#[test]
fn the_log_can_be_narrowed() {
    let (sandbox, ids) = branched();
    let lines = |args: &[&str]| -> Vec<String> {
        let out = sandbox.ok(["log"].iter().chain(args)).out;
        out.lines().map(|line| line[..12].to_owned()).collect()
    };
    let short =
        |numbers: &[usize]| -> Vec<String> { numbers.iter().map(|n| ids[*n][..12].to_owned()).collect() };
    assert_eq!(lines(&[]), short(&[5, 4, 3, 2, 1, 0]));
    assert_eq!(lines(&["-n", "2"]), short(&[5, 4]));
    assert_eq!(lines(&["--thread", "main"]), short(&[3, 1, 0]));
    let graph = sandbox.json(["log", "--graph", "--thread", "dropout"]);
    assert_eq!(graph[0]["edges"][0]["row"], 1);
    assert_eq!(graph[2]["lane"], 0);
    sandbox.fails(15, "IJ-S032", ["log", "--thread", "nobody"]);
}

#[test]
fn a_history_that_was_left_out_is_said_to_be() {
    let (sandbox, ids) = branched();
    sandbox.ok(["export", "main", "one.ijx"]);
    sandbox.ok(["store", "init", "--store", "second"]);
    sandbox.ok(["import", "one.ijx", "--thread", "main", "--store", "second"]);
    let log = sandbox.ok(["log", "--graph", "--store", "second"]).out;
    assert_eq!(
        normalised(&log, &ids),
        "●  commit-3  TIME         0 B  (main)  train more\n●  commit-1  (was not imported)\n"
    );
    let lines = sandbox.json(["log", "--store", "second"]);
    assert_eq!((&lines[1]["message_type"], &lines[1]["damaged"]), (&"absent_commit".into(), &false.into()));
    assert!(
        sandbox
            .ok(["show", "--store", "second"])
            .out
            .contains(&format!("parent      {} (not in this store)", &ids[1][..12]))
    );
    sandbox.fails(15, "IJ-C004", ["show", "main~1", "--store", "second"]);
    assert_eq!(sandbox.json(["store", "verify", "--store", "second"])[0]["clean"], true);
}

#[test]
fn colour_is_asked_for_or_not_there() {
    let (sandbox, _) = branched();
    for (args, variable, coloured) in [
        (&["log"][..], None, false),
        (&["log", "--color", "always"], None, true),
        (&["log", "--color", "always"], Some("1"), true),
        (&["log", "--color", "never"], None, false),
        (&["show"], Some("1"), false),
        (&["show", "nothing", "--color", "always"], None, true),
        (&["show", "nothing"], None, false),
    ] {
        let mut command = sandbox.command(args);
        command.envs(variable.map(|value| ("NO_COLOR", value)));
        let output = command.output().unwrap();
        let all = [output.stdout, output.stderr].concat();
        assert_eq!(all.contains(&0x1b), coloured, "{args:?} {variable:?}");
    }
}

#[test]
fn text_from_elsewhere_cannot_steer_the_terminal() {
    let sandbox = Sandbox::with_store();
    sandbox.commit("bad \x1b[2J\x07 news", ["--label", "a\x1bb"]);
    for args in [&["log"][..], &["show"], &["log", "--graph"]] {
        let ran = sandbox.ok(args);
        assert!(!ran.out.contains('\x1b') && ran.out.contains("bad \\u{1b}[2J\\u{7} news"), "{ran:?}");
    }
}

#[test]
fn errors_have_a_code_their_causes_and_a_hint() {
    let sandbox = Sandbox::for_store();
    let ran = sandbox.run(["store", "stat"]);
    let path = sandbox.path(".infinijup");
    assert_eq!(
        ran.err,
        format!(
            "error[IJ-S002]: no store at `{}`\n  hint: create one with `infinijup store init`, or name another with --store\n",
            path.display()
        )
    );
    sandbox.ok(["store", "init"]);
    let ran = sandbox.run(["import", "nothing.ijx"]);
    assert_eq!(
        ran.err,
        "error[IJ-S001]: cannot open `nothing.ijx`\n  caused by: No such file or directory (os error 2)\n"
    );
}

#[test]
fn quiet_and_verbose() {
    let sandbox = Sandbox::with_store();
    assert_eq!(sandbox.ok(["log", "-q"]).err, "");
    assert!(sandbox.ok(["log", "-v"]).err.starts_with("using the store in "));
    sandbox.commit("x", []);
    let json = sandbox.run(["store", "verify", "--bytes", "--json"]);
    assert!(json.err.contains("\"message_type\":\"progress\",\"task\":\"verify\""), "{json:?}");
    assert_eq!(sandbox.run(["store", "verify", "--bytes", "--json", "--no-progress"]).err, "");
    assert_eq!(sandbox.run(["store", "verify", "--bytes"]).err, "");
}
