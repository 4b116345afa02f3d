//! Where no call can be injected.

use std::io;

use super::Call;
use crate::error::{MemoryError, NotHere, Result};
use crate::standing::{Standing, StandsStill};

/// Cannot be made here.
#[derive(Debug)]
pub(crate) enum Injection {}

impl Injection {
    pub(crate) fn begin(standing: &Standing) -> Result<Self> {
        Err(MemoryError::not_here(standing.pid(), NotHere::Architecture))
    }

    pub(crate) fn call(&mut self, _: Call) -> Result<io::Result<u64>> {
        match *self {}
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {}
    }
}
