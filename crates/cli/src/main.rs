//! `infinijup`: take snapshots of running programs and go back to them, by way of the daemon; look after a store and what is in
//! it, without one.
//!
//! `args` says what can be typed, `commands` has one file per verb, and everything that is shown goes through `output`:
//! data on stdout, the rest on stderr. `docs/scripting.md` is the contract with scripts.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod context;
mod error;
mod exit;
mod format;
mod graph;
mod lines;
mod objects;
mod output;
mod progress;
mod revision;
mod secret;

use std::process::ExitCode;

fn main() -> ExitCode {
    match args::parse() {
        Ok(cli) => commands::run(cli),
        Err(stopped) => stopped,
    }
}
