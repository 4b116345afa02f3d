//! `man`

use std::fs;
use std::path::Path;

use anyhow::Result;
use cas_core::StoreError;
use clap::Command;
use manifest::ByteText;
use serde::Serialize;

use crate::context::Context;
use crate::format;

#[derive(Serialize)]
struct Written {
    message_type: &'static str,
    directory: ByteText,
    pages: Vec<String>,
}

pub(crate) fn run(context: &Context, out: &Path) -> Result<()> {
    fs::create_dir_all(out).map_err(StoreError::io("create directory", out))?;
    let mut command = crate::args::command();
    command.build();
    let mut pages = Vec::new();
    write(&command, "", out, &mut pages)?;
    let count = format::plural(pages.len() as u64, "page");
    let written = Written { message_type: "man_pages", directory: format::json_path(out), pages };
    context.printer.data(&written, &[format!("wrote {count} to {}", out.display())])?;
    Ok(())
}

/// A page for the command and one for each of its subcommands: `infinijup-store-gc.1`.
fn write(command: &Command, parent: &str, out: &Path, pages: &mut Vec<String>) -> Result<()> {
    if command.is_hide_set() {
        return Ok(());
    }
    let name = if parent.is_empty() {
        command.get_name().to_owned()
    } else {
        format!("{parent}-{}", command.get_name())
    };
    let mut content = Vec::new();
    let path = out.join(format!("{name}.1"));
    // The manual's name is a plain string to clap, and must live as long as the program.
    let titled = command.clone().display_name(name.clone());
    clap_mangen::Man::new(titled).render(&mut content).map_err(StoreError::io("write", &path))?;
    fs::write(&path, content).map_err(StoreError::io("write", &path))?;
    pages.push(format!("{name}.1"));
    command.get_subcommands().try_for_each(|below| write(below, &name, out, pages))
}
