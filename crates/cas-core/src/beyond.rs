//! Objects that a store lacks and somebody else has: the port through which they are read.
//!
//! A store whose history came without its data ([`elsewhere`](crate::elsewhere)) asks a [`Beyond`] for what it does not find. Nothing of
//! what is read so enters the store; whoever fills the port may keep some of it. The store is asked first, always, so nothing changes
//! for what is here.

use std::fmt;

use crate::error::Result;
use crate::id::{Kind, ObjectId};

/// Has objects that a store lacks.
pub trait Beyond: Send + Sync + fmt::Debug {
    /// The content of an object, which was compared with its id. `None`: nobody has it.
    fn read(&self, kind: Kind, id: &ObjectId) -> Result<Option<Vec<u8>>>;

    /// The first of these objects that nobody has. Much less than reading them.
    fn first_absent(&self, ids: &[ObjectId]) -> Result<Option<ObjectId>>;

    /// These will be read next, in about this order. Whoever is far away can begin to fetch them.
    fn expect(&self, ids: &[ObjectId]);
}
