//! What is looked at in a request before anything is done for it: what can be no name, no path and no command is refused here, with the
//! field that it stands in. What it means is up to the engine.

use api::{EnvVar, SessionPatch, Start, TagRequest, Text};

use crate::error::DaemonError;

/// The result of a look.
pub(crate) type Checked = Result<(), DaemonError>;

/// The longest expression that names a snapshot.
const EXPRESSION_LIMIT: usize = 512;

/// Says what is wrong with a request.
pub(crate) fn bad(what: impl Into<String>) -> DaemonError {
    DaemonError::BadRequest { what: what.into(), field: None }
}

/// Says that a field of the body cannot be so.
pub(crate) fn bad_field(field: &'static str, why: impl std::fmt::Display) -> DaemonError {
    DaemonError::BadRequest { what: format!("`{field}` {why}"), field: Some(field) }
}

/// Refuses what cannot name a new session.
pub(crate) fn new_name(wanted: Option<&str>) -> Checked {
    wanted.map_or(Ok(()), |wanted| {
        base::names::check_session(wanted)
            .map_err(|broken| bad_field("name", format_args!("can be no name: {broken}")))
    })
}

/// Refuses what cannot be a tag.
pub(crate) fn tag_name(field: &'static str, name: &str) -> Checked {
    base::names::check_ref(name).map_err(|broken| bad_field(field, format_args!("can be no tag: {broken}")))
}

/// Refuses what cannot name a snapshot.
pub(crate) fn expression(field: &'static str, text: &str) -> Checked {
    if is_expression(text) { Ok(()) } else { Err(bad_field(field, "cannot name a snapshot")) }
}

/// Whether a text could name a snapshot.
pub(crate) fn is_expression(text: &str) -> bool {
    !text.is_empty() && text.len() <= EXPRESSION_LIMIT && !text.chars().any(char::is_control)
}

/// Refuses what cannot be run.
pub(crate) fn what_to_run(start: &Start) -> Checked {
    match start {
        Start::Command { argv } => command("argv", argv),
        Start::Kernel { spec, argv, .. } => {
            spec.as_deref().map_or(Ok(()), |spec| {
                base::names::check_kernelspec(spec).map_err(|broken| {
                    bad_field("spec", format_args!("can be no kernelspec's name: {broken}"))
                })
            })?;
            argv.as_ref().map_or(Ok(()), |argv| command("argv", argv))
        }
    }
}

/// Refuses what is no absolute path.
pub(crate) fn absolute(field: &'static str, path: &Text) -> Checked {
    no_nul(field, path)?;
    // PATH_MAX counts the NUL at the end.
    if !path.as_path().is_absolute() || path.as_bytes().len() >= 4096 {
        return Err(bad_field(field, "must be an absolute path of less than 4096 bytes"));
    }
    Ok(())
}

/// Refuses what is no command.
pub(crate) fn command(field: &'static str, argv: &[Text]) -> Checked {
    if argv.first().is_none_or(Text::is_empty) {
        return Err(bad_field(field, "names no program"));
    }
    argv.iter().try_for_each(|word| no_nul(field, word))
}

/// Refuses what is no environment.
pub(crate) fn environment(variables: &[EnvVar]) -> Checked {
    for variable in variables {
        no_nul("env", &variable.value)?;
        no_nul("env", &variable.name)?;
        if variable.name.is_empty() || variable.name.as_bytes().contains(&b'=') {
            return Err(bad_field("env", "has a variable whose name is empty or has a `=` in it"));
        }
    }
    Ok(())
}

/// Refuses the number of what is no process that could be taken.
pub(crate) fn process(pid: i32) -> Checked {
    // 1 is the machine's own init, below it are groups of processes.
    if pid > 1 { Ok(()) } else { Err(bad_field("pid", "is not the number of a process that can be taken")) }
}

/// Refuses what is the name of no container.
pub(crate) fn container(which: &str) -> Checked {
    let is_name = (1..=512).contains(&which.len()) && !which.chars().any(char::is_control);
    if is_name { Ok(()) } else { Err(bad_field("container", "names no container")) }
}

/// Refuses what cannot be noted about a session.
pub(crate) fn patch(patch: &SessionPatch) -> Checked {
    new_name(patch.name.as_deref())?;
    for (field, path) in [("notebook", &patch.notebook), ("shown", &patch.shown)] {
        if let Some(Some(path)) = path {
            absolute(field, path)?;
        }
    }
    Ok(())
}

/// Refuses a tag that could not be set.
pub(crate) fn tag(request: &TagRequest) -> Checked {
    expression("commit", &request.commit)?;
    tag_name("name", &request.name)
}

fn no_nul(field: &'static str, text: &Text) -> Checked {
    if text.as_bytes().contains(&0) { Err(bad_field(field, "has a NUL in it")) } else { Ok(()) }
}
