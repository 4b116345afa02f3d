//! `completions`. Reads nothing but the definition of the command line: a shell calls it at every start.

use anyhow::Result;
use clap_complete::Shell;

use crate::context::Context;

pub(crate) fn run(context: &Context, shell: Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut crate::args::command(), "infinijup", &mut script);
    Ok(context.printer.bytes(&script)?)
}
