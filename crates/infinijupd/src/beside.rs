//! The daemon's program in another role: it leads a process of a session through one call, and outlives the daemon that asked for it
//! (`memory_path::lead`). No part of the daemon runs in it.

use std::ffi::OsString;
use std::process::ExitCode;

use machine::Injector;

/// What the program is told first then. It is nobody's flag.
const ROLE: &str = "lead-through-a-call";

/// This program, in this role. Its file may have been replaced since it was started.
pub fn injector() -> Injector {
    Injector::Beside { program: "/proc/self/exe".into(), arguments: vec![ROLE.into()] }
}

/// Plays the role, if it is asked to.
pub fn asked(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let words: Vec<String> = arguments.take(4).map(|word| word.into_string().unwrap_or_default()).collect();
    let [role, pid, limit_ms] = &words[..] else { return None };
    if role != ROLE {
        return None;
    }
    let (Ok(pid), Ok(limit_ms)) = (pid.parse(), limit_ms.parse()) else { return Some(ExitCode::FAILURE) };
    Some(match machine::lead(pid, limit_ms) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever asked has gone, or hears it by the silence.
        Err(_) => ExitCode::FAILURE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_who_did_not_ask() {
        for words in [&[][..], &["--help"], &[ROLE], &["other", "1", "2"], &[ROLE, "1", "2", "3"]] {
            assert!(asked(words.iter().map(Into::into)).is_none(), "{words:?}");
        }
    }

    #[test]
    fn it_asks_for_what_it_understands() {
        let Injector::Beside { arguments, .. } = injector() else { panic!("it would die with the daemon") };
        // Two numbers are added to them.
        let words = [arguments, vec!["no number".into(), "1".into()]].concat();
        assert!(asked(words.into_iter()).is_some());
    }
}
