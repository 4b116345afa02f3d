//! The store becomes an encrypted one: `infinijupd --encrypt-store`, which `infinijup store encrypt` runs.
//!
//! `session-record` does it; here is what belongs to the daemon: the settings that name the key, and the lines that tell how far it is.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use api::EncryptionLine;
use api::settings::{key_file, name_key_file};
use lifecycle::{Progress, Task, encryption};

use crate::backend::Failure;
use crate::error::DaemonError;
use crate::lock;
use crate::settings::Settings;

/// How often the reader is told how far it is.
const EVERY: Duration = Duration::from_millis(100);

/// Finishes or undoes what an encryption that was cut short had begun. Only for the holder of the state directory's lock.
pub fn settle(settings: &mut Settings) -> Result<(), Failure> {
    let state = &settings.places.state;
    let Some(key) = encryption::finish(state)? else { return Ok(()) };
    name_key_file(&settings.places.settings, &key).map_err(DaemonError::from)?;
    encryption::settled(state)?;
    settings.key_file = Some(key);
    Ok(())
}

/// Encrypts the store, and tells on stdout how far it is and how it ended.
pub fn encrypt(settings: &mut Settings) -> Result<(), Failure> {
    settle(settings)?;
    let places = &settings.places;
    let key = settings.key_file.clone().unwrap_or_else(|| places.settings.with_file_name("store.key"));
    // Before anything is done: afterwards the daemon must find the key there.
    if let Some(named) = key_file(&places.settings).map_err(DaemonError::from)?.filter(|named| *named != key)
    {
        let what = format!(
            "`{}` names another key: `{}`; take `key_file` out of it, or encrypt with that one",
            places.settings.display(),
            named.display()
        );
        return Err(DaemonError::Settings { what }.into());
    }
    let done = encryption::encrypt(&places.state, &key, &Lines::default())?;
    let store = places.store();
    if !done.already {
        settle(settings)?;
    }
    say(&EncryptionLine::Done {
        already: done.already,
        commits: done.commits,
        store: store.into(),
        key_file: settings.key_file.clone().unwrap_or(key).into(),
    });
    Ok(())
}

/// Writes a line for whoever started us; that nobody reads it is no failure.
pub fn say(line: &EncryptionLine) {
    let text = serde_json::to_string(line).unwrap_or_default();
    let _ = writeln!(io::stdout(), "{text}");
}

/// What is told about the work, in few lines.
#[derive(Default)]
struct Lines {
    waiting: Mutex<Option<(Instant, u64)>>,
}

impl Lines {
    fn advance_by(&self, task: Task, done: u64, at_once: bool) {
        let mut waiting = lock(&self.waiting);
        let (since, before) = waiting.take().unwrap_or_else(|| (Instant::now(), 0));
        let done = before + done;
        if at_once || since.elapsed() >= EVERY {
            say(&EncryptionLine::Advance { task: task.name().to_owned(), done });
        } else {
            *waiting = Some((since, done));
        }
    }
}

impl Progress for Lines {
    fn begin(&self, task: Task, total: Option<u64>) {
        say(&EncryptionLine::Begin { task: task.name().to_owned(), total });
    }

    fn advance(&self, task: Task, done: u64) {
        self.advance_by(task, done, false);
    }

    fn end(&self, task: Task) {
        self.advance_by(task, 0, true);
        say(&EncryptionLine::End { task: task.name().to_owned() });
    }
}
