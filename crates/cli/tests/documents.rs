//! What the documents and the help say is so.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::process::{Command, Stdio};

use common::{BINARY, Sandbox};

fn page(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The first shell block after `heading`.
fn script(page: &str, heading: &str) -> String {
    let (_, rest) = page.split_once(heading).unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_quickstart_runs_word_for_word() {
    let script = script(&page("cli.md"), "## Quickstart");
    assert!(script.lines().count() > 10, "{script}");
    let out = run(&script);
    for expected in
        ["(main, tag good)  first epoch", "├─╯", "epoch,loss\nwrote commit", "no problems found\n"]
    {
        assert!(out.contains(expected), "`{expected}` is not in\n{out}");
    }
}

#[test]
fn the_readme_runs_word_for_word() {
    let out = run(&script(&page("../README.md"), "## Try it"));
    for expected in ["a second epoch", "epoch,loss\n1,0.42\n", "no problems found\n"] {
        assert!(out.contains(expected), "`{expected}` is not in\n{out}");
    }
}

/// Runs a script with our program in front of the path; returns what it printed.
fn run(script: &str) -> String {
    let sandbox = Sandbox::new();
    let bin = std::path::Path::new(BINARY).parent().unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-eu", "-c", script])
        .current_dir(sandbox.path(""))
        .stdin(Stdio::null())
        .env("LC_ALL", "C.UTF-8");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path =
        std::env::join_paths(std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&path))).unwrap();
    shell.env("PATH", path).env_remove("INFINIJUP_STORE");
    let output = shell.output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{out}\n{}", String::from_utf8_lossy(&output.stderr));
    out
}

/// Other names of commands, and what is for tests: no help lists them.
const HIDDEN: &[&[&str]] = &[&["history"], &["store", "gc"], &["debug"], &["debug", "commit"]];

/// Every command, by its path.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["run"],
    &["kernel"],
    &["kernel", "start"],
    &["kernel", "list"],
    &["kernel", "run"],
    &["ps"],
    &["snapshot"],
    &["rollback"],
    &["branch"],
    &["suspend"],
    &["resume"],
    &["stop"],
    &["restart"],
    &["signal"],
    &["rm"],
    &["logs"],
    &["exec"],
    &["files"],
    &["servers"],
    &["diff"],
    &["forget"],
    &["gc"],
    &["attach"],
    &["checkpoint"],
    &["restore"],
    &["events"],
    &["doctor"],
    &["daemon"],
    &["daemon", "start"],
    &["daemon", "stop"],
    &["daemon", "status"],
    &["daemon", "install"],
    &["daemon", "uninstall"],
    &["kernelspec"],
    &["kernelspec", "install"],
    &["kernelspec", "list"],
    &["kernelspec", "remove"],
    &["demo"],
    &["mcp"],
    &["detect"],
    &["selftest"],
    &["setup-gpu"],
    &["store"],
    &["store", "encrypt"],
    &["store", "init"],
    &["store", "stat"],
    &["store", "verify"],
    &["store", "rebuild"],
    &["store", "rotate-keys"],
    &["log"],
    &["history"],
    &["store", "gc"],
    &["show"],
    &["cat"],
    &["tag"],
    &["export"],
    &["import"],
    &["remote"],
    &["remote", "add"],
    &["remote", "list"],
    &["remote", "remove"],
    &["remote", "verify"],
    &["remote", "gc"],
    &["remote", "stat"],
    &["push"],
    &["fetch"],
    &["pull"],
    &["clone"],
    &["mount"],
    &["check"],
    &["trust"],
    &["completions"],
    &["man"],
    &["debug"],
    &["debug", "commit"],
];

#[test]
fn every_help_has_an_example_of_that_command() {
    let sandbox = Sandbox::new();
    for command in COMMANDS.iter().filter(|command| !command.starts_with(&["store", "gc"])) {
        for help in ["-h", "--help"] {
            let ran = sandbox.ok(command.iter().copied().chain([help]));
            let (_, examples) =
                ran.out.split_once("\nExample:\n").unwrap_or_else(|| panic!("{command:?}: {}", ran.out));
            assert!(
                examples
                    .contains(&["infinijup"].iter().chain(*command).copied().collect::<Vec<_>>().join(" "))
            );
        }
    }
}

#[test]
fn no_visible_command_is_missing_here_or_in_the_guide() {
    let sandbox = Sandbox::new();
    let guide = page("cli.md");
    for parent in [&[][..], &["store"], &["kernel"], &["remote"]] {
        let help = sandbox.ok(parent.iter().copied().chain(["-h"])).out;
        let (_, list) = help.split_once("Commands:\n").unwrap();
        let (list, _) = list.split_once("\n\n").unwrap();
        for name in list.lines().filter_map(|line| line.split_whitespace().next()) {
            let path: Vec<&str> = parent.iter().copied().chain([name]).collect();
            assert!(COMMANDS.contains(&&path[..]), "{path:?}");
            assert!(
                guide.contains(&format!("infinijup {}", path.join(" "))),
                "docs/cli.md does not mention {path:?}"
            );
        }
    }
    assert!(!sandbox.ok(["-h"]).out.contains("debug"));
    let help = |path: &[&str]| sandbox.ok(path.iter().copied().chain(["-h"])).out;
    let after_usage = |text: String| text.split_once("\nOptions:").unwrap().1.to_owned();
    assert_eq!(after_usage(help(&["store", "gc"])), after_usage(help(&["gc"])), "one verb, two names");
}

#[test]
fn completions_come_without_a_store() {
    let sandbox = Sandbox::new();
    // A store that nobody could open would be noticed.
    sandbox.write(".infinijup/format", "nonsense");
    for shell in ["bash", "zsh", "fish"] {
        let ran = sandbox.ok(["completions", shell]);
        assert!(
            ran.out.contains("rotate-keys") && ran.out.contains("rollback") && ran.err.is_empty(),
            "{ran:?}"
        );
    }
    assert_eq!(sandbox.files(".").len(), 1);
}

#[test]
fn manual_pages_are_written_for_every_visible_command() {
    let sandbox = Sandbox::new();
    let lines = sandbox.json(["man", "--out", "man/man1"]);
    let pages = lines[0]["pages"].as_array().unwrap();
    let visible = COMMANDS.iter().filter(|command| !HIDDEN.contains(command)).count();
    assert_eq!(pages.len(), visible);
    for page in pages {
        let text = std::fs::read_to_string(sandbox.path("man/man1").join(page.as_str().unwrap())).unwrap();
        assert!(text.contains(".SH NAME") && text.contains("Example:"), "{page}");
    }
    let gc = std::fs::read_to_string(sandbox.path("man/man1/infinijup-gc.1")).unwrap();
    assert!(gc.contains("infinijup gc") && gc.contains("dry\\-run"), "{gc}");
    let rollback = std::fs::read_to_string(sandbox.path("man/man1/infinijup-rollback.1")).unwrap();
    assert!(rollback.contains("automatic snapshot") && rollback.contains("force"), "{rollback}");
}

#[test]
fn every_exit_code_in_the_source_is_in_the_table() {
    let page = page("scripting.md");
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/exit.rs")).unwrap();
    let (_, codes) = source.split_once("enum Code {").unwrap();
    let (codes, _) = codes.split_once('}').unwrap();
    let numbers: Vec<&str> =
        codes.lines().filter_map(|line| line.split_once("= ")?.1.strip_suffix(',')).collect();
    assert!(numbers.len() >= 11, "{numbers:?}");
    for number in numbers {
        assert!(page.contains(&format!("\n| {number} | ")), "exit code {number} is not in docs/scripting.md");
    }
}
