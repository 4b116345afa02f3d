//! `store init`

use anyhow::Result;
use cas_core::crypto::KdfCost;
use cas_core::{Encryption, OpenOptions, Store};
use manifest::ByteText;
use serde::Serialize;

use crate::args::InitArgs;
use crate::context::{Context, STORE_NAME, current_directory};
use crate::format;
use crate::secret;

#[derive(Serialize)]
struct Created<'a> {
    message_type: &'static str,
    store: ByteText,
    id: &'a str,
    encrypted: bool,
    keys: &'a [&'static str],
}

pub(crate) fn run(context: &Context, args: &InitArgs) -> Result<()> {
    let root = match &context.global.store {
        Some(store) => store.clone(),
        None => current_directory()?.join(STORE_NAME),
    };
    let mut unlocks = secret::given(&context.global)?;
    if args.encrypt && unlocks.is_empty() {
        unlocks.push(secret::asked_twice(&root)?);
    }
    let keys: Vec<_> = unlocks.iter().map(secret::sort_of).collect();
    let encryption = (!unlocks.is_empty()).then(|| Encryption { unlocks, cost: KdfCost::default() });
    let store = Store::init(&root, encryption.as_ref(), OpenOptions::default())?;
    let created = Created {
        message_type: "store_created",
        store: format::json_path(store.root()),
        id: &store.format().id,
        encrypted: store.format().encrypted,
        keys: &keys,
    };
    let how = match &keys[..] {
        [] => String::new(),
        _ => format!(", encrypted; opens with its {}", keys.join(" or its ").replace('_', " ")),
    };
    context.printer.data(&created, &[format!("created a store in {}{how}", store.root().display())])?;
    Ok(())
}
