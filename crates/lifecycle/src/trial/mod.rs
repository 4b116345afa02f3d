//! Every pipeline, cut short everywhere: what is left is one of the states that docs/architecture.md allows.
//!
//! The pipelines run as they are, with the real journal, records, store, files and recovery, on a machine that is made for this
//! ([`machine`]): it needs neither root nor CRIU. A *story* ([`stories`]) is a session in some situation, one operation, and the
//! states that may come of it. It is told once unharmed, in a process of its own that stands for the daemon, which writes down every moment
//! that it passes ([`crate::effects`]) and every request that it makes of the machine. Then it is told again for each of these moments, with the
//! daemon killed there, and for each request, with that one failing. A machine that hangs is a daemon that is killed while it waits, so
//! it is among the first; but a dump is done by a worker that may outlive its daemon, and that is told, too.
//!
//! After each telling the state directory is opened as a new daemon would ([`ground`]), and looked at as a user would: which sessions there are,
//! whether their processes live and run, with which memory and which files, whether anything is left over; and whether the session can
//! still be snapshotted, brought back and stopped.

pub(crate) mod fuse;
mod ground;
mod listed;
pub(crate) mod machine;
mod rest;
mod stories;

use std::process::{Command, Output};
use std::time::Duration;

use fuse::Fault;
use ground::Ground;
use stories::{STORIES, Story};

/// How a daemon is told what to do: story, fault, home.
const TASK: &str = "INFINIJUP_TRIAL";

/// A process of its own, which is this program with one of the two tests below.
fn run(test: &str, ground: &Ground, story: &Story, fault: Fault) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{} {fault} {}", story.name, ground.home().display()))
        .output()
        .unwrap()
}

fn task() -> Option<(&'static Story, Fault, Ground)> {
    let task = std::env::var(TASK).ok()?;
    let [name, how, at, home] = task.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    Some((story, Fault::read(how, at), Ground::at(home.into())))
}

/// The daemon of a story.
#[test]
#[ignore = "the process that dies in the tests below"]
fn the_daemon_of_a_story() {
    let Some((story, fault, ground)) = task() else { return };
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

/// The daemon that comes after it.
#[test]
#[ignore = "the process that looks at what is left in the tests below"]
fn the_daemon_that_comes_after() {
    let Some((story, fault, ground)) = task() else { return };
    let allowed = match fault {
        Fault::None => story.after.to_vec(),
        Fault::DiesAt(_) | Fault::Outlived => [story.untouched, story.after, story.between].concat(),
        Fault::FailsAt(_) => [story.untouched, story.after, story.between, story.failed].concat(),
    };
    ground.check(story.kept, &allowed);
}

/// Tells a story with one fault, and looks at what is left. Returns what it passed: moments and requests, in order.
fn tell(story: &Story, fault: Fault) -> Vec<String> {
    let ground = Ground::new();
    let output = run("trial::the_daemon_of_a_story", &ground, story, fault);
    let told = ground.told();
    let has = |line: &str| told.iter().any(|one| one == line);
    let last = told.iter().rev().find(|line| !matches!(line.as_str(), "died" | "failed"));
    let context = format!("{}, {fault}, after {last:?}", story.name);
    assert!(has("died") || output.status.success(), "{context}: {}", text(output));
    assert_eq!(has("died"), matches!(fault, Fault::DiesAt(_) | Fault::Outlived), "{context}");
    assert_eq!(has("failed"), matches!(fault, Fault::FailsAt(_)), "{context}");
    let looked = run("trial::the_daemon_that_comes_after", &ground, story, fault);
    assert!(looked.status.success(), "{context}: {}", text(looked));
    told
}

fn text(output: Output) -> String {
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn try_everywhere(name: &str) {
    let story = STORIES.iter().find(|story| story.name == name).unwrap();
    let told = tell(story, Fault::None);
    let count = |sort: &str| told.iter().filter(|line| line.starts_with(sort)).count();
    let (moments, requests) = (count("moment"), count("request"));
    assert!(moments >= story.moments, "{name} passes {moments} moments only: {told:#?}");
    steps_are_those_of_the_pipelines(name, &told);
    for at in 1..=moments {
        tell(story, Fault::DiesAt(at));
    }
    for at in 1..=requests {
        tell(story, Fault::FailsAt(at));
    }
    if told.iter().any(|line| line == "request dump") {
        tell(story, Fault::Outlived);
    }
}

/// An unharmed story passes every step of its pipeline that is not for some days only; and nothing is told of a step that no pipeline has.
fn steps_are_those_of_the_pipelines(story: &str, told: &[String]) {
    let pipelines = listed::pipelines();
    let passed = |step: &str| told.iter().any(|line| *line == format!("moment {step}: over"));
    for pipeline in pipelines.iter().filter(|pipeline| pipeline.name == story) {
        for step in &pipeline.always {
            assert!(passed(step), "{story} does not pass `{step}`: {told:#?}");
        }
    }
    let written = told.iter().skip_while(|line| !line.starts_with("moment the journal says"));
    let begun = written.filter_map(|line| line.strip_prefix("moment ")?.strip_suffix(": begun"));
    for step in begun {
        let known = pipelines.iter().any(|pipeline| pipeline.told.contains(&step));
        assert!(known, "{story} tells of `{step}`, which is in no pipeline");
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
