//! The ground floor: what every other crate needs in the same way, and that must not be written twice.
//!
//! * [`Class`]: what kind of trouble an error is.
//! * [`IoError`]: what the operating system refused, with the verb and the path.
//! * [`explain()`]: an error with its causes, as text.
//! * [`names`]: what a session, a thread, a tag or a kernelspec may be called.
//! * [`proc`]: reading `/proc`.
//! * [`several()`]: the same several times at once.
//!
//! Nothing here decides anything. What needs a decision belongs to the crate that takes it.
#![forbid(unsafe_code)]

mod class;
mod explain;
mod io_error;
pub mod names;
pub mod proc;
mod several;

pub use class::Class;
pub use explain::explain;
pub use io_error::{IoError, io_error};
pub use several::several;
