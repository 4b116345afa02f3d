//! What every command works with: the options, the printer, the progress meter, and the way to the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::Places;
use api::places::{SOCKET_VARIABLE, variable};
use cas_core::layout::{Format, Layout};
use cas_core::{OpenOptions, Store, StoreError};

use crate::args::Global;
use crate::error::CliError;
use crate::output::Printer;
use crate::progress::Meter;
use crate::secret;

/// The name of a store's directory.
pub(crate) const STORE_NAME: &str = ".infinijup";

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) printer: Printer,
    pub(crate) meter: Meter,
}

impl Context {
    pub(crate) fn new(global: Global) -> Self {
        let (printer, meter) = (Printer::new(&global), Meter::new(&global));
        Self { global, printer, meter }
    }

    /// The socket that the user named, if so.
    pub(crate) fn named_socket(&self) -> Option<&Path> {
        // An empty variable names nothing.
        self.global.socket.as_deref().filter(|socket| !socket.as_os_str().is_empty())
    }

    /// Where the user's daemon is.
    pub(crate) fn places(&self) -> Result<Places, CliError> {
        let socket = self.named_socket().map(std::path::absolute).transpose();
        let socket =
            socket.map_err(|error| CliError::Usage { what: format!("--socket makes no sense: {error}") })?;
        Ok(Places::own_with(|name| match (name, &socket) {
            (SOCKET_VARIABLE, Some(socket)) => Some(socket.clone().into_os_string()),
            _ => variable(name),
        })?)
    }

    /// Where the store is: what was named, or the nearest one upward.
    pub(crate) fn root(&self) -> Result<PathBuf> {
        if let Some(store) = &self.global.store {
            return Ok(store.clone());
        }
        let here = current_directory()?;
        let found = here.ancestors().map(|directory| directory.join(STORE_NAME)).find(|path| path.is_dir());
        found.ok_or_else(|| StoreError::NotAStore { path: here.join(STORE_NAME) }.into())
    }

    /// Whether a store was named or is near.
    pub(crate) fn has_store(&self) -> bool {
        self.root().is_ok()
    }

    /// Opens the store, with a key if it needs one.
    pub(crate) fn open(&self) -> Result<Arc<Store>> {
        let root = self.root()?;
        let format = Format::read(&Layout::new(&root))?;
        self.printer.detail(&format!("using the store in {}", root.display()));
        if !format.encrypted {
            return Ok(Store::open(&root, OpenOptions::default())?);
        }
        let mut unlocks = secret::given(&self.global)?;
        if unlocks.is_empty() {
            unlocks.push(secret::asked(&root, "passphrase: ")?);
        }
        let mut failure = StoreError::KeyNeeded { path: root.clone() };
        for unlock in unlocks {
            match Store::open(&root, OpenOptions { unlock: Some(unlock), ..OpenOptions::default() }) {
                // Another one of those that were given may be right.
                Err(error @ StoreError::WrongKey { .. }) => failure = error,
                other => return Ok(other?),
            }
        }
        Err(failure.into())
    }
}

pub(crate) fn current_directory() -> Result<PathBuf> {
    std::env::current_dir().context("cannot tell which directory this is")
}

/// The directory that a file is in, as a path that can be opened.
pub(crate) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}
