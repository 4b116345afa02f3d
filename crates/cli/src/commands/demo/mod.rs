//! `demo`: JupyterLab with a guided notebook.
//!
//! What could be in the way is looked at first, so that whoever reads on in the browser finds everything working: JupyterLab with our
//! package in it, and the doctor's word on this machine.

mod folder;
mod lab;

use anyhow::{Context as _, Result};
use api::places::make_private;
use api::{Doctor, FindingState, Text};
use serde::Serialize;

use self::folder::Folder;
use self::lab::Lab;
use crate::args::DemoArgs;
use crate::commands::online::doctor;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

/// The folder in the user's home.
const NAME: &str = "infinijup-demo";

#[derive(Serialize)]
struct Started {
    message_type: &'static str,
    directory: Text,
    notebook: Text,
    /// Whether the notebook was there already.
    known: bool,
    /// With the token: whoever has it may use the server.
    address: String,
    pid: u32,
    log: Text,
}

pub(super) fn run(context: &Context, args: &DemoArgs) -> Result<()> {
    let lab = Lab::find()?;
    context.printer.note("asking whether snapshots work on this machine");
    check(context, &doctor::ask_or_explain(context)?)?;
    let directory = match &args.dir {
        Some(directory) => std::path::absolute(directory).context("cannot tell where that is")?,
        None => std::env::home_dir().context("cannot tell which directory is your home")?.join(NAME),
    };
    let folder = Folder::prepare(&directory, args.fresh)?;
    let state = context.places()?.state;
    make_private(&state).map_err(CliError::Place)?;
    let log = state.join("demo.log");
    context.printer.note("starting JupyterLab");
    let running = lab.start(&folder, &log, !args.no_browser)?;
    let notebook = folder.path.join(folder::NOTEBOOK);
    let mut lines = vec![format!("notebook  {}", format::safe(&notebook.display().to_string()))];
    lines.push(format!("address   {}", format::safe(&running.address)));
    let started = Started {
        message_type: "demo",
        directory: folder.path.clone().into(),
        notebook: notebook.into(),
        known: folder.known,
        address: running.address.clone(),
        pid: running.pid(),
        log: log.into(),
    };
    context.printer.data(&started, &lines)?;
    context.printer.flush()?;
    if folder.known {
        context.printer.note("this is your notebook as you left it; `infinijup demo --fresh` begins anew");
    }
    context.printer.note("Ctrl-C ends JupyterLab; its kernels are put to sleep then");
    running.wait()
}

/// Fails, with the fix beside each, if snapshots cannot work here.
fn check(context: &Context, found: &Doctor) -> Result<()> {
    if found.works {
        return Ok(());
    }
    let failed: Vec<_> =
        found.findings.iter().filter(|finding| finding.state == FindingState::Fail).collect();
    for finding in &failed {
        let fix = finding.fix.as_deref().unwrap_or("`infinijup doctor` says more");
        context
            .printer
            .warning(&format::safe(&format!("{}: {}. What helps: {fix}", finding.item, finding.evidence)));
    }
    let items = failed.iter().map(|finding| finding.item.clone()).collect();
    Err(CliError::MachineUnfit { items }.into())
}
