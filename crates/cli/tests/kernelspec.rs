//! `kernelspec`: what it makes out of which kernelspec, and what it leaves alone.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use common::{Ran, Sandbox};
use serde_json::Value;

const IPYKERNEL: &str = r#"{"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
    "display_name": "Python 3 (ipykernel)", "language": "python", "metadata": {"debugger": true},
    "kernel_protocol_version": "5.5", "env": {"A": "${B}"}}"#;
const HELPER: &str = r#"{"argv": ["{resource_dir}/run", "{connection_file}"], "display_name": "R", "language": "R",
    "interrupt_mode": "message"}"#;
const REMOTE: &str = r#"{"argv": ["x"], "display_name": "far", "language": "x",
    "metadata": {"kernel_provisioner": {"provisioner_name": "ssh"}}}"#;

/// A user with three kernelspecs and no others.
fn user() -> Sandbox {
    let sandbox = Sandbox::new();
    for (name, text) in [("python3", IPYKERNEL), ("ir", HELPER), ("far", REMOTE)] {
        sandbox.write(format!("all/share/jupyter/kernels/{name}/kernel.json"), text);
    }
    sandbox.write("all/share/jupyter/kernels/python3/logo-svg.svg", "<svg/>");
    sandbox.write("all/share/jupyter/kernels/python3/secret.txt", "no logo");
    sandbox
}

fn run(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let mut command = sandbox.command(args);
    command.env("HOME", sandbox.path("home")).env("PATH", "/nowhere").env("VIRTUAL_ENV", sandbox.path("all"));
    for name in ["JUPYTER_PATH", "JUPYTER_DATA_DIR", "XDG_DATA_HOME", "CONDA_PREFIX", "IPYTHONDIR"] {
        command.env_remove(name);
    }
    Ran::from(command.output().unwrap())
}

fn ok(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    let ran = run(sandbox, &[args, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json()
}

fn file(sandbox: &Sandbox, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(sandbox.path(path)).unwrap()).unwrap()
}

#[test]
fn a_wrapped_kernelspec_runs_the_same_command() {
    let sandbox = user();
    let said = ok(&sandbox, &["kernelspec", "install"]);
    assert_eq!(said[0]["kernelspecs"][0]["name"], "infinijup-python3");
    let made = "home/.local/share/jupyter/kernels/infinijup-python3";
    let spec = file(&sandbox, &format!("{made}/kernel.json"));
    let old: Value = serde_json::from_str(IPYKERNEL).unwrap();
    for field in ["argv", "language", "env", "kernel_protocol_version"] {
        assert_eq!(spec[field], old[field], "{field}");
    }
    assert_eq!(spec["display_name"], "Python 3 (ipykernel) (infinijup)");
    assert_eq!(spec["metadata"]["debugger"], true);
    assert_eq!(spec["metadata"]["kernel_provisioner"]["provisioner_name"], "infinijup");
    assert!(sandbox.path(format!("{made}/logo-svg.svg")).exists());
    assert!(!sandbox.path(format!("{made}/secret.txt")).exists());
    // Again, and the same is there.
    ok(&sandbox, &["kernelspec", "install", "--kernel", "python3"]);
    assert_eq!(file(&sandbox, &format!("{made}/kernel.json")), spec);

    let listed = ok(&sandbox, &["kernelspec", "list"]);
    assert_eq!(listed[0]["kernelspecs"][0]["wraps"], "python3");
    ok(&sandbox, &["kernelspec", "remove", "infinijup-python3"]);
    assert!(!sandbox.path(made).exists());
    assert!(sandbox.path("all/share/jupyter/kernels/python3/kernel.json").exists());
}

#[test]
fn a_standalone_one_runs_this_program_in_its_place() {
    let sandbox = user();
    ok(&sandbox, &["kernelspec", "install", "--standalone", "--kernel", "ir"]);
    let spec = file(&sandbox, "home/.local/share/jupyter/kernels/infinijup-ir/kernel.json");
    let words: Vec<&str> =
        spec["argv"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert!(words[0].ends_with("/infinijup"), "{words:?}");
    let helper = sandbox.path("all/share/jupyter/kernels/ir/run");
    let rest = ["kernel", "run", "-f", "{connection_file}", "--spec", "ir", "--language", "R", "--"];
    assert_eq!(words[1..10], rest);
    assert_eq!(words[10..], [helper.to_str().unwrap(), "{connection_file}"]);
    assert_eq!(spec["interrupt_mode"], "message");
    assert_eq!(spec["metadata"]["kernel_provisioner"]["provisioner_name"], "local-provisioner");
    // It is ours, and made into the other sort by the same command.
    ok(&sandbox, &["kernelspec", "install", "--kernel", "ir"]);
    let spec = file(&sandbox, "home/.local/share/jupyter/kernels/infinijup-ir/kernel.json");
    assert_eq!(spec["argv"][0], helper.to_str().unwrap());
}

#[test]
fn all_that_can_be_wrapped_are_and_not_twice() {
    let sandbox = user();
    let all = sandbox.path("all");
    for _ in 0..2 {
        let ran =
            run(&sandbox, &["kernelspec", "install", "--all", "--prefix", all.to_str().unwrap(), "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("by `ssh`"), "{ran:?}");
        let names: Vec<_> = ran.json()[0]["kernelspecs"].as_array().unwrap().clone();
        assert_eq!(names.len(), 2, "{names:?}");
    }
    let spec = file(&sandbox, "all/share/jupyter/kernels/infinijup-ir/kernel.json");
    let helper = all.join("share/jupyter/kernels/ir/run");
    assert_eq!(spec["argv"][0], helper.to_str().unwrap());
    assert_eq!(spec["interrupt_mode"], "message");
    let removed = ok(&sandbox, &["kernelspec", "remove", "--all"]);
    assert_eq!(removed[0]["kernelspecs"].as_array().unwrap().len(), 2);
    assert_eq!(ok(&sandbox, &["kernelspec", "list"])[0]["kernelspecs"], Value::Array(Vec::new()));
}

#[test]
fn what_somebody_else_installed_is_left_alone() {
    let sandbox = user();
    let fails = |code: i32, words: &[&str]| {
        let ran = run(&sandbox, words);
        assert_eq!(ran.code, code, "{ran:?}");
    };
    let all = sandbox.path("all");
    fails(14, &["kernelspec", "install", "--name", "ir", "--prefix", all.to_str().unwrap()]);
    fails(2, &["kernelspec", "remove", "ir"]);
    fails(2, &["kernelspec", "install", "--name", "../x"]);
    fails(2, &["kernelspec", "install", "--kernel", "far"]);
    fails(2, &["kernelspec", "install", "--kernel", "ir", "--kernel", "python3", "--name", "x"]);
    fails(15, &["kernelspec", "install", "--kernel", "nothing"]);
    assert!(sandbox.path("all/share/jupyter/kernels/ir/kernel.json").exists());
    assert!(!sandbox.path("home").exists());
}
