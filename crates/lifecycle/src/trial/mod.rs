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
mod gpu;
mod ground;
mod listed;
pub(crate) mod machine;
mod stories;

use std::process::{Command, Output};
use std::time::Duration;

use fuse::Fault;
use ground::Ground;
use stories::{STORIES, Story};

/// How a daemon is told what to do: story, fault, home.
const TASK: &str = "INFINIJUP_TRIAL";

/// The name of a story that is told of sessions with a GPU ends so.
const ON_GPU: &str = "_on_gpu";

/// A story by its name, and whether its sessions have a GPU.
fn named(name: &str) -> (&'static Story, bool) {
    let plain = name.strip_suffix(ON_GPU);
    let story = STORIES.iter().find(|story| story.name == plain.unwrap_or(name)).unwrap();
    (story, plain.is_some())
}

/// A process of its own, which is this program with one of the two tests below.
fn run(test: &str, ground: &Ground, name: &str, fault: Fault) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env(TASK, format!("{name} {fault} {}", ground.home().display()))
        .output()
        .unwrap()
}

fn task() -> Option<(&'static Story, Fault, Ground)> {
    let task = std::env::var(TASK).ok()?;
    let [name, how, at, home] = task.splitn(4, ' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let (story, with_gpu) = named(name);
    Some((story, Fault::read(how, at), Ground::at(home.into(), with_gpu)))
}

/// The daemon of a story.
#[test]
#[ignore = "the process that dies in the tests below"]
fn the_daemon_of_a_story() {
    let Some((story, fault, ground)) = task() else { return };
    let (engine, _) = ground.open();
    (story.before)(&ground, &engine);
    fuse::light(fault, &ground.told_file());
    let done = (story.act)(&ground, &engine);
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
        // A dump whose memory is in doubt is made once more, plainly.
        Fault::FailsAt(_) if was_in_doubt(&ground.told()) => story.after.to_vec(),
        Fault::None => story.after.to_vec(),
        Fault::DiesAt(_) | Fault::Outlived => [story.untouched, story.after, story.between].concat(),
        Fault::FailsAt(_) => [story.untouched, story.after, story.between, story.failed].concat(),
    };
    ground.check(story.kept, &allowed);
}

/// Whether it was the memory that the machine was not sure of.
fn was_in_doubt(told: &[String]) -> bool {
    told.iter()
        .zip(told.iter().skip(1))
        .any(|(asked, then)| asked == &format!("moment about to {}", machine::BE_SURE) && then == "failed")
}

/// Tells a story with one fault, and looks at what is left. Returns what it passed: moments and requests, in order.
fn tell(name: &str, fault: Fault) -> Vec<String> {
    let ground = Ground::new(named(name).1);
    let output = run("trial::the_daemon_of_a_story", &ground, name, fault);
    let told = ground.told();
    let has = |line: &str| told.iter().any(|one| one == line);
    let last = told.iter().rev().find(|line| !matches!(line.as_str(), "died" | "failed"));
    let context = format!("{name}, {fault}, after {last:?}");
    assert!(has("died") || output.status.success(), "{context}: {}", text(output));
    assert_eq!(has("died"), matches!(fault, Fault::DiesAt(_) | Fault::Outlived), "{context}");
    assert_eq!(has("failed"), matches!(fault, Fault::FailsAt(_)), "{context}");
    let looked = run("trial::the_daemon_that_comes_after", &ground, name, fault);
    assert!(looked.status.success(), "{context}: {}", text(looked));
    told
}

fn text(output: Output) -> String {
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn try_everywhere(name: &str) {
    let (story, _) = named(name);
    let told = tell(name, Fault::None);
    let count = |sort: &str| told.iter().filter(|line| line.starts_with(sort)).count();
    let (moments, requests) = (count("moment"), count("request"));
    assert!(moments >= story.moments, "{name} passes {moments} moments only: {told:#?}");
    steps_are_those_of_the_pipelines(story.name, &told);
    for at in 1..=moments {
        tell(name, Fault::DiesAt(at));
    }
    for at in 1..=requests {
        tell(name, Fault::FailsAt(at));
    }
    if told.iter().any(|line| line == "request dump") {
        tell(name, Fault::Outlived);
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
        }
    };
}

stories! {
    start snapshot suspend resume rollback rollback_to_standby rollback_of_a_sleeper branch branch_of_a_sleeper restart restart_with_snapshot stop remove
    start_on_gpu snapshot_on_gpu suspend_on_gpu resume_on_gpu rollback_on_gpu rollback_of_a_sleeper_on_gpu branch_on_gpu restart_on_gpu stop_on_gpu
}
