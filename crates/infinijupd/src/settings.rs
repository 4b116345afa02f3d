//! What can be set: a few flags, and the environment for each.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use crate::error::DaemonError;

/// What `--help` prints.
pub const HELP: &str = "\
infinijupd: the daemon of infinijup. It supervises sessions and answers on a Unix socket.

Usage: infinijupd [OPTIONS]

Options:
      --state DIR    where sessions and stores are kept   [env: INFINIJUP_STATE]  [default: /var/lib/infinijup]
      --run DIR      what lives until the next boot       [env: INFINIJUP_RUN]    [default: /run/infinijup]
      --socket PATH  where to listen                      [env: INFINIJUP_SOCKET] [default: RUN/infinijupd.sock]
      --criu PATH    the CRIU to use                      [env: INFINIJUP_CRIU]   [default: looked for]
      --box PATH     the helper program infinijup-box     [env: INFINIJUP_BOX]    [default: looked for]
  -h, --help         print this
  -V, --version      print the version

INFINIJUP_LOG=info|debug|... sets how much is logged, INFINIJUP_LOG_FORMAT=text|json how.
docs/daemon.md is the operator's page.
";

/// How the daemon is to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Sessions and stores.
    pub state: PathBuf,
    /// What lives until the next boot.
    pub run: PathBuf,
    /// Where to listen.
    pub socket: PathBuf,
    /// The CRIU to use, if named.
    pub criu: Option<PathBuf>,
    /// The helper program, if named.
    pub box_program: Option<PathBuf>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Be the daemon.
    Serve(Settings),
    /// Print [`HELP`].
    Help,
    /// Print the version.
    Version,
}

impl Request {
    /// Reads arguments (without the program's name) over an environment. A flag wins over a variable.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, DaemonError> {
        let refused = |what: String| DaemonError::Settings { what };
        let mut flags: [(&str, &str, Option<PathBuf>); 5] = [
            ("--state", "INFINIJUP_STATE", None),
            ("--run", "INFINIJUP_RUN", None),
            ("--socket", api::SOCKET_VARIABLE, None),
            ("--criu", "INFINIJUP_CRIU", None),
            ("--box", "INFINIJUP_BOX", None),
        ];
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy();
            match &*text {
                "-h" | "--help" => return Ok(Self::Help),
                "-V" | "--version" => return Ok(Self::Version),
                _ => (),
            }
            // `--flag=value` only where it is text; `--flag value` takes any path.
            let (flag, inline) = match text.split_once('=') {
                Some((flag, value)) if argument.to_str().is_some() => (flag, Some(OsString::from(value))),
                _ => (&*text, None),
            };
            let Some((name, _, value)) = flags.iter_mut().find(|(name, ..)| *name == flag) else {
                return Err(refused(format!("`{text}` is not known")));
            };
            let given = inline.or_else(|| arguments.next());
            *value = Some(path(name, given.as_deref().unwrap_or_default())?);
        }
        for (_, variable, value) in &mut flags {
            if let Some(set) = environment(variable).filter(|set| value.is_none() && !set.is_empty()) {
                *value = Some(path(variable, &set)?);
            }
        }
        let [state, run, socket, criu, box_program] = flags.map(|(_, _, value)| value);
        let run = run.unwrap_or_else(|| "/run/infinijup".into());
        Ok(Self::Serve(Settings {
            state: state.unwrap_or_else(|| "/var/lib/infinijup".into()),
            socket: socket.unwrap_or_else(|| run.join("infinijupd.sock")),
            run,
            criu,
            box_program,
        }))
    }
}

/// The daemon's working directory is nobody's business, so paths are absolute.
fn path(what: &str, value: &OsStr) -> Result<PathBuf, DaemonError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(DaemonError::Settings { what: format!("{what} needs an absolute path, not `{}`", path.display()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Request, DaemonError> {
        let lookup = |name: &str| {
            environment.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        };
        Request::read(arguments.iter().map(OsString::from), lookup)
    }

    fn settings(arguments: &[&str], environment: &[(&str, &str)]) -> Settings {
        match read(arguments, environment).unwrap() {
            Request::Serve(settings) => settings,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_defaults() {
        let defaults = settings(&[], &[]);
        assert_eq!(defaults.state, PathBuf::from("/var/lib/infinijup"));
        assert_eq!(defaults.socket, PathBuf::from(api::DEFAULT_SOCKET));

        let set =
            settings(&["--run", "/a", "--criu=/b"], &[("INFINIJUP_RUN", "/c"), ("INFINIJUP_STATE", "/d")]);
        assert_eq!((set.run, set.socket), (PathBuf::from("/a"), PathBuf::from("/a/infinijupd.sock")));
        assert_eq!((set.state, set.criu), (PathBuf::from("/d"), Some(PathBuf::from("/b"))));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in
            [&["--stat", "/x"][..], &["--state"], &["--state", "relative"], &["serve"], &["--run="]]
        {
            assert_eq!(read(arguments, &[]).unwrap_err().code(), "IJ-D003", "{arguments:?}");
        }
        assert_eq!(read(&["--state", "/x", "--help"], &[]).unwrap(), Request::Help);
        assert_eq!(read(&["-V"], &[]).unwrap(), Request::Version);
    }
}
