//! The user's own daemon: started when it is needed, ended when it is told to, looked at.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use common::Ran;
use common::home::Home;
use serde_json::Value;

fn until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < deadline, "it did not come to pass");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_command_starts_it_and_it_is_ended_and_looked_at() {
    let Some(home) = Home::new() else { return };
    let status = home.json(&["daemon", "status"], 16);
    assert_eq!((&status["running"], &status["daemon"]), (&false.into(), &Value::Null));

    let ran = home.run(&["ps"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let status = home.json(&["daemon", "status"], 0);
    let daemon = &status["daemon"];
    let pid = daemon["pid"].as_u64().unwrap();
    assert_eq!((&status["running"], &daemon["sessions_running"]), (&true.into(), &0.into()));
    assert_eq!(daemon["state"].as_str().map(Path::new), Some(&*home.path("state")));
    assert_eq!(home.json(&["daemon", "start"], 0)["already_running"], true);
    assert_eq!(home.json(&["daemon", "start"], 0)["pid"], pid);
    let text = home.run(&["daemon", "status"]).out;
    assert!(text.contains(&format!("process {pid}")) && text.contains("logout "), "{text}");

    // It is nobody's: a session of its own, and a log that only its user reads.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(
        (fields[3], fields[4]),
        (&*pid.to_string(), "0"),
        "its own session, without a terminal: {stat}"
    );
    let log = std::fs::metadata(home.path("state/daemon.log")).unwrap();
    assert_eq!(log.mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(home.path("state/daemon.log")).unwrap().contains("ready"));

    assert_eq!(home.json(&["daemon", "stop"], 0)["pid"], pid);
    assert!(
        !Path::new(&format!("/proc/{pid}/stat")).exists()
            || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ")
    );
    assert_eq!(home.json(&["daemon", "stop"], 0)["pid"], Value::Null, "once is enough");
    assert_eq!(home.json(&["daemon", "start"], 0)["already_running"], false);
}

#[test]
fn of_many_who_need_it_one_starts_it() {
    let Some(home) = Home::new() else { return };
    let starting: Vec<_> = (0..6)
        .map(|_| {
            let mut command = home.command(&["daemon", "start", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let said: Vec<Value> = starting
        .into_iter()
        .map(|child| {
            let ran = Ran::from(child.wait_with_output().unwrap());
            assert_eq!(ran.code, 0, "{ran:?}");
            ran.json().remove(0)
        })
        .collect();
    assert_eq!(said.iter().filter(|one| one["already_running"] == false).count(), 1, "{said:?}");
    assert!(said.iter().all(|one| one["pid"] == said[0]["pid"]), "{said:?}");
}

#[test]
fn it_ends_when_nobody_needs_it_and_comes_back_when_somebody_does() {
    let Some(home) = Home::new() else { return };
    let started = Ran::from(
        home.command(&["daemon", "start", "--json"]).env("INFINIJUP_IDLE_END", "0.5").output().unwrap(),
    );
    assert_eq!(started.json()[0]["idle_end_s"], 0.5);
    until(|| !home.path("run/infinijupd.sock").exists());
    assert_eq!(home.run(&["ps"]).code, 0);
    assert_ne!(home.json(&["daemon", "status"], 0)["daemon"]["pid"], started.json()[0]["pid"]);
}

#[test]
fn after_a_kill_the_next_command_starts_another() {
    let Some(home) = Home::new() else { return };
    let pid = home.json(&["daemon", "start"], 0)["pid"].as_i64().unwrap();
    let process = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    until(|| home.json(&["daemon", "start"], 0)["pid"] != pid);
    assert_eq!(home.run(&["ps"]).code, 0);
}

#[test]
fn its_store_is_encrypted_and_needs_the_key_from_then_on() {
    let Some(home) = Home::new() else { return };
    let run = |args: &[&str]| {
        let mut command = home.command(&[args, &["--json"]].concat());
        Ran::from(command.env("INFINIJUP_SETTINGS", home.path("config/settings.toml")).output().unwrap())
    };
    let pid = run(&["daemon", "start"]).json()[0]["pid"].clone();
    assert_eq!(run(&["daemon", "status"]).json()[0]["daemon"]["store_encrypted"], false);
    let done = run(&["store", "encrypt"]);
    assert_eq!(done.code, 0, "{done:?}");
    let (said, key) = (&done.json()[0], home.path("config/store.key"));
    assert_eq!((&said["message_type"], &said["already"]), (&"store_encrypted".into(), &false.into()));
    assert_eq!(said["key_file"].as_str().map(Path::new), Some(&*key));
    assert_eq!(std::fs::metadata(&key).unwrap().mode() & 0o7777, 0o600);
    let progress = |ran: &Ran, task: &str| ran.err.contains(&format!("\"task\":\"{task}\""));
    assert!(progress(&done, "verify"), "{done:?}");
    let status = run(&["daemon", "status"]).json().remove(0);
    assert_eq!(status["daemon"]["store_encrypted"], true, "started again, since it ran");
    assert_ne!(status["daemon"]["pid"], pid);
    assert_eq!(run(&["store", "encrypt"]).json()[0]["already"], true);

    run(&["daemon", "stop"]);
    std::fs::rename(&key, home.path("away")).unwrap();
    let refused = run(&["ps"]);
    assert!(refused.code == 16 && refused.err.contains("IJ-L090"), "{refused:?}");
    assert!(!key.exists(), "no other key is made");
    std::fs::rename(home.path("away"), &key).unwrap();
    assert_eq!(run(&["ps"]).code, 0);

    let store = home.path("mine");
    let refused = run(&["store", "encrypt", "--store", store.to_str().unwrap()]);
    assert!(refused.code == 2 && refused.err.contains("store init --encrypt"), "{refused:?}");
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let home = Home::without_daemon();
    let script = home.path("infinijupd");
    std::fs::write(&script, "#!/bin/sh\necho earlier\necho 'no room for a daemon' >&2\nexit 3\n").unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let ran = home.fails(home.command(&["ps"]).env("INFINIJUP_DAEMON", &script), 16, "IJ-C038");
    assert!(ran.err.contains("no room for a daemon") && ran.err.contains("exit status: 3"), "{ran:?}");
    let ran =
        Ran::from(home.command(&["doctor", "--json"]).env("INFINIJUP_DAEMON", &script).output().unwrap());
    let finding = &ran.json()[0]["findings"][0];
    assert_eq!((ran.code, &finding["state"]), (3, &"fail".into()));
    assert!(finding["evidence"].as_str().unwrap().contains("no room for a daemon"), "{finding}");

    let nowhere = home.path("nowhere");
    home.fails(home.command(&["ps"]).env("INFINIJUP_DAEMON", &nowhere), 16, "IJ-C039");
}

#[test]
fn a_long_log_is_put_aside() {
    let Some(home) = Home::new() else { return };
    std::fs::create_dir(home.path("state")).unwrap();
    std::fs::File::create(home.path("state/daemon.log")).unwrap().set_len(9 << 20).unwrap();
    home.json(&["daemon", "start"], 0);
    assert_eq!(std::fs::metadata(home.path("state/daemon.log.1")).unwrap().len(), 9 << 20);
    assert!(std::fs::metadata(home.path("state/daemon.log")).unwrap().len() < 1 << 20);
}

#[test]
fn nobody_starts_one_who_means_another() {
    let home = Home::without_daemon();
    let touched = |name: &str, value: &str| {
        home.fails(home.command(&["ps"]).env(name, value), 16, "IJ-C030");
        assert!(!home.path("state").exists() && !home.path("run").exists(), "{name}");
    };
    touched("INFINIJUP_AUTOSTART", "0");
    touched("INFINIJUP_SESSION", "train");
    touched("INFINIJUP_SOCKET", home.path("other.sock").to_str().unwrap());
    let other = home.path("other.sock");
    home.fails(&mut home.command(&["ps", "--socket", other.to_str().unwrap()]), 16, "IJ-C030");
}

#[test]
fn a_run_directory_that_others_could_have_prepared_is_refused() {
    let home = Home::without_daemon();
    std::fs::create_dir(home.path("run")).unwrap();
    std::fs::set_permissions(home.path("run"), PermissionsExt::from_mode(0o777)).unwrap();
    let ran = home.fails(&mut home.command(&["ps"]), 1, "IJ-D004");
    assert!(ran.err.contains("others may write there") && ran.err.contains("INFINIJUP_RUN"), "{ran:?}");
}

#[test]
fn units_are_installed_where_systemd_runs_and_taken_back() {
    let home = Home::without_daemon();
    let bin = home.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let systemctl = bin.join("systemctl");
    let write = |path: &Path, script: &str| {
        std::fs::write(path, script).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    write(&systemctl, "#!/bin/sh\necho 'Failed to connect to bus: No medium found' >&2\nexit 1\n");
    write(&bin.join("infinijupd"), "#!/bin/sh\n");
    let run = |words: &[&str]| {
        let mut command = home.command(words);
        command.env("PATH", &bin).env("INFINIJUP_DAEMON", bin.join("infinijupd"));
        command
    };
    let ran = home.fails(&mut run(&["daemon", "install"]), 1, "IJ-C041");
    assert!(ran.err.contains("No medium found"), "{ran:?}");
    let units = home.path("home/.config/systemd/user");
    assert!(!units.exists());

    let calls = home.path("calls");
    write(&systemctl, &format!("#!/bin/sh\necho \"$@\" >> {}\n", calls.display()));
    let ran = Ran::from(run(&["daemon", "install", "--json"]).output().unwrap());
    assert_eq!((ran.code, ran.json()[0]["units"].as_array().map(Vec::len)), (0, Some(2)), "{ran:?}");
    let service = std::fs::read_to_string(units.join("infinijupd.service")).unwrap();
    assert!(service.contains(&format!("ExecStart=\"{}\"", bin.join("infinijupd").display())), "{service}");
    assert!(
        service.contains(&format!("Environment=\"INFINIJUP_STATE={}\"", home.path("state").display())),
        "{service}"
    );
    let socket = std::fs::read_to_string(units.join("infinijupd.socket")).unwrap();
    assert!(
        socket.contains(&format!("ListenStream={}", home.path("run/infinijupd.sock").display())),
        "{socket}"
    );
    let called = std::fs::read_to_string(&calls).unwrap();
    assert_eq!(
        called,
        "--user show-environment\n--user daemon-reload\n--user enable --now infinijupd.socket\n"
    );

    let ran = Ran::from(run(&["daemon", "uninstall", "--json"]).output().unwrap());
    assert_eq!((ran.code, ran.json()[0]["units"].as_array().map(Vec::len)), (0, Some(2)), "{ran:?}");
    assert_eq!(std::fs::read_dir(&units).unwrap().count(), 0);
    let ran = Ran::from(run(&["daemon", "uninstall", "--json"]).output().unwrap());
    assert_eq!((ran.code, ran.json()[0]["units"].as_array().map(Vec::len)), (0, Some(0)), "{ran:?}");
}
