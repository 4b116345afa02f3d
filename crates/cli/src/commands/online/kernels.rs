//! `kernel list`: the user's own files, without the daemon.

use anyhow::{Context as _, Result};
use api::Text;
use jupyter_bridge::{Kernelspec, Search};
use serde::Serialize;

use crate::context::Context;
use crate::format;

#[derive(Serialize)]
struct Listed {
    message_type: &'static str,
    kernelspecs: Vec<Spec>,
}

#[derive(Serialize)]
struct Spec {
    name: String,
    display_name: String,
    language: String,
    directory: Text,
}

pub(super) fn list(context: &Context) -> Result<()> {
    let home = std::env::home_dir().context("cannot tell which directory is your home")?;
    let env: Vec<_> = std::env::vars_os().collect();
    let listing = Search::of(&home, &env).list();
    for error in &listing.broken {
        context.printer.warning(&format::safe(&error.to_string()));
    }
    if listing.specs.is_empty() {
        context.printer.note("there are no kernelspecs; `python3 -m ipykernel install --user` installs one");
    }
    let kernelspecs: Vec<Spec> = listing.specs.into_iter().map(spec).collect();
    let row = |spec: &Spec| {
        let directory = format::safe_bytes(spec.directory.as_bytes());
        vec![format::safe(&spec.name), format::safe(&spec.display_name), directory]
    };
    let lines = format::table(&kernelspecs.iter().map(row).collect::<Vec<_>>(), &[]);
    Ok(context.printer.data(&Listed { message_type: "kernelspecs", kernelspecs }, &lines)?)
}

fn spec(spec: Kernelspec) -> Spec {
    let Kernelspec { name, display_name, language, resource_dir, .. } = spec;
    Spec { name, display_name, language, directory: resource_dir.into() }
}
