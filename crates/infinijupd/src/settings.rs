//! What can be set: a few flags, and the environment for each.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use crate::error::DaemonError;
use crate::redis::Address;

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

Events for others to read:
      --redis URL    publish them in Redis Streams: redis://HOST:PORT or unix:///PATH
                     [env: INFINIJUP_REDIS; there a password in it is not seen by everyone]

For NVIDIA GPUs:
      --gpu-program PATH       the helper program infinijup-gpu
                               [env: INFINIJUP_GPU_PROGRAM]     [default: looked for]
      --cuda-checkpoint PATH   NVIDIA's cuda-checkpoint, for a driver that has no checkpoint calls
                               [env: INFINIJUP_CUDA_CHECKPOINT] [default: looked for]
      --gpu-lock-limit SECS    how long a process may take to come to rest on the GPU
                               [env: INFINIJUP_GPU_LOCK_LIMIT]  [default: 10]
      --gpu-step-limit SECS    how long the driver may take to move a process off or onto a GPU,
                               and one second more for each 256 MiB
                               [env: INFINIJUP_GPU_STEP_LIMIT]  [default: 60]

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
    /// The helper program for GPUs, if named.
    pub gpu_program: Option<PathBuf>,
    /// NVIDIA's `cuda-checkpoint`, if named.
    pub cuda_checkpoint: Option<PathBuf>,
    /// How long a process may take to come to rest on the GPU.
    pub gpu_lock_limit: Option<Duration>,
    /// How long the driver may take to move a process off or onto a GPU.
    pub gpu_step_limit: Option<Duration>,
    /// Where events are published too.
    pub redis: Option<Address>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Be the daemon.
    Serve(Box<Settings>),
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
        let mut flags: [(&str, &str, Option<OsString>); 10] = [
            ("--state", "INFINIJUP_STATE", None),
            ("--run", "INFINIJUP_RUN", None),
            ("--socket", api::SOCKET_VARIABLE, None),
            ("--criu", "INFINIJUP_CRIU", None),
            ("--box", "INFINIJUP_BOX", None),
            ("--gpu-program", "INFINIJUP_GPU_PROGRAM", None),
            ("--cuda-checkpoint", "INFINIJUP_CUDA_CHECKPOINT", None),
            ("--gpu-lock-limit", "INFINIJUP_GPU_LOCK_LIMIT", None),
            ("--gpu-step-limit", "INFINIJUP_GPU_STEP_LIMIT", None),
            ("--redis", "INFINIJUP_REDIS", None),
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
            let Some((_, _, value)) = flags.iter_mut().find(|(name, ..)| *name == flag) else {
                return Err(refused(format!("`{text}` is not known")));
            };
            let given = inline.or_else(|| arguments.next());
            *value = Some(given.unwrap_or_default());
        }
        // each with the name under which it was given, for messages
        let [
            state,
            run,
            socket,
            criu,
            box_program,
            gpu_program,
            cuda_checkpoint,
            lock_limit,
            step_limit,
            redis,
        ] = flags.map(|(flag, variable, value)| match value {
            Some(value) => Some((flag, value)),
            None => Some((variable, environment(variable).filter(|set| !set.is_empty())?)),
        });
        let path =
            |given: Option<(&str, OsString)>| given.map(|(what, value)| path(what, &value)).transpose();
        let seconds =
            |given: Option<(&str, OsString)>| given.map(|(what, value)| seconds(what, &value)).transpose();
        let (state, run, socket) = (path(state)?, path(run)?, path(socket)?);
        let run = run.unwrap_or_else(|| "/run/infinijup".into());
        Ok(Self::Serve(Box::new(Settings {
            state: state.unwrap_or_else(|| "/var/lib/infinijup".into()),
            socket: socket.unwrap_or_else(|| run.join("infinijupd.sock")),
            run,
            criu: path(criu)?,
            box_program: path(box_program)?,
            gpu_program: path(gpu_program)?,
            cuda_checkpoint: path(cuda_checkpoint)?,
            gpu_lock_limit: seconds(lock_limit)?,
            gpu_step_limit: seconds(step_limit)?,
            redis: redis.map(|(what, value)| address(what, &value)).transpose()?,
        })))
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

/// Where a Redis is. What is wrong with it is said without repeating it: there may be a password in it.
fn address(what: &str, value: &OsStr) -> Result<Address, DaemonError> {
    let parsed = value.to_str().ok_or("it is not UTF-8").and_then(Address::parse);
    parsed.map_err(|wrong| DaemonError::Settings { what: format!("{what} makes no sense: {wrong}") })
}

/// A time in seconds, fractions allowed; more than a day is a mistake.
fn seconds(what: &str, value: &OsStr) -> Result<Duration, DaemonError> {
    let number = value.to_str().and_then(|text| text.parse::<f64>().ok());
    number
        .filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| DaemonError::Settings {
            what: format!(
                "{what} needs a number of seconds above 0 and up to a day, not `{}`",
                value.display()
            ),
        })
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
            Request::Serve(settings) => *settings,
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
    fn limits_of_the_gpu_are_seconds_and_may_be_fractions() {
        let set = settings(
            &["--gpu-lock-limit=0.5", "--gpu-program", "/g"],
            &[("INFINIJUP_GPU_STEP_LIMIT", "90"), ("INFINIJUP_GPU_LOCK_LIMIT", "7")],
        );
        assert_eq!(set.gpu_lock_limit, Some(Duration::from_millis(500)));
        assert_eq!(set.gpu_step_limit, Some(Duration::from_secs(90)));
        assert_eq!((set.gpu_program, set.cuda_checkpoint), (Some(PathBuf::from("/g")), None));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e9", "ten"] {
            let refused = read(&["--gpu-lock-limit", wrong], &[]).unwrap_err();
            assert!(refused.to_string().contains("--gpu-lock-limit"), "{refused}");
        }
        let refused = read(&[], &[("INFINIJUP_GPU_STEP_LIMIT", "soon")]).unwrap_err();
        assert!(refused.to_string().contains("INFINIJUP_GPU_STEP_LIMIT"), "{refused}");
    }

    #[test]
    fn an_address_of_redis_is_checked_and_not_repeated() {
        let set = settings(&[], &[("INFINIJUP_REDIS", "redis://localhost:7000")]);
        assert!(set.redis.is_some() && settings(&[], &[]).redis.is_none());
        let refused = read(&[], &[("INFINIJUP_REDIS", "rediss://:secret@h")]).unwrap_err().to_string();
        assert!(refused.contains("INFINIJUP_REDIS") && !refused.contains("secret"), "{refused}");
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
