//! When the daemon ends by itself: when nobody has needed it for a while.
//!
//! It is needed while a session runs, a job runs, or somebody listens to a stream, and by every request. Once none of that has been
//! so for the time that is set, it ends as if it had been told to, and the next command starts another. Sessions that are
//! suspended need nobody.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api::SessionState;

use crate::lock;
use crate::server::App;

/// Looking takes a walk through the sessions, so it is not done all the time, but soon enough for the time that is set.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Who needs the daemon.
pub(crate) struct Need {
    last: Mutex<Instant>,
    streams: AtomicUsize,
}

impl Default for Need {
    fn default() -> Self {
        Self { last: Mutex::new(Instant::now()), streams: AtomicUsize::default() }
    }
}

impl Need {
    /// Somebody needs it now.
    pub(crate) fn now(&self) {
        *lock(&self.last) = Instant::now();
    }

    /// How many listen to streams.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::Relaxed)
    }

    fn since(&self) -> Duration {
        lock(&self.last).elapsed()
    }
}

/// Somebody listens to a stream, as long as they have this.
pub(crate) struct Listening(App);

impl Listening {
    pub(crate) fn new(app: &App) -> Self {
        app.need.streams.fetch_add(1, Ordering::Relaxed);
        Self(app.clone())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.need.now();
        self.0.need.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until nobody has needed the daemon for so long.
pub(crate) async fn idle_for(app: &App, limit: Duration) {
    let mut looks = tokio::time::interval((limit / 4).clamp(LOOKS.0, LOOKS.1));
    loop {
        looks.tick().await;
        let needed =
            app.need.streams() > 0 || app.jobs_running() > 0 || sessions_running(app).await != Some(0);
        if needed {
            app.need.now();
        } else if app.need.since() >= limit {
            return;
        }
    }
}

/// How many sessions have processes; `None` if that cannot be told.
pub(crate) async fn sessions_running(app: &App) -> Option<usize> {
    let backend = std::sync::Arc::clone(&app.backend);
    let sessions = tokio::task::spawn_blocking(move || backend.sessions()).await.ok()?.ok()?;
    let live = |state| matches!(state, SessionState::Starting | SessionState::Running);
    Some(sessions.iter().filter(|session| live(session.state)).count())
}
