//! `cuda-sim`: the device server, and what tests need to work with it.
//!
//! ```text
//! cuda-sim serve --dir DIR [--gpus 2] [--chip h100[,a100…]] [--memory 24GiB] [--level 580] [--pcie 25GiB] [--uuid-seed NAME] [--devices DIR] [--root-only yes]
//! cuda-sim install --dir LIB [--level 580]
//! cuda-sim ctl --dir DIR JSON
//! cuda-sim cuda-checkpoint --help        the same as being called `cuda-checkpoint`
//! ```
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cuda_sim::faults::control;
use cuda_sim::level::Level;

mod checkpoint;
mod install;
mod serve;

/// What the command line said: options by name, and the rest.
struct Words {
    options: HashMap<String, String>,
    rest: Vec<String>,
}

impl Words {
    fn read(words: impl Iterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let mut words = words.peekable();
        let mut options = HashMap::new();
        let mut rest = Vec::new();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                rest.push(word);
                continue;
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (name, words.next()),
            };
            if !known.contains(&name) {
                return Err(format!("no option --{name}"));
            }
            options.insert(name.to_owned(), value.ok_or_else(|| format!("--{name} needs a value"))?);
        }
        Ok(Self { options, rest })
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    fn directory(&self) -> Result<PathBuf, String> {
        self.get("dir").map(PathBuf::from).ok_or_else(|| "--dir is needed".to_owned())
    }

    fn level(&self) -> Result<Level, String> {
        let Some(word) = self.get("level") else { return Ok(Level::default()) };
        word.parse().ok().and_then(Level::new).ok_or_else(|| format!("no level {word}"))
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    if Path::new(&name).file_name().is_some_and(|name| name == "cuda-checkpoint") {
        return end(checkpoint::run(words));
    }
    end(match words.next().as_deref() {
        Some("serve") => {
            let known =
                ["dir", "gpus", "chip", "memory", "level", "pcie", "uuid-seed", "devices", "root-only"];
            Words::read(words, &known).and_then(|words| serve::serve(&words))
        }
        Some("install") => Words::read(words, &["dir", "level"]).and_then(|words| install::install(&words)),
        Some("ctl") => Words::read(words, &["dir"]).and_then(|words| ask(&words)),
        Some("cuda-checkpoint") => checkpoint::run(words),
        _ => {
            Err("usage: cuda-sim serve|install|ctl --dir DIR …, or cuda-sim cuda-checkpoint --help"
                .to_owned())
        }
    })
}

fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            // Nothing to do about an error output that is closed.
            let _written = writeln!(io::stderr(), "cuda-sim: {text}");
            ExitCode::FAILURE
        }
    }
}

/// One question to the control socket, and its answer.
fn ask(words: &Words) -> Result<(), String> {
    let [question] = words.rest.as_slice() else { return Err("one JSON value is needed".to_owned()) };
    let answer =
        control::send(&words.directory()?, question).map_err(|cause| format!("control socket: {cause}"))?;
    writeln!(io::stdout(), "{answer}").map_err(|cause| cause.to_string())
}
