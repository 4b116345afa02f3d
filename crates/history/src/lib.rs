//! The history of one user: commits, the threads and tags that lead to them, and the store that they lie in.
//!
//! What a commit *is* stands in `manifest`; how bytes are kept, in `cas-core`. Here is what is done with commits: they are made,
//! found by what people type, listed, forgotten, freed and sealed. Nothing here knows what a process is.
//!
//! The store is opened once and shared ([`OwnStore`]). A session writes to a thread; its head moves by compare-and-swap, so that two
//! writers cannot lose a commit. Going back does not rewrite anything: it adds a commit with two parents, what was left and what was
//! gone back to.
//!
//! | file | what is done there |
//! |---|---|
//! | `own_store` | the store is found, made and opened, with its key |
//! | `along` | what a request says of a snapshot, and its document |
//! | `commits` | a snapshot becomes a commit on a thread |
//! | `lookup` | commits are found, loaded and listed |
//! | `timeline`, `variables` | a commit as it is shown, and what went with it: its document, the names of variables |
//! | `diff`, `texts` | what lies between two of them, also line by line |
//! | `images` | one of them as CRIU's images, for other uses |
//! | `exchange` | one of them as a checkpoint archive that others read, and the other way round |
//! | `names` | threads and tags |
//! | `forget`, `gc` | commits leave history, and what only they led to is freed |
//! | `families` | which threads are connected with each other |
//! | `known`, `source` | what was read is kept in memory; history is followed as it is now; what is being restored cannot be forgotten |
//! | `encryption`, `key` | a plain store becomes an encrypted one, and what opens it |
//! | `seal` | the mark that says: this installation took this snapshot |

#![forbid(unsafe_code)]

pub mod along;
mod commits;
mod diff;
pub mod encryption;
mod error;
mod exchange;
mod families;
mod forget;
mod gc;
mod images;
mod key;
mod known;
mod lookup;
mod names;
mod own_store;
mod seal;
mod source;
#[cfg(test)]
mod testing;
mod texts;
mod timeline;
mod variables;

pub use commits::{KeptFor, NewCommit};
pub use error::{HistoryError, Result};
pub use exchange::{ArchiveForm, ArchiveIn, ArchiveOut, Arrived, Written};
pub use families::Families;
pub use forget::Forgotten;
pub use images::write_images;
pub use key::StoreKey;
pub use known::Using;
pub use own_store::{LookBeyond, OwnStore, Tell, UserStore};
pub use seal::Sealer;
pub use texts::ChangedText;
pub use timeline::{NOTEBOOK_LIMIT, Names};
pub use variables::variables_section;
