//! One file per verb.

mod cat;
mod checkpoint_archive;
mod completions;
mod daemon;
mod debug;
mod demo;
mod detect;
mod detect_container;
mod diff;
mod encrypt;
mod export;
mod forget;
mod gc;
mod import;
mod init;
mod kernelspec;
mod log;
mod man;
mod mcp;
mod mount;
mod online;
mod rebuild;
mod remote;
mod rotate_keys;
mod selftest;
mod setup_gpu;
mod show;
mod stat;
mod tag;
mod target;
mod verify;
mod view;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, Command, DebugCommand, DetectFormat, KernelspecCommand, StoreCommand};
use crate::context::Context;
use crate::exit::{self, Code, Facts};

/// Runs a command and tells how it went.
pub(crate) fn run(cli: Cli) -> ExitCode {
    let mut global = cli.global;
    global.json |= matches!(&cli.command, Command::Detect(args) if args.format == DetectFormat::Json);
    let context = Context::new(global);
    // What was printed before a failure still counts.
    let ran = dispatch(&context, cli.command);
    let flushed = context.printer.flush().map_err(anyhow::Error::from);
    match ran.and_then(|status| flushed.map(|()| status)) {
        Ok(status) => status.into(),
        Err(error) if exit::is_broken_pipe(&error) => Code::Ok.into(),
        Err(error) => {
            context.printer.exit_error(&error);
            Facts::of(&error).exit.into()
        }
    }
}

/// The exit code of what ended well is 0, unless it is that of somebody else's command, which is passed on.
fn dispatch(context: &Context, command: Command) -> Result<u8> {
    let done = match command {
        Command::Online(command) => return online::run(context, command),
        Command::Daemon(command) => return daemon::run(context, &command),
        Command::Store(StoreCommand::Init(args)) => init::run(context, &args),
        Command::Store(StoreCommand::Encrypt) => encrypt::run(context),
        Command::Store(StoreCommand::Stat) => stat::run(context),
        Command::Store(StoreCommand::Verify(args)) => verify::run(context, &args),
        Command::Gc(args) | Command::Store(StoreCommand::Gc(args)) => gc::run(context, &args),
        Command::Store(StoreCommand::Rebuild) => rebuild::run(context),
        Command::Store(StoreCommand::RotateKeys(args)) => rotate_keys::run(context, &args),
        Command::Kernelspec(KernelspecCommand::Install(args)) => kernelspec::install(context, &args),
        Command::Kernelspec(KernelspecCommand::List) => kernelspec::list(context),
        Command::Kernelspec(KernelspecCommand::Remove(args)) => kernelspec::remove(context, &args),
        Command::Mcp => mcp::run(context),
        Command::Demo(args) => demo::run(context, &args),
        Command::Detect(args) => detect::run(context, &args),
        Command::Selftest(args) => selftest::run(context, &args),
        Command::SetupGpu(args) => setup_gpu::run(context, &args),
        Command::Log(args) => log::run(context, &args, log::Shape::Lines),
        Command::History(args) => log::run(context, &args, log::Shape::OneObject),
        Command::Show(args) => show::run(context, &args),
        Command::Diff(args) => diff::run(context, &args),
        Command::Cat(args) => cat::run(context, &args),
        Command::Tag(args) => tag::run(context, &args),
        Command::Forget(args) => forget::run(context, args),
        Command::Export(args) => export::run(context, &args),
        Command::Import(args) => import::run(context, &args),
        Command::Mount(args) => mount::run(context, &args),
        Command::Remote(command) => remote::run(context, &command),
        Command::Push(args) => remote::push(context, &args),
        Command::Fetch(args) => remote::fetch(context, &args),
        Command::Pull(args) => remote::pull(context, &args.fetch),
        Command::Clone(args) => remote::clone(context, &args),
        Command::Completions { shell } => completions::run(context, shell),
        Command::Man { out } => man::run(context, &out),
        Command::Debug(DebugCommand::Commit(args)) => debug::run(context, &args),
    };
    done.map(|()| 0)
}
