//! `run`, `kernel start`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::{EnvVar, FilePolicy, JobResult, Network, SessionView, Start, StartRequest, Text};

use super::job::expect_result;
use super::ps::One;
use super::{Message, Online, logs, show};
use crate::args::{FileOptions, FilesChoice, KernelStartArgs, NetworkChoice, RunArgs, StartOptions};
use crate::context::current_directory;
use crate::error::CliError;
use crate::format;

pub(super) fn run(online: &Online<'_>, args: RunArgs) -> Result<u8> {
    let argv = args.command.into_iter().map(Text::from).collect();
    let session = start(online, Start::Command { argv }, args.options)?;
    // With --json the first line on stdout says which session it is; the log's bytes would not be JSON.
    if !args.follow && !args.wait {
        tell(online, &session)?;
        return Ok(0);
    }
    if !args.follow || online.printer().is_json() {
        tell(online, &session)?;
        online.printer().flush()?;
    } else {
        online.printer().note(&format!("session {}", format::safe(&session.name)));
    }
    let show_log = args.follow && !online.printer().is_json();
    let ended = logs::until_end(online, &session, show_log)?;
    // What could not be brought back has no status of its own.
    let status = ended.exit.unwrap_or(1);
    if !online.printer().is_json() {
        online.printer().note(&format!("session {} {}", format::safe(&ended.name), show::state(&ended)));
    } else {
        online.printer().json(&Message { message_type: "session", content: One { session: &ended } })?;
    }
    Ok(if args.wait { show::exit_code(status) } else { 0 })
}

pub(super) fn kernel(online: &Online<'_>, args: KernelStartArgs) -> Result<()> {
    let session = start(online, Start::kernel(args.spec), args.options)?;
    tell(online, &session)
}

/// The name alone is data, so that `name=$(infinijup run …)` works.
fn tell(online: &Online<'_>, session: &SessionView) -> Result<()> {
    let message = Message { message_type: "session", content: One { session } };
    online.printer().data(&message, &[format::safe(&session.name)])?;
    match &session.kernel {
        Some(kernel) => {
            let file = show::text(&kernel.connection_file);
            online.printer().note(&format!("connect with: jupyter console --existing {file}"));
        }
        None => {
            let name = format::safe(&session.name);
            online.printer().detail(&format!("its output: infinijup logs -f {name}"));
        }
    }
    Ok(())
}

fn start(online: &Online<'_>, what: Start, options: StartOptions) -> Result<SessionView> {
    let here = current_directory()?;
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).with_context(|| format!("cannot tell where `{}` is", path.display()))
    };
    let sidecar = |command| vec![Text::from("/bin/sh"), Text::from("-c"), Text::from(command)];
    let request = StartRequest {
        name: options.name,
        start: what,
        cwd: options.cwd.map_or(Ok(here), absolute)?.into(),
        env: environment(),
        network: match options.network {
            NetworkChoice::Private => Network::Private,
            NetworkChoice::Host => Network::Host,
        },
        outside: options.outside,
        workspace: options.workspace.map(absolute).transpose()?.map(Text::from),
        files: policy(options.files)?.unwrap_or_default(),
        memory_limit: options.memory,
        pids_limit: options.pids,
        sidecars: options.sidecar.into_iter().map(sidecar).collect(),
        gpus: options.gpus.unwrap_or_default(),
        labels: BTreeMap::new(),
        notebook: None,
        policy: None,
    };
    let result = online.post_job("/v1/sessions".to_owned(), &request)?;
    Ok(*expect_result!(result, JobResult::Session(session) => session))
}

/// The user's variables, all of them.
pub(in crate::commands) fn environment() -> Vec<EnvVar> {
    let variable = |(name, value): (OsString, OsString)| EnvVar { name: name.into(), value: value.into() };
    std::env::vars_os().map(variable).collect()
}

/// The policy that was asked for, if any.
pub(super) fn policy(options: FileOptions) -> Result<Option<FilePolicy>> {
    let FileOptions { files, include, exclude, max_files: max_bytes, volume } = options;
    let is_plain = include.is_empty() && exclude.is_empty() && max_bytes.is_none() && volume.is_empty();
    let volumes = volume.into_iter().map(Text::from).collect();
    match files {
        Some(FilesChoice::Tree) => Ok(Some(FilePolicy::Tree { include, exclude, max_bytes, volumes })),
        _ if !is_plain => {
            let what = "--include, --exclude, --max-files and --volume need `--files tree`".into();
            Err(CliError::Usage { what }.into())
        }
        Some(FilesChoice::Open) => Ok(Some(FilePolicy::Open)),
        Some(FilesChoice::Workspace) => Ok(Some(FilePolicy::Workspace)),
        Some(FilesChoice::None) => Ok(Some(FilePolicy::None)),
        None => Ok(None),
    }
}
