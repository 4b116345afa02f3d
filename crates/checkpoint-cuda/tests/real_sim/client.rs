//! The client is killed while the worker is in the middle of a call.

use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use checkpoint_cuda::{Action, Driver, NoNotes, Notes, State, Target};
use serde_json::json;

use crate::machine::{HOME, Machine, Process, WORKER, wait_until};

const TARGET: &str = "INFINIJUP_TEST_TARGET";

struct Book(fs::File);

impl Notes for Book {
    fn worker(&mut self, pid: i32, start_time: u64) -> Result<(), String> {
        writeln!(self.0, "{pid} {start_time}").map_err(|error| error.to_string())
    }

    fn about_to(&mut self, _: Action, _: i32) -> Result<(), String> {
        Ok(())
    }
}

/// What the process that is killed does; nothing when run by itself.
#[test]
#[ignore = "a part of the test below"]
fn the_client() {
    let (Ok(pid), Some(home)) = (env::var(TARGET), env::var_os(HOME)) else { return };
    let mut settings = checkpoint_cuda::Settings::new(WORKER);
    settings.library = Some(Path::new(&home).join("lib/libcuda.so.1"));
    let driver = Driver::open(settings).unwrap();
    let mut book = Book(fs::File::create(Path::new(&home).join("book")).unwrap());
    let target = Target { pid: pid.parse().unwrap(), vram_bytes: 8 << 20 };
    let tree = driver.lock(&[target], &mut book).unwrap().checkpoint(&mut book);
    drop(tree);
}

#[test]
fn a_worker_outlives_its_client_until_its_call_has_ended() {
    let Some(machine) = Machine::new(580) else { return };
    let process = Process::new(&machine, 8, &[0]);
    machine.fault("checkpoint", "during", process.pid(), &json!({"hold": true}));
    let mut client = Command::new(env::current_exe().unwrap())
        .args(["--exact", "client::the_client", "--ignored"])
        .env(TARGET, process.pid().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(machine.control(&json!({"do": "await-hold", "seconds": 20}))["held"], true);
    client.kill().unwrap();
    client.wait().unwrap();
    // The worker is in the middle of the call, and stays.
    let book = fs::read_to_string(machine.home.join("book")).unwrap();
    let worker = book.split_whitespace().next().unwrap().to_owned();
    let lives = || {
        let stat = fs::read_to_string(format!("/proc/{worker}/stat")).unwrap_or_default();
        // Nobody may have collected it yet.
        !stat.is_empty() && !stat.contains(") Z ")
    };
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(lives());
    machine.control(&json!({"do": "release"}));
    wait_until("the worker's end", || !lives());
    // What the next daemon does.
    let driver = machine.driver();
    assert_eq!(driver.state(process.pid()).unwrap(), State::Checkpointed);
    let brought = driver.make_running(&[process.pid()]);
    assert_eq!((brought[0].was, brought[0].now), (Some(State::Checkpointed), Some(State::Running)));
    process.is_whole();
    // And by hand, so that a later operation finds everything in order.
    driver.lock(&[process.target()], &mut NoNotes).unwrap().unlock().unwrap();
}
