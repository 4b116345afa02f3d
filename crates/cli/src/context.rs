//! What every command works with: the options, the printer, the progress meter, and where the user's daemon is.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::Places;
use api::places::{SOCKET_VARIABLE, variable};

use crate::args::Global;
use crate::error::CliError;
use crate::output::Printer;
use crate::progress::Meter;

/// The name of a store's directory.
pub(crate) const STORE_NAME: &str = ".infinijup";

#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) printer: Printer,
    pub(crate) meter: Meter,
}

impl Context {
    pub(crate) fn new(mut global: Global) -> Self {
        global.socket = global.socket.or_else(|| std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from));
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
