//! `events`

use std::time::Duration;

use anyhow::Result;
use api::{Event, EventKind, JobState, SessionView};

use super::client::{Call, session_path};
use super::sse::Events;
use super::steps::duration;
use super::{Message, Online, show};
use crate::args::EventsArgs;
use crate::error::DaemonError;
use crate::format;

/// How often, and how long after each other, a stream that broke is asked for again: a minute together.
const TRIES: u32 = 120;
const BETWEEN: Duration = Duration::from_millis(500);

pub(super) fn run(online: &Online<'_>, args: &EventsArgs) -> Result<()> {
    let session = match &args.session {
        Some(session) => Some(online.get::<SessionView>(session_path(session))?.id),
        None => None,
    };
    online.runtime.block_on(async {
        let mut call = Call::get(format!("/v1/events?follow={}", args.follow));
        let mut tries = 0;
        loop {
            match online.client.send(&call).await {
                Ok(response) => {
                    let mut stream = Events::new(response.into_body());
                    while let Some(event) = stream.next().await? {
                        tries = 0;
                        call.last_event = Some(event.id);
                        if wanted(&event, session.as_deref(), args.steps) {
                            tell(online, &event)?;
                        }
                    }
                }
                // The first time, there is nothing to come back to.
                Err(error) if call.last_event.is_none() || tries >= TRIES || error.is::<DaemonError>() => {
                    return Err(error);
                }
                Err(_) => {}
            }
            if !args.follow {
                return Ok(());
            }
            tries += 1;
            tokio::time::sleep(BETWEEN).await;
        }
    })
}

fn wanted(event: &Event, session: Option<&str>, steps: bool) -> bool {
    let fits = session.is_none_or(|session| event.session.as_deref() == Some(session));
    (fits || event.kind == EventKind::Missed) && (steps || event.kind != EventKind::JobStep)
}

/// At once: whoever follows wants to see it now.
fn tell(online: &Online<'_>, event: &Event) -> Result<()> {
    online.printer().data(&Message { message_type: "event", content: event }, &[line(event)])?;
    Ok(online.printer().flush()?)
}

fn line(event: &Event) -> String {
    let mut words = vec![show::second(&event.time), event.kind.as_str().to_owned()];
    words.extend(event.session.as_deref().map(format::safe));
    if let Some(job) = &event.job {
        words.push(job.kind.as_str().to_owned());
        match job.state {
            JobState::Running => {}
            JobState::Done => words.push("done".to_owned()),
            JobState::Failed => words.push("failed".to_owned()),
        }
        if let Some(error) = &job.error {
            words.push(format!("[{}] {}", format::safe(&error.code), format::safe(&error.message)));
        }
    }
    if let Some(step) = &event.step {
        words.push(format::safe(&step.name));
        words.extend(step.micros.map(duration));
    }
    words.extend(event.state.map(|state| state.as_str().to_owned()));
    words.extend(event.commit.as_deref().map(show::short));
    words.extend(event.detail.as_deref().map(format::safe));
    words.join("  ")
}
