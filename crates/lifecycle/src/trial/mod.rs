//! Every pipeline, cut short everywhere: what is left is one of the states that docs/architecture.md allows.
//!
//! The pipelines run as they are, with the real journal, records, store, files and recovery, on a machine that is made for this
//! ([`machine`]): it needs neither root nor CRIU. A *story* ([`stories`]) is a session in some situation, one operation, and the
//! states that may come of it. It is told once unharmed, in a process of its own that stands for the daemon, which writes down every moment
//! that it passes ([`crate::effects`]) and every request that it makes of the machine. Then it is told again for each of these moments, with the
//! daemon killed there, and for each request, with that one failing; a machine that hangs is a daemon that is killed while it waits, so
//! it is among the first.
//!
//! After each telling the state directory is opened as a new daemon would ([`ground`]), and looked at as a user would: which sessions there are,
//! whether their processes live and run, with which memory and which files, whether anything is left over; and whether the session can
//! still be snapshotted, brought back and stopped.

pub(crate) mod fuse;
mod ground;
pub(crate) mod machine;
mod stories;

use std::process::Command;
use std::time::Duration;

use fuse::Fault;
use ground::Ground;
use stories::{STORIES, Story};

/// How the daemon of a story is told what to do: home, story, fault.
const TASK: &str = "INFINIJUP_TRIAL";

/// Tells a story in a process of its own, and says what it passed: moments and requests, in order.
fn tell(ground: &Ground, story: &Story, fault: Fault) -> Vec<String> {
    let task = match fault {
        Fault::None => "none 0".to_owned(),
        Fault::DiesAt(at) => format!("dies {at}"),
        Fault::FailsAt(at) => format!("fails {at}"),
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "trial::daemon", "--ignored", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{} {task} {}", story.name, ground.home().display()))
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let told = ground.told();
    let died = told.last().is_some_and(|line| line == "died");
    assert!(died || output.status.success(), "{}: {}", story.name, String::from_utf8_lossy(&text));
    assert_eq!(died, matches!(fault, Fault::DiesAt(_)), "{}, {fault:?}", story.name);
    assert_eq!(
        told.iter().any(|line| line == "failed"),
        matches!(fault, Fault::FailsAt(_)),
        "{}",
        story.name
    );
    told
}

/// The daemon of a story.
#[test]
#[ignore = "the process that dies in the tests below"]
fn daemon() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [name, how, at, home] = task.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let at = at.parse().unwrap();
    let fault = match how {
        "dies" => Fault::DiesAt(at),
        "fails" => Fault::FailsAt(at),
        _ => Fault::None,
    };
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    let ground = Ground::at(home.into());
    let (engine, _) = ground.open();
    (story.before)(&ground, &engine);
    fuse::light(fault, &ground.told_file());
    let done = (story.act)(&engine);
    if fault == Fault::None {
        done.unwrap();
    }
    // What follows an operation on its own, the end of a process for one, has a moment.
    std::thread::sleep(Duration::from_millis(10));
}

fn try_everywhere(name: &str) {
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    let unharmed = Ground::new();
    let told = tell(&unharmed, story, Fault::None);
    unharmed.check(story, "unharmed", &story.after);
    let count = |sort: &str| told.iter().filter(|line| line.starts_with(sort)).count();
    let (moments, requests) = (count("moment"), count("request"));
    assert!(moments >= story.moments, "{name} passes {moments} moments only: {told:#?}");
    for at in 1..=moments {
        let ground = Ground::new();
        let told = tell(&ground, story, Fault::DiesAt(at));
        let last = told.iter().rev().nth(1).cloned().unwrap_or_default();
        let allowed = [story.untouched, story.after, story.between].concat();
        ground.check(story, &format!("killed at {at}, {last}"), &allowed);
    }
    for at in 1..=requests {
        let ground = Ground::new();
        let told = tell(&ground, story, Fault::FailsAt(at));
        let failed = told.iter().take_while(|line| *line != "failed").last().cloned().unwrap_or_default();
        let allowed = [story.untouched, story.after, story.between, story.failed].concat();
        ground.check(story, &format!("{failed} failed"), &allowed);
    }
}

/// A test for each story, so that they run side by side.
macro_rules! stories {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                try_everywhere(stringify!($name));
            }
        )*

        #[test]
        fn every_story_is_tried() {
            let tried = [$(stringify!($name)),*];
            assert!(STORIES.iter().all(|story| tried.contains(&story.name)));
            assert_eq!(STORIES.len(), tried.len());
        }
    };
}

stories! {
    start snapshot suspend resume rollback rollback_of_a_sleeper branch branch_of_a_sleeper restart restart_with_snapshot stop remove
}
