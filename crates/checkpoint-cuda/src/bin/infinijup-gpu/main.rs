//! `infinijup-gpu [--library PATH] [--tool PATH] [--helper PATH]`: makes the driver's calls for the daemon, one process away from
//! it. `INFINIJUP_GPU_HELPER` stands for `--helper`.
//!
//! JSON lines on standard input and output. Not for people: `infinijup detect` and `infinijup doctor` are.
#![forbid(unsafe_code)]

use std::io::{self, BufReader};
use std::process::ExitCode;

use checkpoint_cuda::serve::{Arguments, serve};

fn main() -> ExitCode {
    let outcome = Arguments::parse(std::env::args_os().skip(1)).and_then(|mut arguments| {
        let helper = || std::env::var_os("INFINIJUP_GPU_HELPER").map(Into::into);
        arguments.helper = arguments.helper.take().or_else(helper);
        serve(&arguments, BufReader::new(io::stdin())).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "the edge of a program")]
fn complain(error: &str) {
    eprintln!("infinijup-gpu: {error}");
}
