//! `store rebuild`

use anyhow::Result;
use serde::Serialize;

use super::target::Target;
use crate::context::Context;
use crate::error::CliError;
use crate::format;

#[derive(Serialize)]
struct Rebuilt {
    message_type: &'static str,
    packs: u64,
    objects: u64,
    salvaged: Vec<Salvaged>,
    unusable: Vec<Unusable>,
}

#[derive(Serialize)]
struct Salvaged {
    pack: String,
    problem: String,
    objects_saved: u64,
    bytes_lost: u64,
}

#[derive(Serialize)]
struct Unusable {
    pack: String,
    problem: String,
}

pub(crate) fn run(context: &Context) -> Result<()> {
    let report = cas_core::rebuild(Target::of(context)?.alone(context)?, &context.meter)?;
    let rebuilt = Rebuilt {
        message_type: "store_rebuilt",
        packs: report.packs,
        objects: report.objects,
        salvaged: report
            .salvaged
            .iter()
            .map(|(pack, error, objects_saved, bytes_lost)| Salvaged {
                pack: pack.to_string(),
                problem: error.to_string(),
                objects_saved: *objects_saved,
                bytes_lost: *bytes_lost,
            })
            .collect(),
        unusable: report
            .unusable
            .iter()
            .map(|(pack, error)| Unusable { pack: pack.to_string(), problem: error.to_string() })
            .collect(),
    };
    let mut lines = Vec::new();
    for one in &rebuilt.salvaged {
        lines.push(format!(
            "damaged pack {}: saved {}, lost {}",
            one.pack,
            format::plural(one.objects_saved, "object"),
            format::size(one.bytes_lost)
        ));
        lines.push(format!("  {}", format::safe(&one.problem)));
    }
    for one in &rebuilt.unusable {
        lines.push(format!("damaged pack {}: nothing could be saved", one.pack));
        lines.push(format!("  {}", format::safe(&one.problem)));
    }
    lines.push(format!(
        "the catalogue now has {} in {}",
        format::plural(rebuilt.objects, "object"),
        format::plural(rebuilt.packs, "pack")
    ));
    context.printer.data(&rebuilt, &lines)?;
    match rebuilt.salvaged.len() + rebuilt.unusable.len() {
        0 => Ok(()),
        count => Err(CliError::RebuildIncomplete { count }.into()),
    }
}
