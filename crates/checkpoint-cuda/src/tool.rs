//! The program `cuda-checkpoint`, for machines where the library lacks the calls but NVIDIA's program has its own way.
//!
//! It pays for attaching to the driver at every call, knows no custom storage, and says what went wrong in words only. The
//! words are those of `cuGetErrorString`, so they are turned back into the driver's numbers.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::facts::{self, Capabilities};
use crate::protocol::{Answer, Ask};
use crate::state::State;
use crate::sys::layout::{self, code};

const NAME: &str = "cuda-checkpoint";

/// The program, and whether it can map GPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tool {
    program: PathBuf,
    pairs: bool,
}

impl Tool {
    /// Finds it: `explicit`, else in `PATH`. It must know single actions, which the first version did not.
    pub(crate) fn find(explicit: Option<&Path>) -> Option<Self> {
        let program = match explicit {
            Some(path) => path.to_path_buf(),
            None => env::split_paths(&env::var_os("PATH")?)
                .map(|directory| directory.join(NAME))
                .find(|path| path.is_file())?,
        };
        let output = run(&program, &["--help".to_owned()]).ok()?;
        let help = [output.stdout, output.stderr].concat();
        let knows = |option: &str| help.windows(option.len()).any(|window| window == option.as_bytes());
        knows("--action").then(|| Self { pairs: knows("--device-map"), program })
    }

    /// Makes the call.
    pub(crate) fn answer(&self, ask: &Ask) -> Answer {
        let words = match ask {
            Ask::Hello => {
                return Answer::Hello(Capabilities {
                    backend: facts::Backend::Tool,
                    cuda_version: 0,
                    pairs: self.pairs,
                    custom_storage: false,
                });
            }
            Ask::Checkpoint { storage: Some(_), .. } | Ask::Restore { storage: Some(_), .. } => {
                return numbered(code::NOT_SUPPORTED);
            }
            Ask::Restore { pairs, .. } if !pairs.is_empty() && !self.pairs => {
                return numbered(code::NOT_SUPPORTED);
            }
            _ => words(ask),
        };
        match run(&self.program, &words) {
            Err(error) => {
                Answer::Failed { detail: format!("cannot run `{}`: {error}", self.program.display()) }
            }
            Ok(output) if output.status.success() => read(ask, &String::from_utf8_lossy(&output.stdout)),
            Ok(output) => said_no(&String::from_utf8_lossy(&[output.stderr, output.stdout].concat())),
        }
    }
}

fn run(program: &Path, words: &[String]) -> std::io::Result<Output> {
    // Nothing ends it early: like the library's calls, it is brought to its end.
    Command::new(program).args(words).stdin(Stdio::null()).output()
}

/// The command line for a call.
fn words(ask: &Ask) -> Vec<String> {
    let mut words = Vec::new();
    let mut action = |name: &str| words.extend(["--action".to_owned(), name.to_owned()]);
    let pid = match ask {
        Ask::Hello => 0,
        Ask::Thread { pid } => {
            words.push("--get-restore-tid".to_owned());
            *pid
        }
        Ask::State { pid } => {
            words.push("--get-state".to_owned());
            *pid
        }
        Ask::Lock { pid, timeout_ms } => {
            action("lock");
            words.extend(["--timeout".to_owned(), timeout_ms.to_string()]);
            *pid
        }
        Ask::Checkpoint { pid, .. } => {
            action("checkpoint");
            *pid
        }
        Ask::Restore { pid, pairs, .. } => {
            action("restore");
            if !pairs.is_empty() {
                let map: Vec<String> = pairs.iter().map(|(old, new)| format!("{old}={new}")).collect();
                words.extend(["--device-map".to_owned(), map.join(",")]);
            }
            *pid
        }
        Ask::Unlock { pid } => {
            action("unlock");
            *pid
        }
    };
    words.extend(["--pid".to_owned(), pid.to_string()]);
    words
}

fn read(ask: &Ask, output: &str) -> Answer {
    let nonsense =
        || Answer::Failed { detail: format!("{NAME} answered `{}`", output.trim().escape_debug()) };
    match ask {
        Ask::Thread { .. } => output.trim().parse().map_or_else(|_| nonsense(), Answer::Number),
        Ask::State { .. } => {
            State::from_word(output.trim()).map_or_else(nonsense, |state| Answer::Number(state.into()))
        }
        _ => Answer::Done,
    }
}

fn numbered(code: i32) -> Answer {
    Answer::Code { code, name: layout::name(code).unwrap_or("an unknown error").to_owned() }
}

/// The driver's number for what the program says. Longer texts stand before those that are part of them.
fn said_no(text: &str) -> Answer {
    const TEXTS: &[(&str, i32)] = &[
        ("OS call failed or operation not supported on this OS", code::OPERATING_SYSTEM),
        ("operation not supported", code::NOT_SUPPORTED),
        ("operation not permitted", code::NOT_PERMITTED),
        ("operation cannot be performed in the present state", code::ILLEGAL_STATE),
        ("initialization error", code::NOT_INITIALIZED),
        ("out of memory", code::OUT_OF_MEMORY),
        ("invalid argument", code::INVALID_VALUE),
        ("no CUDA-capable device is detected", code::NO_DEVICE),
        ("invalid device ordinal", code::INVALID_DEVICE),
        ("device not ready", code::NOT_READY),
        ("system not yet initialized", code::SYSTEM_NOT_READY),
        ("unknown error", code::UNKNOWN),
    ];
    for (words, code) in TEXTS {
        if text.contains(words) {
            return numbered(*code);
        }
    }
    for (name, code) in layout::NAMES.iter().filter(|(_, code)| *code != code::SUCCESS) {
        if text.contains(name) {
            return numbered(*code);
        }
    }
    Answer::Code { code: code::UNKNOWN, name: text.trim().chars().take(300).collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::uuid::GpuUuid;

    #[test]
    fn command_lines_are_those_of_the_program() {
        let line = |ask: &Ask| words(ask).join(" ");
        assert_eq!(line(&Ask::State { pid: 7 }), "--get-state --pid 7");
        assert_eq!(line(&Ask::Thread { pid: 7 }), "--get-restore-tid --pid 7");
        assert_eq!(line(&Ask::Lock { pid: 7, timeout_ms: 9000 }), "--action lock --timeout 9000 --pid 7");
        let (one, two) = (GpuUuid::from_bytes([1; 16]), GpuUuid::from_bytes([2; 16]));
        assert_eq!(
            line(&Ask::Restore { pid: 7, pairs: vec![(one, two), (two, one)], storage: None }),
            format!("--action restore --device-map {one}={two},{two}={one} --pid 7")
        );
        assert_eq!(line(&Ask::Restore { pid: 7, pairs: vec![], storage: None }), "--action restore --pid 7");
    }

    #[test]
    fn words_become_numbers_again() {
        let code = |text: &str| match said_no(text) {
            Answer::Code { code, .. } => code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code("Could not lock process: \"initialization error\"\n"), 3);
        assert_eq!(code("\"OS call failed or operation not supported on this OS\""), 304);
        assert_eq!(code("\"operation not supported\""), 801);
        assert_eq!(code("CUDA_ERROR_NOT_READY"), 600);
        assert_eq!(code("whatever"), 999);
    }

    proptest! {
        #[test]
        fn no_output_makes_it_panic(text in any::<String>()) {
            let _ = said_no(&text);
            let _ = read(&Ask::State { pid: 1 }, &text);
            let _ = read(&Ask::Thread { pid: 1 }, &text);
        }
    }
}
