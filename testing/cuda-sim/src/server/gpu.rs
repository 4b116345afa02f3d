//! A GPU and the account of its memory.
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Link, lock};
use crate::code::{Code, Result};
use crate::wire::{GpuInfo, MemoryInfo};

/// One GPU that the server plays.
#[derive(Debug)]
pub struct Gpu {
    /// What everybody sees.
    pub info: GpuInfo,
    /// The way to the host.
    pub link: Link,
    used: Mutex<u64>,
    lost: AtomicBool,
}

impl Gpu {
    pub(super) fn new(info: GpuInfo, link: Link) -> Self {
        Self { info, link, used: Mutex::new(0), lost: AtomicBool::new(false) }
    }

    /// Takes bytes from the account.
    ///
    /// # Errors
    /// OUT_OF_MEMORY, or UNKNOWN for a lost GPU.
    pub fn take(&self, bytes: u64) -> Result<()> {
        self.alive()?;
        let mut used = lock(&self.used);
        let after =
            used.checked_add(bytes).filter(|after| *after <= self.info.memory).ok_or(Code::OUT_OF_MEMORY)?;
        *used = after;
        Ok(())
    }

    /// Puts them back.
    pub fn give_back(&self, bytes: u64) {
        let mut used = lock(&self.used);
        *used = used.saturating_sub(bytes);
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> u64 {
        *lock(&self.used)
    }

    /// Free and total.
    #[must_use]
    pub fn memory(&self) -> MemoryInfo {
        MemoryInfo { free: self.info.memory - self.used(), total: self.info.memory }
    }

    /// The GPU falls off the bus, or comes back.
    pub fn set_lost(&self, lost: bool) {
        self.lost.store(lost, Ordering::SeqCst);
    }

    /// Has it fallen off the bus?
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    /// # Errors
    /// UNKNOWN if it is lost.
    pub fn alive(&self) -> Result<()> {
        if self.is_lost() { Err(Code::UNKNOWN) } else { Ok(()) }
    }
}
