//! Telling systemd how it goes. Without systemd, all of this does nothing.

use std::future::Future;
use std::time::Duration;

use sd_notify::NotifyState;

use crate::server::App;

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(error = %error, "the service manager cannot be told");
    }
}

/// The socket is there and answers.
pub fn ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("waiting for requests")]);
}

/// The daemon is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping; waiting for jobs")]);
}

/// The first word on stderr is not always read; the status is.
pub fn failed(error: &str) {
    tell(&[NotifyState::Status(error)]);
}

/// A sign of life at half the interval that the service manager asks for, with what the daemon is doing; for ever.
///
/// It comes from a task of the same runtime that answers requests: if that hangs, the sign stays out.
pub fn watch(app: App) -> impl Future<Output = ()> {
    let every = sd_notify::watchdog_enabled();
    async move {
        let mut ticks = tokio::time::interval(every.map_or(Duration::from_secs(10), |every| every / 2));
        let mut said = usize::MAX;
        loop {
            ticks.tick().await;
            if every.is_some() {
                tell(&[NotifyState::Watchdog]);
            }
            let running = app.jobs_running();
            if running != said {
                said = running;
                tell(&[NotifyState::Status(&format!("jobs running: {running}"))]);
            }
        }
    }
}
