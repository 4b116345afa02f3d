//! Memory: of the device, pinned, managed, and shared between processes.
use super::tables::{Allocation, Kind, Pinned};
use super::{Call, lock};
use crate::abi::sys::reserve;
use crate::code::{Code, Result};
use crate::wire::{Core, End, Span};

/// Pages of the host.
const PAGE: u64 = 4096;

impl Call {
    /// Device memory in a context (0: the current one).
    ///
    /// # Errors
    /// INVALID_VALUE for nothing, OUT_OF_MEMORY, and those of the context.
    pub fn alloc(&self, context: u64, bytes: u64, kind: Kind) -> Result<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (context, known) = self.context_of(context)?;
        self.take_back()?;
        let (address, room) = self.client.tables().addresses.take(bytes)?;
        if let Err(code) = self.core::<()>(Core::Alloc { context, address, bytes: room }) {
            self.client.tables().addresses.give_back(address, room);
            return Err(code);
        }
        let mut tables = self.client.tables();
        let id = tables.handle();
        tables
            .allocations
            .insert(address, Allocation { bytes, room, context, device: known.device, kind, id });
        Ok(address)
    }

    /// Frees what [`Call::alloc`] or [`Call::alloc_managed`] gave; with a stream: when that gets there.
    ///
    /// # Errors
    /// INVALID_VALUE if there is nothing of the kind at this address.
    pub fn free(&self, address: u64, stream: Option<u64>) -> Result<()> {
        let allocation =
            self.client.tables().allocations.get(&address).copied().ok_or(Code::INVALID_VALUE)?;
        match (allocation.kind, stream) {
            (Kind::Device | Kind::Pooled(_), None) => self.core::<()>(Core::Free { address })?,
            (Kind::Device | Kind::Pooled(_), Some(stream)) => {
                self.core::<()>(Core::FreeAsync { address, stream })?
            }
            (Kind::Managed, _) => {
                self.core::<()>(Core::HostRangeEnd { address })?;
                self.client.tables().allocations.remove(&address);
                reserve::release(address, allocation.room);
                return Ok(());
            }
            (Kind::Foreign | Kind::Mapped(_), _) => return Err(Code::INVALID_VALUE),
        }
        let mut tables = self.client.tables();
        tables.allocations.remove(&address);
        if stream.is_some() {
            tables.leaving.insert(address, allocation.room);
        } else {
            tables.addresses.give_back(address, allocation.room);
        }
        Ok(())
    }

    /// Addresses that streams have freed in the meantime can be given out again.
    fn take_back(&self) -> Result<()> {
        // Held while asking, so that the answer is not about an earlier tenant of an address; it takes no time.
        let mut tables = self.client.tables();
        if tables.leaving.is_empty() {
            return Ok(());
        }
        let addresses = tables.leaving.keys().copied().collect();
        let gone: Vec<u64> = self.core(Core::Gone { addresses })?;
        for address in gone {
            if let Some(room) = tables.leaving.remove(&address) {
                tables.addresses.give_back(address, room);
            }
        }
        Ok(())
    }

    /// Managed memory: a mapping of `/dev/nvidia-uvm` whose offset is its address. That only works where a test has put a
    /// file in the place of the device node.
    ///
    /// # Errors
    /// NOT_SUPPORTED for a real node, OUT_OF_MEMORY, and those of the context.
    pub fn alloc_managed(&self, bytes: u64) -> Result<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let (context, known) = self.context()?;
        let node =
            std::fs::OpenOptions::new().read(true).write(true).open(self.client.dev.join("nvidia-uvm"));
        let node = node.map_err(|_| Code::NOT_SUPPORTED)?;
        let length =
            node.metadata().ok().filter(std::fs::Metadata::is_file).map_or(0, |metadata| metadata.len());
        let room = bytes.checked_next_multiple_of(super::addresses::LARGE).ok_or(Code::OUT_OF_MEMORY)?;
        let address = reserve::reserve(room, super::addresses::LARGE)?;
        let mapped = if address + room <= length {
            reserve::map_file_at(address, room, &node)
        } else {
            Err(Code::NOT_SUPPORTED)
        };
        if let Err(code) = mapped.and_then(|()| self.core::<()>(Core::HostRange { address, bytes })) {
            reserve::release(address, room);
            return Err(code);
        }
        let mut tables = self.client.tables();
        let id = tables.handle();
        tables.allocations.insert(
            address,
            Allocation { bytes, room, context, device: known.device, kind: Kind::Managed, id },
        );
        Ok(address)
    }

    /// Pinned host memory.
    ///
    /// # Errors
    /// INVALID_VALUE for nothing, OUT_OF_MEMORY, and those of the context.
    pub fn alloc_host(&self, bytes: u64, flags: u32) -> Result<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let context = self.context()?.0;
        let address = reserve::anonymous(bytes.checked_next_multiple_of(PAGE).ok_or(Code::OUT_OF_MEMORY)?)?;
        self.pin(address, Pinned { bytes, flags, registered: false, context, id: 0 })?;
        Ok(address)
    }

    /// Pins memory of the program.
    ///
    /// # Errors
    /// HOST_MEMORY_ALREADY_REGISTERED if any of it is, INVALID_VALUE, and those of the context.
    pub fn register_host(&self, address: u64, bytes: u64, flags: u32) -> Result<()> {
        if bytes == 0 || address.checked_add(bytes).is_none() {
            return Err(Code::INVALID_VALUE);
        }
        let context = self.context()?.0;
        let tables = self.client.tables();
        let before = tables.pinned.range(..address + bytes).next_back();
        if before.is_some_and(|(start, pinned)| start + pinned.bytes > address) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        drop(tables);
        self.pin(address, Pinned { bytes, flags, registered: true, context, id: 0 })
    }

    fn pin(&self, address: u64, mut pinned: Pinned) -> Result<()> {
        self.core::<()>(Core::HostRange { address, bytes: pinned.bytes })?;
        let mut tables = self.client.tables();
        pinned.id = tables.handle();
        tables.pinned.insert(address, pinned);
        Ok(())
    }

    /// Undoes [`Call::alloc_host`] or, with `registered`, [`Call::register_host`].
    ///
    /// # Errors
    /// INVALID_VALUE or HOST_MEMORY_NOT_REGISTERED if it is no such memory.
    pub fn unpin(&self, address: u64, registered: bool) -> Result<()> {
        let none = if registered { Code::HOST_MEMORY_NOT_REGISTERED } else { Code::INVALID_VALUE };
        let known = self.client.tables().pinned.get(&address).copied();
        let pinned = known.filter(|pinned| pinned.registered == registered).ok_or(none)?;
        self.core::<()>(Core::HostRangeEnd { address })?;
        self.client.tables().pinned.remove(&address);
        if !registered {
            reserve::release(address, pinned.bytes.next_multiple_of(PAGE));
        }
        Ok(())
    }

    /// One end of a copy. `host`: what the call says about it.
    #[must_use]
    pub fn end(&self, address: u64, pitch: u64, host: Option<bool>) -> End {
        let pinned = host != Some(false) && self.client.tables().pinned_at(address).is_some();
        End { address, pitch, host, pinned }
    }

    /// Copies rows. `wait`: until it is done.
    ///
    /// # Errors
    /// INVALID_VALUE for addresses that are not there, and those of the stream.
    pub fn copy(&self, stream: u64, to: End, from: End, span: Span, wait: bool) -> Result<()> {
        self.core(Core::Copy { stream, to, from, span, wait })
    }

    /// Copies one row.
    ///
    /// # Errors
    /// As [`Call::copy`].
    pub fn copy_bytes(
        &self,
        stream: u64,
        to: (u64, Option<bool>),
        from: (u64, Option<bool>),
        bytes: u64,
        wait: bool,
    ) -> Result<()> {
        let (to, from) = (self.end(to.0, bytes, to.1), self.end(from.0, bytes, from.1));
        self.copy(stream, to, from, Span { width: bytes, height: 1 }, wait)
    }

    /// The key under which another process can open an allocation. Leaves the trace in `/dev/shm` that the driver leaves.
    ///
    /// # Errors
    /// INVALID_VALUE if it is no allocation.
    pub fn export_ipc(&self, address: u64) -> Result<u64> {
        let start = self.client.tables().allocation_at(address).ok_or(Code::INVALID_VALUE)?.0;
        let key = self.core(Core::IpcExport { address: start })?;
        let mut trace = lock(&self.client.ipc_trace);
        if trace.is_none() {
            let name = format!("/dev/shm/cuda.shm.{}.{:x}.1", nix::unistd::getuid(), self.client.pid);
            let file =
                std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).open(name);
            if let Ok(file) = file
                && file.set_len(PAGE).is_ok()
            {
                use std::os::fd::AsFd;
                *trace = reserve::map_evidence(file.as_fd(), PAGE);
            }
        }
        Ok(key)
    }

    /// Maps another process's allocation.
    ///
    /// # Errors
    /// INVALID_HANDLE if that is gone, and those of the context.
    pub fn open_ipc(&self, key: u64) -> Result<u64> {
        let (context, known) = self.context()?;
        let bytes: u64 = self.core(Core::IpcSize { key })?;
        let (address, room) = self.client.tables().addresses.take(bytes)?;
        if let Err(code) = self.core::<()>(Core::IpcOpen { context, key, address }) {
            self.client.tables().addresses.give_back(address, room);
            return Err(code);
        }
        let mut tables = self.client.tables();
        let id = tables.handle();
        tables.allocations.insert(
            address,
            Allocation { bytes, room, context, device: known.device, kind: Kind::Foreign, id },
        );
        Ok(address)
    }

    /// Undoes it.
    ///
    /// # Errors
    /// INVALID_VALUE if it is no such mapping.
    pub fn close_ipc(&self, address: u64) -> Result<()> {
        let known = self.client.tables().allocations.get(&address).copied();
        let allocation = known.filter(|known| known.kind == Kind::Foreign).ok_or(Code::INVALID_VALUE)?;
        self.core::<()>(Core::Free { address })?;
        let mut tables = self.client.tables();
        tables.allocations.remove(&address);
        tables.addresses.give_back(address, allocation.room);
        Ok(())
    }
}
