//! One kernel whose daemon copies memory ahead, or does not, by turns.
//!
//! Two kernels of 8 GiB, and two daemons with their copies, are more than most machines have room for. So there is one kernel, and its daemon
//! is stopped and started anew for each turn, as for an upgrade: the kernel runs on. A daemon that has just been started follows nothing yet.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::live::{Client, Daemon, User, WATCH, longest_gap};
use crate::measure::settle;
use crate::run::Run;

/// Whether the daemon copies memory ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyAhead {
    /// As it does by itself.
    On,
    /// All memory is copied while everything stands still.
    Off,
}

/// What a snapshot cost the kernel, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pause {
    /// The longest time that a thread of the kernel was not able to run.
    pub(crate) gap_s: f64,
    /// For how long the engine says that everything stood still.
    pub(crate) frozen_s: f64,
}

/// What both contenders have come to, one for each round.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    /// With memory copied ahead.
    pub(crate) ahead: Vec<T>,
    /// Without.
    pub(crate) plain: Vec<T>,
}

/// Ends with this value: the client, the daemon with the kernel, the user.
pub(crate) struct SwitchedKernel {
    client: Client,
    daemon: Daemon,
    user: User,
    id: String,
    file: PathBuf,
    copy_ahead: CopyAhead,
}

impl SwitchedKernel {
    /// A kernel with a thread that watches for gaps.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let user = User::make()?;
        let daemon = Daemon::start(&user)?;
        let (id, file) = daemon.kernel(name)?;
        let mut kernel = Self { client: Client::start()?, daemon, user, id, file, copy_ahead: CopyAhead::On };
        kernel.ask(WATCH, "gap")?;
        Ok(kernel)
    }

    /// Gives both their turn in every round, with a daemon that has just been started. Who begins changes from round to round.
    pub(crate) fn by_turns<T>(
        &mut self,
        run: &Run,
        what: &str,
        mut turn: impl FnMut(&mut Self, CopyAhead, usize) -> Result<T>,
    ) -> Result<Turns<T>> {
        let mut turns = Turns { ahead: Vec::new(), plain: Vec::new() };
        for number in 0..run.rounds {
            run.say(&format!("{what}: round {} of {}", number + 1, run.rounds));
            let mut order = [CopyAhead::On, CopyAhead::Off];
            order.rotate_left(number % 2);
            for copy_ahead in order {
                self.switch(copy_ahead)?;
                let found = turn(self, copy_ahead, number)?;
                match copy_ahead {
                    CopyAhead::On => turns.ahead.push(found),
                    CopyAhead::Off => turns.plain.push(found),
                }
            }
        }
        Ok(turns)
    }

    /// From here on memory is copied ahead, or not. Nothing has been copied yet.
    pub(crate) fn switch(&mut self, copy_ahead: CopyAhead) -> Result<()> {
        let value = if copy_ahead == CopyAhead::On { "on" } else { "off" };
        self.copy_ahead = copy_ahead;
        self.daemon.restart_with(&self.user, &[("INFINIJUP_COPY_AHEAD", value.into())])
    }

    /// Runs a cell and returns the value of an expression after it.
    pub(crate) fn ask(&mut self, cell: &str, value: &str) -> Result<String> {
        self.client.ask(&self.file, cell, value)
    }

    /// The same for a number.
    pub(crate) fn number(&mut self, cell: &str, value: &str) -> Result<f64> {
        let answer = self.ask(cell, value)?;
        answer.parse().with_context(|| format!("`{value}` is no number: {answer}"))
    }

    /// Takes a snapshot.
    pub(crate) fn snapshot(&self) -> Result<()> {
        take(&self.daemon, &self.id, self.copy_ahead).map(drop)
    }

    /// What a snapshot costs it now.
    pub(crate) fn pause(&mut self) -> Result<Pause> {
        settle();
        let (daemon, id, copy_ahead) = (&self.daemon, &self.id, self.copy_ahead);
        let mut frozen_s = f64::NAN;
        let gap_s = longest_gap(&mut self.client, &self.file, || {
            let outcome = take(daemon, id, copy_ahead)?;
            frozen_s = outcome["frozen_us"].as_f64().context("no frozen_us")? / 1e6;
            Ok(())
        })?;
        Ok(Pause { gap_s, frozen_s })
    }

    /// Seconds from sending a cell until its reply, over a connection that stays. With a snapshot, it is asked for in the moment in which the
    /// cell is sent, and is over when this returns.
    pub(crate) fn time_cell(&mut self, cell: &str, with_snapshot: bool) -> Result<f64> {
        let (client, file) = (&mut self.client, &self.file);
        let (daemon, id, copy_ahead) = (&self.daemon, &self.id, self.copy_ahead);
        std::thread::scope(|scope| {
            let snapshot = with_snapshot.then(|| scope.spawn(|| take(daemon, id, copy_ahead)));
            let seconds = client.time(file, cell);
            if let Some(snapshot) = snapshot {
                snapshot.join().map_err(|_| anyhow!("the thread of a snapshot panicked"))??;
            }
            seconds
        })
    }
}

/// Takes a snapshot of a session; its outcome. If its memory did not go the way that is to be measured, there is no figure.
fn take(daemon: &Daemon, id: &str, copy_ahead: CopyAhead) -> Result<Value> {
    let outcome = daemon.job(&format!("/v1/sessions/{id}/snapshot"), &json!({}))?;
    let was_ahead = outcome["frozen_bytes"].is_u64();
    ensure!(was_ahead == (copy_ahead == CopyAhead::On), "memory took another way than asked: {outcome}");
    Ok(outcome)
}
