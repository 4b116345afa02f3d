//! `store stat`

use std::path::Path;

use anyhow::Result;
use cas_core::crypto;
use cas_core::fsio::{self, LocalDisk};
use cas_core::layout::Layout;
use manifest::{ByteText, Tag, Thread};
use serde::Serialize;

use super::target;
use crate::context::Context;
use crate::format;
use crate::secret;

/// A keyring that is larger has more epochs than a store has ever had sessions.
const KEYRING_LIMIT: u64 = 1 << 30;

#[derive(Serialize)]
struct Stat<'a> {
    message_type: &'static str,
    store: ByteText,
    id: &'a str,
    format_version: u32,
    encryption: Option<EncryptionStat>,
    threads: u64,
    tags: u64,
    packs: u64,
    pack_file_bytes: u64,
    objects: u64,
    stored_bytes: u64,
    content_bytes: u64,
    write_sessions: u64,
}

#[derive(Serialize)]
struct EncryptionStat {
    keys: Vec<&'static str>,
    key_generation: u64,
}

pub(crate) fn run(context: &Context) -> Result<()> {
    let store = target::open(context)?;
    let totals = store.catalogue().totals()?;
    let pack_file_bytes = store.catalogue().packs()?.iter().map(|pack| pack.file_len).sum();
    let refs = |prefix| store.refs().list(prefix).map(|list| list.len() as u64);
    let stat = Stat {
        message_type: "store_stat",
        store: format::json_path(store.root()),
        id: &store.format().id,
        format_version: store.format().version,
        encryption: if store.format().encrypted { encryption(store.root())? } else { None },
        threads: refs(Thread::PREFIX)?,
        tags: refs(Tag::PREFIX)?,
        packs: totals.packs,
        pack_file_bytes,
        objects: totals.objects,
        stored_bytes: totals.stored,
        content_bytes: totals.plain,
        write_sessions: store.catalogue().open_writes()?.len() as u64,
    };
    context.printer.data(&stat, &lines(&stat))?;
    Ok(())
}

fn lines(stat: &Stat<'_>) -> Vec<String> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let encryption = stat.encryption.as_ref().map_or_else(
        || "none".to_owned(),
        |encryption| {
            let keys = encryption.keys.join(", ").replace('_', " ");
            format!("on; opens with: {keys}; keys of generation {}", encryption.key_generation)
        },
    );
    let part = match stat.content_bytes {
        0 => String::new(),
        content => format!(" ({} %)", u128::from(stat.stored_bytes) * 100 / u128::from(content)),
    };
    let mut rows = vec![
        row("store", format::safe_bytes(stat.store.as_bytes())),
        row("id", stat.id.to_owned()),
        row("format", stat.format_version.to_string()),
        row("encryption", encryption),
        row("threads", format::count(stat.threads)),
        row("tags", format::count(stat.tags)),
        row("objects", format::count(stat.objects)),
        row("content", format::size(stat.content_bytes)),
        row("stored", format!("{}{part}", format::size(stat.stored_bytes))),
        row(
            "on disk",
            format!("{} in {}", format::size(stat.pack_file_bytes), format::plural(stat.packs, "pack")),
        ),
    ];
    if stat.write_sessions > 0 {
        rows.push(row("writing now", format::plural(stat.write_sessions, "session")));
    }
    format::table(&rows, &[])
}

/// What the first copy of the keyring that can be read says about itself.
fn encryption(root: &Path) -> Result<Option<EncryptionStat>> {
    for path in Layout::new(root).keyrings() {
        let Some(bytes) = fsio::read_small(&LocalDisk, &path, KEYRING_LIMIT)? else { continue };
        if let Ok(info) = crypto::inspect(&path, &bytes) {
            let keys = info.slots.iter().map(secret::sort_of_slot).collect();
            return Ok(Some(EncryptionStat { keys, key_generation: info.generation }));
        }
    }
    Ok(None)
}
