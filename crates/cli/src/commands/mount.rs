//! `mount`
//!
//! Answers the kernel until somebody ends us or unmounts the folder. What cannot be read is told here, because whoever reads is only told
//! that there was an error.

use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::{Context as _, Result};
use base::explain;
use manifest::ByteText;
use past::Mounted;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::target;
use crate::args::MountArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

/// How often it is looked whether the folder was unmounted.
const TICK: Duration = Duration::from_millis(100);
/// Complaints that wait to be told. More are lost: they are mostly the same.
const COMPLAINTS: usize = 64;

#[derive(Serialize)]
struct MountedAt {
    message_type: &'static str,
    directory: ByteText,
}

pub(crate) fn run(context: &Context, args: &MountArgs) -> Result<()> {
    let store = target::open(context)?;
    let (complain, complaints) = mpsc::sync_channel(COMPLAINTS);
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    runtime.block_on(async {
        // Before it is mounted: from then on we must not end without unmounting.
        let mut ends = Vec::new();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            ends.push(signal(kind)?);
        }
        let complain = Box::new(move |error: &past::PastError| {
            let _lost = complain.try_send(explain(error));
        });
        let mounted = past::mount(store, &args.directory, complain).map_err(CliError::Mount)?;
        let done = MountedAt { message_type: "mounted", directory: format::json_path(&args.directory) };
        let place = args.directory.display();
        context.printer.data(&done, &[format!("your snapshots are in {place}; Ctrl-C unmounts it")])?;
        context.printer.flush()?;
        let [interrupt, terminate, hangup] = &mut ends[..] else { return Ok(()) };
        tokio::select! {
            () = unmounted(context, &mounted, &complaints) => (),
            _ = interrupt.recv() => (),
            _ = terminate.recv() => (),
            _ = hangup.recv() => (),
        }
        tell(context, &complaints);
        mounted.unmount().with_context(|| format!("cannot unmount {place}"))
    })
}

/// Waits until somebody else has unmounted it.
async fn unmounted(context: &Context, mounted: &Mounted, complaints: &Receiver<String>) {
    while !mounted.is_over() {
        tell(context, complaints);
        tokio::time::sleep(TICK).await;
    }
}

fn tell(context: &Context, complaints: &Receiver<String>) {
    for complaint in complaints.try_iter() {
        context.printer.warning(&complaint);
    }
}
