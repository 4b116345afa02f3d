//! `kernelspec`: kernelspecs whose kernels Jupyter starts through our provisioner.
//!
//! One is made out of another: the same `kernel.json`, with a name and a provisioner of its own and a note of what it was made
//! from, by which it is recognised. Whatever else the old one says goes along, also what we do not know. Only what has
//! that note is ever replaced or removed.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use api::Text;
use jupyter_bridge::{Kernelspec, Search, data_directory, kernel_command};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::args::{KernelspecInstallArgs, KernelspecRemoveArgs};
use crate::context::Context;
use crate::error::CliError;
use crate::format;

/// The entry point of the Python package.
const PROVISIONER: &str = "infinijup";
/// Where Jupyter looks for the provisioner, in `metadata`.
const PROVISIONER_KEY: &str = "kernel_provisioner";
/// The note in `metadata`: the name of the kernelspec that it was made from.
const NOTE: &str = "infinijup";

/// One that we made.
#[derive(Serialize)]
struct Wrapped {
    name: String,
    display_name: String,
    language: String,
    directory: Text,
    wraps: String,
}

#[derive(Serialize)]
struct Listed<'a> {
    message_type: &'static str,
    kernelspecs: &'a [Wrapped],
}

/// Where the user's kernelspecs are, and those of the installations they use.
fn search() -> Result<(Search, PathBuf)> {
    let home = std::env::home_dir().context("cannot tell which directory is your home")?;
    let env: Vec<_> = std::env::vars_os().collect();
    Ok((Search::of(&home, &env), data_directory(&home, &env)))
}

pub(super) fn install(context: &Context, args: &KernelspecInstallArgs) -> Result<()> {
    let (search, own) = search()?;
    let specs = chosen(context, &search, args)?;
    if specs.len() > 1 && (args.name.is_some() || args.display_name.is_some()) {
        let what = "--name and --display-name are for one kernelspec at a time".to_owned();
        return Err(CliError::Usage { what }.into());
    }
    let root = args.prefix.as_ref().map_or(own, |prefix| prefix.join("share/jupyter"));
    let kernels = std::path::absolute(root.join("kernels")).context("cannot tell where that is")?;
    let mut made = Vec::new();
    for spec in &specs {
        let name = args.name.clone().unwrap_or_else(|| format!("{PROVISIONER}-{}", spec.name));
        let display_name =
            args.display_name.clone().unwrap_or_else(|| format!("{} ({PROVISIONER})", spec.display_name));
        made.push(wrap(spec, &kernels, &name, display_name, args.standalone)?);
    }
    let lines = lines(&made);
    context.printer.data(&Listed { message_type: "kernelspecs_installed", kernelspecs: &made }, &lines)?;
    Ok(())
}

/// The kernelspecs to begin with. Ours are not wrapped again.
fn chosen(context: &Context, search: &Search, args: &KernelspecInstallArgs) -> Result<Vec<Kernelspec>> {
    if !args.all {
        let named = match args.kernel.as_slice() {
            [] => vec![search.find_default()?],
            names => names.iter().map(|name| search.find(name)).collect::<Result<_, _>>()?,
        };
        for spec in &named {
            if let Some(why) = unfit(spec) {
                return Err(CliError::Usage { what: format!("`{}` {why}", spec.name) }.into());
            }
        }
        return Ok(named);
    }
    let listing = search.list();
    for error in &listing.broken {
        context.printer.warning(&format::safe(&error.to_string()));
    }
    let (fit, others): (Vec<_>, Vec<_>) = listing.specs.into_iter().partition(|spec| unfit(spec).is_none());
    for spec in others.iter().filter(|spec| wraps(&spec.metadata).is_none()) {
        let why = unfit(spec).unwrap_or_default();
        context.printer.warning(&format::safe(&format!("`{}` {why}; it is left out", spec.name)));
    }
    if fit.is_empty() {
        context.printer.note("there are no kernelspecs; `python3 -m ipykernel install --user` installs one");
    }
    Ok(fit)
}

/// Why no other can be made out of this one.
fn unfit(spec: &Kernelspec) -> Option<String> {
    if wraps(&spec.metadata).is_some() {
        return Some("was made by infinijup itself".to_owned());
    }
    let provisioner = spec.metadata.get(PROVISIONER_KEY)?.get("provisioner_name")?.as_str()?;
    match provisioner {
        "local-provisioner" => None,
        PROVISIONER => Some("is started by infinijup already".to_owned()),
        other => Some(format!("is not started on this machine, but by `{other}`")),
    }
}

/// What one of ours was made from.
fn wraps(metadata: &Map<String, Value>) -> Option<&str> {
    metadata.get(NOTE)?.get("wraps")?.as_str()
}

