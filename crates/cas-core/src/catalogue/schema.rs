//! The database file: its tables, its marks, and how a connection to it is set up.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Result, StoreError};

/// "IJct": tells this file from other SQLite databases.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"IJct");
/// Raised whenever an older program would get the tables wrong.
pub(super) const VERSION: i32 = 1;

/// How long to wait for another process's write.
pub(super) const BUSY: Duration = Duration::from_secs(60);

/// Bytes in a page. Smaller ones (1 and 2 KiB) made neither lookups nor inserts cheaper.
const PAGE_SIZE: u32 = 4096;
/// The writer's page cache. Leaves are hit at random, so a cache only ever pays for inner pages: 4 MiB of them at 10^7
/// objects. 32 MiB made inserts no cheaper at 10^6.
const WRITER_CACHE_KIB: i32 = 4 * 1024;
/// Each reader's page cache, for inner pages too. More would not last: every commit of somebody else empties it. With
/// 8 MiB a lookup among 10^6 cost more than with 2, and with 2 one among 10^7 half as much again as among 10^6.
const READER_CACHE_KIB: i32 = 4 * 1024;
/// Pages in the log before they are moved to the database: two packs of 500 objects. A longer log helps only as long as
/// the same pages come again, which they do not in a large catalogue, and every lookup has to look through it.
const CHECKPOINT_PAGES: u32 = 1024;
/// The log is cut back to this after it grew beyond it.
pub(super) const LOG_LIMIT: u64 = 64 << 20;

