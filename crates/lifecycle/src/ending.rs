//! The end of processes whose state is durable: of a suspend, and of what a rollback leaves.

use api::SessionState;

use crate::error::Result;
use crate::pipeline::{Stage, Step, WayOut, Work};
use crate::swap::Swap;

/// The session goes to sleep at the snapshot.
pub(crate) const TO_SLEEP: Stage<Swap> = Stage::new(
    "ending",
    Swap::ending,
    WayOut::On,
    &[
        Step::shown("end the processes", end),
        Step::last("write down that it sleeps", |work, _| {
            work.engine.set_down(work.record, SessionState::Suspended)
        }),
    ],
);

/// The session makes room for what it is going to be.
pub(crate) const TO_GO_BACK: Stage<Swap> =
    Stage::new("ending", Swap::ending, WayOut::On, &[Step::shown("end the old processes", end)]);

fn end(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    if let Some(taking) = &mut swap.taking {
        if let Some(stopped) = taking.stopped.take() {
            stopped.let_go();
        }
        if let Some(off) = taking.off.take() {
            off.ended();
        }
    }
    work.record.head = Some(swap.safe()?.commit.to_string());
    work.engine.end_tree(work.record)?;
    work.record.init = None;
    Ok(())
}
