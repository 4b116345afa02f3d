//! One writing connection, a few reading ones, and how they survive failures.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

use super::schema::{self, Role};
use crate::error::{Result, StoreError};

/// Readers kept for the next call. More may exist while more threads read at once.
const IDLE_READERS: usize = 4;

/// The connections of one [`Catalogue`](super::Catalogue).
pub(super) struct Connections {
    path: PathBuf,
    /// Device and inode of the file that was opened: a rebuild may put another one in its place.
    file: (u64, u64),
    /// `None` after a failure; the next call opens a new one.
    writer: Mutex<Option<Connection>>,
    readers: Mutex<Vec<Connection>>,
}

/// What stops a transaction: SQLite, or our own judgement.
pub(super) enum Fault {
    Sql(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What the body of a transaction returns.
pub(super) type Step<T> = std::result::Result<T, Fault>;

impl Connections {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let writer = schema::open_checked(path)?;
        let file = identity(path)?;
        Ok(Self {
            path: path.to_path_buf(),
            file,
            writer: Mutex::new(Some(writer)),
            readers: Mutex::default(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `body` on a reading connection, not in a transaction of its own: each statement sees the newest state.
    pub(super) fn read<T>(
        &self,
        action: &'static str,
        body: impl FnOnce(&Connection) -> Step<T>,
    ) -> Result<T> {
        let idle = lock(&self.readers).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.another(Role::Reader, action)?,
        };
        // On failure (and if `body` panics) the connection is dropped, not given back.
        let value = body(&conn).map_err(|fault| self.explain(action, fault))?;
        if conn.is_autocommit() {
            let mut readers = lock(&self.readers);
            if readers.len() < IDLE_READERS {
                readers.push(conn);
            }
        }
        Ok(value)
    }

    /// Like [`read`](Self::read), and all statements of `body` see one and the same state.
    pub(super) fn read_at_once<T>(
        &self,
        action: &'static str,
        body: impl FnOnce(&Connection) -> Step<T>,
    ) -> Result<T> {
        self.read(action, |conn| {
            let tx = conn.unchecked_transaction()?;
            let value = body(&tx)?;
            tx.finish()?;
            Ok(value)
        })
    }

    /// Runs `body` in a write transaction. When this returns `Ok`, what it did is on disk; else nothing of it happened.
    pub(super) fn write<T>(
        &self,
        action: &'static str,
        body: impl FnOnce(&Transaction<'_>) -> Step<T>,
    ) -> Result<T> {
        let mut slot = lock(&self.writer);
        self.still_there()?;
        let mut conn = match slot.take() {
            Some(conn) => conn,
            None => self.another(Role::Writer, action)?,
        };
        let done = (|| {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = body(&tx)?;
            tx.commit()?;
            Ok(value)
        })();
        match done {
            Ok(value) => {
                self.shorten_log(&conn);
                *slot = Some(conn);
                Ok(value)
            }
            Err(fault) => Err(self.explain(action, fault)),
        }
    }

    /// Commits move the log's pages to the database by themselves, but only as far as no reader is in the way, and a
    /// crowd of readers can be in the way each time. A log far beyond its measure slows every lookup, so then wait
    /// for them, but not long: a reader may be a process that somebody stopped. This is upkeep and may fail.
    fn shorten_log(&self, conn: &Connection) {
        let length = std::fs::metadata(self.log_path()).map_or(0, |meta| meta.len());
        if length > 2 * schema::LOG_LIMIT {
            let _ = conn.busy_timeout(Duration::from_secs(1)).and_then(|()| truncate_log(conn));
            let _ = conn.busy_timeout(schema::BUSY);
        }
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        let action = "empty the write-ahead log";
        let mut slot = lock(&self.writer);
        self.still_there()?;
        let conn = match slot.take() {
            Some(conn) => conn,
            None => self.another(Role::Writer, action)?,
        };
        let complete = truncate_log(&conn).map_err(StoreError::catalogue(action))?;
        *slot = Some(conn);
        if complete {
            return Ok(());
        }
        Err(self.locked())
    }

    fn locked(&self) -> StoreError {
        StoreError::Locked {
            path: self.path.clone(),
            holder: "another process that uses the catalogue".to_owned(),
        }
    }

    fn log_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push("-wal");
        PathBuf::from(name)
    }

    fn another(&self, role: Role, action: &'static str) -> Result<Connection> {
        self.still_there()?;
        schema::open_again(&self.path, role).map_err(StoreError::catalogue(action))
    }

    /// Writing to a file that no longer has the name would be writing to nowhere.
    fn still_there(&self) -> Result<()> {
        if identity(&self.path)? == self.file {
            return Ok(());
        }
        let what = format!(
            "the catalogue `{}` was replaced while it was open: open the store again",
            self.path.display()
        );
        Err(StoreError::Invalid { what })
    }

    fn explain(&self, action: &'static str, fault: Fault) -> StoreError {
        use rusqlite::Error;
        match fault {
            Fault::Store(error) => error,
            // The query was fine, the value is impossible: the file is not what was written.
            Fault::Sql(
                error @ (Error::FromSqlConversionFailure(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::InvalidColumnType(..)),
            ) => StoreError::damaged("catalogue", &self.path, error.to_string()),
            Fault::Sql(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => self.locked(),
            Fault::Sql(source) => StoreError::Catalogue { action, source },
        }
    }
}

fn truncate_log(conn: &Connection) -> rusqlite::Result<bool> {
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok(row.get::<_, i64>(0)? == 0))
}

fn identity(path: &Path) -> Result<(u64, u64)> {
    let meta = std::fs::metadata(path).map_err(StoreError::io("open", path))?;
    Ok((meta.dev(), meta.ino()))
}

/// A panic while a lock was held leaves nothing half done here: connections are taken out while they are used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