const TABLES: &str = "
CREATE TABLE objects(
    key INTEGER PRIMARY KEY, rest BLOB NOT NULL, pack INTEGER NOT NULL, entry INTEGER NOT NULL,
    offset INTEGER NOT NULL, stored_len INTEGER NOT NULL, plain_len INTEGER NOT NULL, kind INTEGER NOT NULL
) STRICT;
CREATE TABLE twins(
    key INTEGER NOT NULL, rest BLOB NOT NULL, pack INTEGER NOT NULL, entry INTEGER NOT NULL,
    offset INTEGER NOT NULL, stored_len INTEGER NOT NULL, plain_len INTEGER NOT NULL, kind INTEGER NOT NULL,
    PRIMARY KEY(key, rest)
) STRICT, WITHOUT ROWID;
CREATE TABLE packs(
    no INTEGER PRIMARY KEY AUTOINCREMENT, id BLOB NOT NULL UNIQUE, class INTEGER NOT NULL, epoch INTEGER NOT NULL,
    file_len INTEGER NOT NULL, objects INTEGER NOT NULL, stored INTEGER NOT NULL, plain INTEGER NOT NULL
) STRICT;
CREATE TABLE contents(pack INTEGER PRIMARY KEY REFERENCES packs(no) ON DELETE CASCADE, keys BLOB NOT NULL) STRICT;
CREATE TABLE condemned(
    pack INTEGER PRIMARY KEY REFERENCES packs(no) ON DELETE CASCADE, generation INTEGER NOT NULL
) STRICT;
CREATE TABLE doomed(id BLOB NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE sessions(
    no INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL, started_generation INTEGER NOT NULL,
    started_unix INTEGER NOT NULL, pid INTEGER NOT NULL
) STRICT;
CREATE TABLE pins(
    session INTEGER NOT NULL REFERENCES sessions(no) ON DELETE CASCADE, id BLOB NOT NULL, PRIMARY KEY(session, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE pending(
    name TEXT NOT NULL PRIMARY KEY, session INTEGER REFERENCES sessions(no) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE meta(key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE gc(one INTEGER PRIMARY KEY CHECK(one = 1), generation INTEGER NOT NULL) STRICT;
INSERT INTO gc VALUES(1, 0);
";

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Makes the file with empty tables. It is complete and on disk, or not there.
pub(super) fn create(path: &Path) -> Result<()> {
    new_file(path)?;
    let made = (|| {
        let mut conn = raw(path).map_err(StoreError::catalogue("create the database"))?;
        fill(&mut conn).map_err(StoreError::catalogue("create the tables"))?;
        let mode = conn
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
            .map_err(StoreError::catalogue("switch to write-ahead logging"))?;
        drop(conn);
        expect_wal(path, &mode)?;
        sync(path)
    })();
    if made.is_err() {
        // Ours and useless. If even this fails, opening the file reports that it is not a catalogue.
        let _ = std::fs::remove_file(path);
    }
    made
}

/// An empty file that only its owner can read, and that was not there before.
pub(super) fn new_file(path: &Path) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map(drop)
        .map_err(StoreError::io("create", path))
}

/// Writes the marks and the tables into an empty database, in one transaction.
pub(super) fn fill(conn: &mut Connection) -> rusqlite::Result<()> {
    conn.pragma_update(None, "page_size", PAGE_SIZE)?;
    let tx = conn.transaction()?;
    tx.execute_batch(TABLES)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()
}

/// Makes the file and its name durable. Nobody may have it open through SQLite (see the module documentation).
pub(super) fn sync(path: &Path) -> Result<()> {
    let sync_one =
        |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(StoreError::io("sync", path));
    sync_one(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_one(parent),
        _ => sync_one(Path::new(".")),
    }
}

/// Opens the file for the first time in this process: is it ours, and can we read it?
pub(super) fn open_checked(path: &Path) -> Result<Connection> {
    std::fs::metadata(path).map_err(StoreError::io("open", path))?;
    let failed = StoreError::catalogue("open the database");
    let conn = raw(path).map_err(failed)?;
    let number = |pragma: &str| conn.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let application =
        number("application_id").map_err(StoreError::catalogue("read the database's header"))?;
    if application != APPLICATION_ID {
        return Err(StoreError::damaged("catalogue", path, "the file is not a catalogue"));
    }
    let version = number("user_version").map_err(StoreError::catalogue("read the database's version"))?;
    if version > VERSION {
        let [found, supported] = [version, VERSION].map(i32::cast_unsigned);
        return Err(StoreError::FormatTooNew { path: path.to_path_buf(), found, supported });
    }
    if version < VERSION {
        return Err(StoreError::damaged("catalogue", path, format!("version {version} never existed")));
    }
    let mode = conn
        .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
        .map_err(StoreError::catalogue("switch to write-ahead logging"))?;
    expect_wal(path, &mode)?;
    set_up(&conn, Role::Writer).map_err(StoreError::catalogue("set up the database"))?;
    conn.query_row("SELECT generation FROM gc", [], |row| row.get::<_, i64>(0))
        .map_err(StoreError::catalogue("read the tables"))?;
    Ok(conn)
}

/// Opens one more connection to a file that [`open_checked`] found good.
pub(super) fn open_again(path: &Path, role: Role) -> rusqlite::Result<Connection> {
    let conn = raw(path)?;
    set_up(&conn, role)?;
    Ok(conn)
}

/// A connection as SQLite gives it. Never creates a file. Without `SQLITE_OPEN_URI`, a path is only ever a path.
pub(super) fn raw(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    conn.busy_timeout(BUSY)?;
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(conn)
}

fn set_up(conn: &Connection, role: Role) -> rusqlite::Result<()> {
    conn.set_prepared_statement_cache_capacity(64);
    conn.pragma_update(None, "synchronous", "full")?;
    conn.pragma_update(None, "foreign_keys", true)?;
    conn.pragma_update(None, "temp_store", "file")?;
    // The file is input: let SQLite look closer at pages it reads, and run no code from the schema.
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    pragma(conn, "mmap_size", 0)?;
    match role {
        Role::Writer => {
            conn.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
            pragma(conn, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
            pragma(conn, "journal_size_limit", LOG_LIMIT)?;
        }
        Role::Reader => {
            conn.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
            conn.pragma_update(None, "query_only", true)?;
        }
    }
    Ok(())
}

/// Sets a pragma that answers with its new value.
pub(super) fn pragma(conn: &Connection, name: &str, value: impl rusqlite::ToSql) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, name, value, |_| Ok(()))
}

fn expect_wal(path: &Path, mode: &str) -> Result<()> {
    if mode == "wal" {
        return Ok(());
    }
    let what =
        format!("the file system of `{}` cannot hold a catalogue: no write-ahead log there", path.display());
    Err(StoreError::Invalid { what })
}
