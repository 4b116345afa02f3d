//! What is written down of a session, and where.
//!
//! A daemon can be killed at any moment, and the one after it knows what is on disk and nothing else. That is here: what a session *is*
//! ([`Record`]), what is being done to it ([`journal`]), where its files are ([`place`]), and what a snapshot says of the session that
//! it was taken of ([`SessionSection`]). Who writes which of them when is the business of the pipelines, in `lifecycle`; nothing here does
//! anything to a process.
//!
//! | file | what it knows |
//! |---|---|
//! | `session`, `habitat` | what a session is called, which GPUs it may have, and in which sort of place it lives |
//! | `record`, `records` | one session, and all of them |
//! | `encryption` | the snapshots that records name, which get other names when the store is encrypted |
//! | `notes` | what people and programs noted about it |
//! | `journal` | what is under way |
//! | `locks` | who is at it now: one operation at a time |
//! | `place`, `files` | where everything is, and how files get there that are a user's |
//! | `events`, `watch` | what happened to sessions, for those who listen, and how far an operation is |
//! | `json` | small files that are the old one or the new one |
//! | `listings` | what the newest snapshots know of files |
//! | `kept_files` | files that no snapshot has, before they go |
//! | `section`, `seed` | what a snapshot says of its session, also for a new one when that is gone |
//! | `programs` | our own files that a session has mapped, carried by its snapshots |
//! | `wanted_files` | which files belong to what is taken of a session, and to the way back |
//! | `snapshot_files` | the files that come out of a snapshot |
//! | `view`, `words` | a record in the words of the wire |
#![forbid(unsafe_code)]

pub mod encryption;
mod error;
pub mod events;
pub mod files;
mod habitat;
pub mod journal;
mod json;
mod kept_files;
mod listings;
pub mod locks;
mod mapped;
mod notes;
pub mod place;
mod programs;
mod record;
mod records;
mod section;
mod seed;
mod session;
mod snapshot_files;
mod view;
mod wanted_files;
pub mod watch;
pub mod words;

pub use containers::Image;
pub use error::{RecordError, Result};
pub use habitat::{Adopted, ContainerRecord, HabitatKind};
pub use json::write_json;
pub use kept_files::{keep_files, keep_loose_files, loose_files};
pub use listings::Listings;
pub use mapped::MADE_ANEW;
pub use notes::Notes;
pub use programs::carried;
pub use record::{KernelRecord, OriginRecord, Record};
pub use records::{Writers, read_records};
pub use section::{KernelPorts, SessionSection};
pub use seed::{Gone, bring_programs, gone_session, session_section};
pub use session::{GpuWish, SessionId};
pub use snapshot_files::{copy_out, file_text, snapshot_files};
pub use view::session_view;
pub use wanted_files::policy_at_start;