/// Makes one. It is there whole or not at all.
fn wrap(
    spec: &Kernelspec,
    kernels: &Path,
    name: &str,
    display_name: String,
    standalone: bool,
) -> Result<Wrapped> {
    let place = kernels.join(name);
    check_place(&place, name)?;
    let old = spec.resource_dir.join(Kernelspec::FILE);
    let read = || format!("cannot read `{}`", old.display());
    let text = fs::read(&old).with_context(read)?;
    let mut file: Map<String, Value> = serde_json::from_slice(&text).with_context(read)?;
    let mut metadata = spec.metadata.clone();
    let provisioner = if standalone { "local-provisioner" } else { PROVISIONER };
    metadata.insert(PROVISIONER_KEY.to_owned(), json!({ "provisioner_name": provisioner, "config": {} }));
    metadata.insert(NOTE.to_owned(), json!({ "wraps": spec.name }));
    file.insert("metadata".to_owned(), metadata.into());
    file.insert("display_name".to_owned(), display_name.clone().into());
    let argv = if standalone { stand_in(spec)? } else { arguments(spec) };
    file.insert("argv".to_owned(), argv.into());

    let new = kernels.join(format!(".{name}.new"));
    let failed = || format!("cannot write `{}`", place.display());
    clear(&new).with_context(failed)?;
    fs::create_dir_all(&new).with_context(failed)?;
    let text = serde_json::to_string_pretty(&Value::from(file)).with_context(failed)?;
    fs::write(new.join(Kernelspec::FILE), text + "\n").with_context(failed)?;
    for logo in logos(&spec.resource_dir) {
        // One that cannot be read is no reason to have no kernel.
        let _plain = fs::copy(spec.resource_dir.join(&logo), new.join(&logo));
    }
    clear(&place).with_context(failed)?;
    fs::rename(&new, &place).with_context(failed)?;
    Ok(Wrapped {
        name: name.to_owned(),
        display_name,
        language: spec.language.clone(),
        directory: place.into(),
        wraps: spec.name.clone(),
    })
}

/// The same command. What lies beside the old one stays there.
fn arguments(spec: &Kernelspec) -> Vec<String> {
    let directory = spec.resource_dir.to_string_lossy();
    spec.argv.iter().map(|word| word.replace("{resource_dir}", &directory)).collect()
}

/// Our own command, which has the session run the old one. Where that names the connection file, the client puts its own.
fn stand_in(spec: &Kernelspec) -> Result<Vec<String>> {
    let program = std::env::current_exe().context("cannot find our own program")?;
    let command = kernel_command(spec, Path::new("{connection_file}"), &[]);
    let mut words: Vec<OsString> = vec![program.into_os_string()];
    words.extend(["kernel", "run", "-f", "{connection_file}", "--spec"].map(OsString::from));
    words.push(spec.name.as_str().into());
    if !spec.language.is_empty() {
        words.extend(["--language".into(), spec.language.as_str().into()]);
    }
    words.push("--".into());
    words.extend(command.argv);
    let text = |word: OsString| word.into_string().map_err(|word| anyhow!("`{}` is no text", word.display()));
    words.into_iter().map(text).collect()
}

/// Refuses a name that is none, and a place that is somebody else's.
fn check_place(place: &Path, name: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !name.bytes().all(fits) || name.starts_with('.') || name.len() > 128 {
        let what =
            "a kernelspec's name has letters, digits, `.`, `_` and `-` only, and does not begin with a dot"
                .to_owned();
        return Err(CliError::Usage { what }.into());
    }
    let free = fs::symlink_metadata(place).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let ours = || Kernelspec::read(name, place).is_ok_and(|spec| wraps(&spec.metadata).is_some());
    if free || ours() { Ok(()) } else { Err(CliError::KernelspecTaken { path: place.to_owned() }.into()) }
}

/// Names of the pictures beside a kernelspec.
fn logos(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_logo = |name: &OsStr| name.to_str().is_some_and(|name| name.starts_with("logo-"));
    entries
        .filter(|entry| is_logo(&entry.file_name()) && entry.path().is_file())
        .map(|entry| entry.file_name().into())
        .collect()
}

/// Removes what we once wrote, and nothing else: a directory with more in it stays, and that is said.
fn clear(directory: &Path) -> io::Result<()> {
    for name in logos(directory).into_iter().chain([PathBuf::from(Kernelspec::FILE)]) {
        match fs::remove_file(directory.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// All that we made, where the user's Jupyter finds them.
fn ours() -> Result<Vec<Wrapped>> {
    let wrapped = |spec: Kernelspec| {
        let wraps = wraps(&spec.metadata)?.to_owned();
        let Kernelspec { name, display_name, language, resource_dir, .. } = spec;
        Some(Wrapped { name, display_name, language, directory: resource_dir.into(), wraps })
    };
    Ok(search()?.0.list().specs.into_iter().filter_map(wrapped).collect())
}

fn lines(specs: &[Wrapped]) -> Vec<String> {
    let row = |spec: &Wrapped| {
        let directory = format::safe_bytes(spec.directory.as_bytes());
        vec![format::safe(&spec.name), format::safe(&spec.display_name), directory]
    };
    format::table(&specs.iter().map(row).collect::<Vec<_>>(), &[])
}

pub(super) fn list(context: &Context) -> Result<()> {
    let specs = ours()?;
    if specs.is_empty() {
        context.printer.note("there are none; `infinijup kernelspec install` installs one");
    }
    let lines = lines(&specs);
    Ok(context.printer.data(&Listed { message_type: "wrapped_kernelspecs", kernelspecs: &specs }, &lines)?)
}

pub(super) fn remove(context: &Context, args: &KernelspecRemoveArgs) -> Result<()> {
    let mut specs = ours()?;
    for name in &args.names {
        if !specs.iter().any(|spec| spec.name.eq_ignore_ascii_case(name)) {
            let what = format!("`{name}` is not a kernelspec that infinijup installed");
            return Err(CliError::Usage { what }.into());
        }
    }
    specs.retain(|spec| args.all || args.names.iter().any(|name| spec.name.eq_ignore_ascii_case(name)));
    for spec in &specs {
        let path = spec.directory.as_path();
        clear(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    }
    let lines = lines(&specs);
    Ok(context.printer.data(&Listed { message_type: "kernelspecs_removed", kernelspecs: &specs }, &lines)?)
}
