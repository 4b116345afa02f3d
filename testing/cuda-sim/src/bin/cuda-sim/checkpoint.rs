//! `cuda-checkpoint`: a stand-in for NVIDIA's program of that name, with its documented options.
//!
//! It takes the same way to a process as the library's calls. On drivers that are older than those calls the program has
//! existed all the same: with `--toggle` alone on 550, with single actions from 555 on.
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use cuda_sim::checkpoint::caller::Caller;
use cuda_sim::checkpoint::placement::Pair;
use cuda_sim::checkpoint::state::State;
use cuda_sim::code::Code;

const HELP: &str = "\
CUDA checkpoint and restore utility (stand-in).
Usage:
    --get-state --pid PID           prints running, locked, checkpointed or failed
    --get-restore-tid --pid PID     prints the thread that restores the process
    --action lock|checkpoint|restore|unlock --pid PID
        --timeout MS                limit of a lock
        --device-map OLD=NEW,...    GPU UUIDs of a restore
    --toggle --pid PID              running to checkpointed, or back
    --help
";

#[derive(Debug, Default, PartialEq, Eq)]
struct Words {
    pid: Option<i32>,
    state: bool,
    thread: bool,
    toggle: bool,
    help: bool,
    action: Option<String>,
    timeout: Option<u64>,
    map: Vec<Pair>,
}

/// Runs the program; what it prints goes to the standard output.
///
/// # Errors
/// What went wrong, in words.
pub(crate) fn run(words: impl Iterator<Item = String>) -> Result<(), String> {
    let words = parse(words)?;
    if words.help {
        return print(HELP.trim_end());
    }
    let pid = words.pid.ok_or("--pid is needed")?;
    let directory = std::env::var_os("CUDA_SIM_DIR").unwrap_or_else(|| "/var/lib/cuda-sim".into());
    let caller = Caller::program(Path::new(&directory));
    let single = caller.level().number() >= 555;
    if !words.toggle && !single {
        return Err("this driver knows --toggle only".to_owned());
    }
    let failed = |what: &str, code: Code| {
        let text = code.text().map_or_else(|| code.0.to_string(), |text| text.to_string_lossy().into_owned());
        format!("Error {what} process ID {pid}: \"{text}\"")
    };
    if words.state {
        let number = caller.state(pid).map_err(|code| failed("getting state of", code))?;
        return print(State::from_number(number).map_or("unknown", State::word));
    }
    if words.thread {
        let thread = caller.restore_thread(pid).map_err(|code| failed("getting restore thread of", code))?;
        return print(&thread.to_string());
    }
    if words.toggle {
        return toggle(&caller, pid).map_err(|code| failed("toggling CUDA in", code));
    }
    let action = words.action.ok_or("nothing to do; see --help")?;
    let done = match action.as_str() {
        "lock" => caller.lock(pid, words.timeout.filter(|limit| *limit > 0).map(Duration::from_millis)),
        "checkpoint" => caller.checkpoint(pid),
        "restore" => caller.restore(pid, words.map),
        "unlock" => caller.unlock(pid),
        other => return Err(format!("there is no action {other}")),
    };
    done.map_err(|code| failed(&format!("performing action {action} on"), code))
}

fn toggle(caller: &Caller, pid: i32) -> Result<(), Code> {
    match State::from_number(caller.state(pid)?) {
        Some(State::Running) => {
            caller.lock(pid, None)?;
            caller.checkpoint(pid)
        }
        Some(State::Checkpointed) => {
            caller.restore(pid, Vec::new())?;
            caller.unlock(pid)
        }
        _ => Err(Code::ILLEGAL_STATE),
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Words, String> {
    let mut found = Words::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--get-state" => found.state = true,
            "--get-restore-tid" => found.thread = true,
            "--toggle" => found.toggle = true,
            "--help" | "-h" => found.help = true,
            "--action" => found.action = Some(value()?),
            "--pid" | "-p" => found.pid = Some(value()?.parse().map_err(|_| "--pid is a number".to_owned())?),
            "--timeout" => {
                found.timeout = Some(value()?.parse().map_err(|_| "--timeout is a number".to_owned())?);
            }
            "--device-map" => found.map = value()?.split(',').map(pair).collect::<Result<_, _>>()?,
            _ => return Err(format!("there is no option {word}; see --help")),
        }
    }
    Ok(found)
}

fn pair(text: &str) -> Result<Pair, String> {
    let (old, new) = text.split_once('=').ok_or_else(|| format!("{text} is not OLD=NEW"))?;
    Ok((uuid(old)?, uuid(new)?))
}

fn uuid(text: &str) -> Result<String, String> {
    let digits: String =
        text.trim().trim_start_matches("GPU-").chars().filter(|letter| *letter != '-').collect();
    let whole = digits.len() == 32 && digits.chars().all(|digit| digit.is_ascii_hexdigit());
    if whole { Ok(digits.to_ascii_lowercase()) } else { Err(format!("{text} is not the UUID of a GPU")) }
}

fn print(text: &str) -> Result<(), String> {
    writeln!(std::io::stdout(), "{text}").map_err(|cause| cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Words, String> {
        parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_documented_options() {
        let found = words("--action lock --pid 7 --timeout 100").unwrap();
        assert_eq!((found.action.as_deref(), found.pid, found.timeout), (Some("lock"), Some(7), Some(100)));
        assert!(words("--get-state --pid 7").unwrap().state);
        assert!(words("--get-restore-tid --pid 7").unwrap().thread);
        assert!(words("--toggle --pid 7").unwrap().toggle);
        for wrong in ["--pid", "--pid x", "--sing", "--device-map a=b", "--device-map a"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_map_of_uuids() {
        let uuid = "GPU-01020304-0506-0708-090A-0b0c0d0e0f10";
        let found = words(&format!("--action restore --device-map {uuid}={uuid},{uuid}={uuid}")).unwrap();
        let digits = "0102030405060708090a0b0c0d0e0f10".to_owned();
        assert_eq!(found.map, vec![(digits.clone(), digits); 2]);
    }
}
