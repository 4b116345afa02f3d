//! Which store a command is about: the one of the user's daemon or, with `--store`, one in a folder.
//!
//! What only reads does so by itself in both, whether or not a daemon runs: the locks in a store let any number of programs read
//! and write it at the same time. A daemon that runs is asked where its store is, because it may have been started with other
//! settings than ours; none is started for that. What the daemon has to know of (tags, forgetting) goes through the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use api::DaemonView;
use api::places::{STATE_VARIABLE, store_in, variable};
use cas_core::layout::{Format, Layout};
use cas_core::{OpenOptions, Store, StoreError};
use remote::ReadThrough;

use super::daemon::starter;
use super::online::Online;
use crate::context::{Context, STORE_NAME};
use crate::error::CliError;
use crate::secret;

/// A command keeps so much of what it reads from remotes. The daemon, while it reads from one, has the cache to itself.
const CACHE: u64 = 1 << 30;

/// A store, which may not be there.
#[derive(Debug)]
pub(super) struct Target {
    root: PathBuf,
    /// Where the settings of the daemon are whose store it is; `None` for a folder.
    settings: Option<PathBuf>,
}

impl Target {
    /// The store that is meant.
    pub(super) fn of(context: &Context) -> Result<Self> {
        let Some(root) = &context.global.store else {
            if let Some(near) = near() {
                let near = near.display();
                context.printer.note(&format!(
                    "this is about your daemon's store; `--store {near}` is about the one there"
                ));
            }
            return Self::daemons(context);
        };
        // Who names the daemon's store by its path means the same store.
        let own = context.places().ok().filter(|places| is_same(&places.store(), root));
        Ok(Self { root: root.clone(), settings: own.map(|places| places.settings) })
    }

    /// The store of the daemon that answers or, if none does, of the one that would be started.
    fn daemons(context: &Context) -> Result<Self> {
        let places = context.places()?;
        match Online::at(context, &places.socket)?.get::<DaemonView>("/v1/daemon") {
            Ok(view) => {
                let settings = view.settings.as_path().to_path_buf();
                Ok(Self { root: store_in(view.state.as_path()), settings: Some(settings) })
            }
            // Whose socket was named, and whose state was not, may keep its store anywhere.
            Err(error) if context.named_socket().is_some() && variable(STATE_VARIABLE).is_none() => {
                Err(error)
            }
            Err(error) if matches!(error.downcast_ref(), Some(CliError::NoDaemon { .. })) => {
                Ok(Self { root: places.store(), settings: Some(places.settings) })
            }
            Err(error) => Err(error),
        }
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where the settings of the daemon are whose store it is.
    pub(super) fn settings(&self) -> Option<&Path> {
        self.settings.as_deref()
    }

    /// Whether it is the daemon's.
    pub(super) const fn is_daemons(&self) -> bool {
        self.settings.is_some()
    }

    /// Where it is, for those who must have it to themselves: no daemon runs that uses it.
    pub(super) fn alone(&self, context: &Context) -> Result<&Path> {
        if self.is_daemons() && starter::answers(&context.places()?.socket) {
            return Err(CliError::StoreInUse { path: self.root.clone() }.into());
        }
        Ok(&self.root)
    }

    /// Opens it, with a key if it needs one. What it lacks of a history is read from the remote that has it.
    pub(super) fn open(&self, context: &Context) -> Result<Arc<Store>> {
        let store = self.open_alone(context)?;
        ReadThrough::attach(&store, CACHE);
        Ok(store)
    }

    fn open_alone(&self, context: &Context) -> Result<Arc<Store>> {
        let root = &self.root;
        let format = Format::read(&Layout::new(root)).map_err(|error| match error {
            StoreError::NotAStore { path } if self.is_daemons() => CliError::NothingYet { path }.into(),
            other => anyhow::Error::from(other),
        })?;
        context.printer.detail(&format!("using the store in {}", root.display()));
        if !format.encrypted {
            return Ok(Store::open(root, OpenOptions::default())?);
        }
        let mut unlocks = secret::given(&context.global)?;
        if let Some(settings) = &self.settings
            && let Some(path) = api::settings::key_file(settings).map_err(CliError::from)?
        {
            match secret::key_file(&path) {
                // What was given may do.
                Err(error) if unlocks.is_empty() => return Err(error),
                key => unlocks.extend(key),
            }
        }
        if unlocks.is_empty() {
            unlocks.push(secret::asked(root, "passphrase: ")?);
        }
        let mut failure = StoreError::KeyNeeded { path: root.clone() };
        for unlock in unlocks {
            match Store::open(root, OpenOptions { unlock: Some(unlock), ..OpenOptions::default() }) {
                // Another one of those that were given may be right.
                Err(error @ StoreError::WrongKey { .. }) => failure = error,
                other => return Ok(other?),
            }
        }
        Err(failure.into())
    }
}

/// The store that is meant, opened.
pub(super) fn open(context: &Context) -> Result<Arc<Store>> {
    Target::of(context)?.open(context)
}

/// The same for what is written to it: the daemon of a new machine has none before the first snapshot, and makes it when it is asked for
/// its history.
pub(super) fn open_to_fill(context: &Context) -> Result<Arc<Store>> {
    match open(context) {
        Err(error) if matches!(error.downcast_ref(), Some(CliError::NothingYet { .. })) => {
            Online::new(context)?.get::<api::Commits>("/v1/history?limit=1")?;
            open(context)
        }
        opened => opened,
    }
}

/// A store in this directory or one above.
fn near() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|directory| directory.join(STORE_NAME)).find(|path| path.is_dir())
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}
