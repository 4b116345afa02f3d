//! The store that a clone fills where there is none: a plain one, or one with the secret of the encrypted store that pushed.

use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::settings;
use cas_core::crypto::Unlock;
use cas_core::{OpenOptions, Store, StoreError};
use remote::{Objects, Patience, RemoteError};

use super::super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::secret;

/// Makes the store. Nothing is written before the remote's key has opened and everything was compared with it.
pub(super) fn make(context: &Context, target: &Target, objects: Arc<dyn Objects>) -> Result<Arc<Store>> {
    let given = secret::given(&context.global)?;
    if !remote::is_sealed(objects.clone(), Patience::default())? {
        // Who gives a key means to see only what was sealed with it.
        if !given.is_empty() {
            return Err(RemoteError::NotEncrypted.into());
        }
        return Ok(Store::init(target.root(), None, OpenOptions::default())?);
    }
    let daemons = target.settings().map(|settings| key_of_daemon(context, target, settings)).transpose()?;
    let unlocks = match &daemons {
        Some((key, _)) => vec![secret::key_file(key)?],
        None if given.is_empty() => vec![asked(target.root())?],
        None => given,
    };
    let keyring = remote::unlock(objects, Patience::default(), &unlocks)?;
    let store = Store::init_like(target.root(), &keyring, OpenOptions::default())?;
    // Only now: a daemon that finds a key and no store makes one of another secret.
    if let Some((key, settings)) = daemons {
        settings::name_key_file(settings, &key).map_err(CliError::from)?;
    }
    Ok(store)
}

/// The daemon opens its store by itself, so a passphrase is not enough.
fn key_of_daemon<'a>(context: &Context, target: &Target, settings: &'a Path) -> Result<(PathBuf, &'a Path)> {
    // One that runs has no key, and could not open what is made now.
    target.alone(context)?;
    let named = settings::key_file(settings).map_err(CliError::from)?;
    let given = context.global.key_file.as_deref().map(absolute).transpose();
    let usage = |what: String| CliError::Usage { what }.into();
    match (named, given.context("cannot tell where the key file is")?) {
        (Some(named), Some(given)) if named != given => {
            Err(usage(format!("`{}` names another key: `{}`", settings.display(), named.display())))
        }
        (Some(key), _) | (None, Some(key)) => Ok((key, settings)),
        (None, None) => Err(usage(
            "the remote is encrypted, and your daemon opens its store with a key file: give --key-file, or clone into a folder with --store"
                .to_owned(),
        )),
    }
}

fn asked(root: &Path) -> Result<Unlock> {
    secret::asked(root, "passphrase: ").map_err(|error| match error.downcast_ref() {
        Some(StoreError::KeyNeeded { .. }) => RemoteError::KeyNeeded.into(),
        _ => error,
    })
}
