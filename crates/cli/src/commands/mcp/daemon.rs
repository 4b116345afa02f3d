//! The way to the user's daemon, for tools: requests that wait, side by side.

use anyhow::Result;
use api::{Job, JobResult, Places, SessionView};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

use super::super::daemon::starter;
use super::super::online::client::{Call, Client, session_path};
use super::super::online::job::unexpected;
use crate::context::Context;
use crate::error::DaemonError;

/// The daemon. Like every command, each request starts it if it has to be, unless somebody said which one is meant or that none is to be.
#[derive(Debug, Clone)]
pub(super) struct Daemon {
    client: Client,
    /// Where it is to be started.
    starts: Option<Places>,
}

impl Daemon {
    pub(super) fn new(context: &Context) -> Result<Self> {
        let places = context.places()?;
        let client = Client::new(&places.socket);
        let starts = context.named_socket().is_none() && starter::is_wanted();
        Ok(Self { client, starts: starts.then_some(places) })
    }

    async fn answer<T: DeserializeOwned>(&self, call: &Call) -> Result<T> {
        if let Some(places) = self.starts.clone() {
            spawn_blocking(move || starter::ensure(&places)).await??;
        }
        self.client.answer(call).await
    }

    /// The answer to a question.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: impl Into<String>) -> Result<T> {
        self.answer(&Call::get(path)).await
    }

    /// The answer to a request that is no job.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        path: impl Into<String>,
        body: &impl Serialize,
    ) -> Result<T> {
        self.answer(&Call::post(path, body)?).await
    }

    /// One session.
    pub(super) async fn session(&self, session: &str) -> Result<SessionView> {
        self.get(session_path(session)).await
    }

    /// Asks for something that takes its time, and waits for it. `take` takes out what should have come of it.
    pub(super) async fn job<T>(&self, call: Call, take: fn(JobResult) -> Option<T>) -> Result<T> {
        let job: Job = self.answer(&call.until_done()).await?;
        match (job.result, job.error) {
            (_, Some(error)) => Err(DaemonError(error).into()),
            (Some(result), None) => take(result).ok_or_else(|| unexpected("of another kind")),
            (None, None) => Err(unexpected("nothing")),
        }
    }

    /// The same, of a session.
    pub(super) async fn to_session<T>(
        &self,
        session: &str,
        verb: &str,
        body: &impl Serialize,
        take: fn(JobResult) -> Option<T>,
    ) -> Result<T> {
        self.job(Call::post(format!("{}/{verb}", session_path(session)), body)?, take).await
    }
}

/// The session out of what came of a job.
pub(super) fn session(result: JobResult) -> Option<SessionView> {
    match result {
        JobResult::Session(session) => Some(*session),
        _ => None,
    }
}
