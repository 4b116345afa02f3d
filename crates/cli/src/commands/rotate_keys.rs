//! `store rotate-keys`

use anyhow::Result;
use cas_core::crypto::{KdfCost, Unlock};
use cas_core::{Encryption, StoreError};
use serde::Serialize;

use super::target::Target;
use crate::args::RotateKeysArgs;
use crate::context::Context;
use crate::error::CliError;
use crate::secret;

#[derive(Serialize)]
struct Rotated<'a> {
    message_type: &'static str,
    key_generation: u64,
    keys: &'a [&'static str],
}

pub(crate) fn run(context: &Context, args: &RotateKeysArgs) -> Result<()> {
    let target = Target::of(context)?;
    target.alone(context)?;
    let store = target.open(context)?;
    // Before a new passphrase is asked for in vain.
    if !store.format().encrypted {
        return Err(StoreError::NotEncrypted { path: store.root().to_path_buf() }.into());
    }
    let mut unlocks: Vec<Unlock> =
        args.new_passphrase_file.iter().map(|path| secret::passphrase_file(path)).collect::<Result<_>>()?;
    for path in &args.new_key_file {
        unlocks.push(secret::key_file(path)?);
    }
    if target.is_daemons() && args.new_key_file.is_empty() {
        let what = "your daemon opens its store with a key file: name the new one with --new-key-file";
        return Err(CliError::Usage { what: what.to_owned() }.into());
    }
    if unlocks.is_empty() {
        unlocks.push(secret::asked_twice(store.root())?);
    }
    let keys: Vec<_> = unlocks.iter().map(secret::sort_of).collect();
    let key_generation = store.rotate_keys(&Encryption { unlocks, cost: KdfCost::default() })?;
    let rotated = Rotated { message_type: "keys_rotated", key_generation, keys: &keys };
    let line = format!(
        "the store now opens with its new {}, and with nothing else",
        keys.join(" or its new ").replace('_', " ")
    );
    context.printer.data(&rotated, &[line])?;
    if target.is_daemons() {
        context.printer.warning(
            "`key_file` in the daemon's settings must name the new key file before the daemon starts again",
        );
    }
    Ok(())
}
