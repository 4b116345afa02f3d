//! Following a job.
//!
//! The daemon answers a request that takes its time with a job. Its stream of events says how far it is; the last one
//! says how it ended. The stream may break, because the daemon closed it or was restarted: then we come back with the
//! number of the last event that we saw. A daemon that was restarted does not know the job any more, and then only the
//! state of the session can tell what became of it.
//!
//! Ctrl-C ends us, not the job: a snapshot that was cut short half-way would help nobody.

use std::time::Duration;

use anyhow::Result;
use api::{EventKind, Job, JobResult, JobState};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use super::Online;
use super::client::{Call, encoded};
use super::sse::Events;
use super::steps::Steps;
use crate::error::{CliError, DaemonError};

/// How often, and how long after each other, a stream that broke is asked for again: five seconds together.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(250);
/// How often a spinner turns.
const TICK: Duration = Duration::from_millis(125);

impl Online<'_> {
    /// Asks for something that takes its time, and waits for it.
    pub(super) fn job(&self, call: &Call) -> Result<JobResult> {
        self.runtime.block_on(async {
            // Before the request: from the moment it is sent, Ctrl-C must not look as if nothing had happened.
            let mut interrupt = signal(SignalKind::interrupt())?;
            let job: Job = tokio::select! {
                job = self.client.answer(call) => job?,
                _ = interrupt.recv() => return Err(CliError::JobGoesOn { kind: "request" }.into()),
            };
            let kind = job.kind.as_str();
            let mut steps = Steps::new(self.context, &job.id, kind);
            let ended = tokio::select! {
                ended = self.ended(job, &mut steps) => ended?,
                _ = interrupt.recv() => return Err(CliError::JobGoesOn { kind }.into()),
            };
            drop(steps);
            result(ended)
        })
    }

    /// The same with a body.
    pub(in crate::commands) fn post_job(&self, path: String, body: &impl Serialize) -> Result<JobResult> {
        self.job(&Call::post(path, body)?)
    }

    /// Asks for an end.
    pub(in crate::commands) fn delete_job(&self, path: String) -> Result<JobResult> {
        self.job(&Call::delete(path))
    }

    /// The job as it is at its end.
    async fn ended(&self, job: Job, steps: &mut Steps<'_>) -> Result<Job> {
        if job.state != JobState::Running {
            job.steps.iter().for_each(|step| steps.show(step));
            return Ok(job);
        }
        let kind = job.kind.as_str();
        let path = format!("/v1/jobs/{}", encoded(&job.id));
        let mut call = Call::get(format!("{path}/events"));
        let mut ticks = tokio::time::interval(TICK);
        let mut tries = 0;
        loop {
            let stream = match self.client.send(&call).await {
                Ok(response) => Some(Events::new(response.into_body())),
                Err(error) => match error.downcast_ref::<DaemonError>() {
                    Some(DaemonError(body)) if body.exit == api::exit::NOT_FOUND => {
                        return Err(CliError::JobLost { kind }.into());
                    }
                    Some(_) => return Err(error),
                    None => None,
                },
            };
            if let Some(mut stream) = stream {
                loop {
                    let event = tokio::select! {
                        event = stream.next() => event?,
                        _ = ticks.tick() => {
                            steps.tick();
                            continue;
                        }
                    };
                    let Some(event) = event else { break };
                    // A stream that brings something is worth as many tries as the first.
                    tries = 0;
                    call.last_event = Some(event.id);
                    if let Some(step) = &event.step {
                        steps.show(step);
                    }
                    match (event.kind, event.job) {
                        // What was done before we came.
                        (EventKind::JobBegan, Some(job)) => {
                            job.steps.iter().for_each(|step| steps.show(step))
                        }
                        (EventKind::JobEnded, Some(job)) => return Ok(*job),
                        (EventKind::JobEnded | EventKind::Missed, _) => {
                            let job: Job = self.client.answer(&Call::get(path.clone())).await?;
                            if job.state != JobState::Running {
                                return Ok(job);
                            }
                        }
                        _ => {}
                    }
                }
            }
            tries += 1;
            if tries > TRIES {
                return Err(CliError::JobLost { kind }.into());
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }
}

fn result(job: Job) -> Result<JobResult> {
    match (job.result, job.error) {
        (_, Some(error)) => Err(DaemonError(error).into()),
        (Some(result), None) => Ok(result),
        (None, None) => Err(unexpected("nothing")),
    }
}

/// The daemon did something else than what it was asked for.
pub(in crate::commands) fn unexpected(what: &str) -> anyhow::Error {
    let detail = format!("the result of the job is {what}");
    CliError::Answer { request: "a job".into(), detail }.into()
}

/// Takes the result out of a job that ended well.
macro_rules! expect_result {
    ($result:expr, $pattern:pat => $value:expr) => {
        match $result {
            $pattern => $value,
            _ => return Err($crate::commands::online::job::unexpected("of another kind")),
        }
    };
}
pub(in crate::commands) use expect_result;
