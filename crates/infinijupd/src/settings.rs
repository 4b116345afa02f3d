//! What can be set: by a flag, by a variable of the environment, in the settings file; the first of them that says something counts.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use api::Places;
use machine::CopyAhead;
use policy::pushing::PushWhen;

use crate::abroad::RemotePolicy;
use crate::arguments::{Arguments, Said};
use crate::error::DaemonError;
use crate::redis::Address;
use crate::settings_file;

/// How long it stays when nobody needs it.
const IDLE_END: Duration = Duration::from_secs(30 * 60);
/// What is kept back of the disk.
const RESERVE: u64 = 64 << 20;
/// What is kept of data that is read from remotes.
const REMOTE_CACHE: u64 = 2 << 30;
/// Where what is pushed by itself goes.
const PUSH_TO: &str = "origin";

/// What says where things are. Whoever looks for the daemon must know it too, so it is not in the settings file.
const PLACES: [&str; 4] = ["state", "run", "socket", "settings"];
/// What else can be set. The flag has dashes, the variable is in capitals with `INFINIJUP_` before it.
const NAMES: [&str; 19] = [
    "idle_end",
    "key_file",
    "store_budget",
    "reserve",
    "remote_cache",
    "push",
    "push_to",
    "keep_local",
    "memory_limit",
    "pids_limit",
    "criu",
    "box",
    "copy_ahead",
    "standby",
    "redis",
    "gpu_program",
    "cuda_checkpoint",
    "gpu_lock_limit",
    "gpu_step_limit",
];

/// How the daemon is to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Where things are, and where to listen.
    pub places: Places,
    /// Leave the session of the terminal.
    pub detach: bool,
    /// How long to stay when nobody needs it; for ever if `None`.
    pub idle_end: Option<Duration>,
    /// The key of the store, if it is encrypted.
    pub key_file: Option<PathBuf>,
    /// What the store may take, if set.
    pub store_budget: Option<u64>,
    /// What is kept back on the disk.
    pub reserve: u64,
    /// What is kept of data that is read from remotes.
    pub remote_cache: u64,
    /// What is pushed by itself, and how much of it stays here.
    pub remote: RemotePolicy,
    /// What a session may use whose start does not say so.
    pub memory_limit: Option<u64>,
    /// The same for its processes and threads.
    pub pids_limit: Option<u64>,
    /// The CRIU to use, if named.
    pub criu: Option<PathBuf>,
    /// The helper program, if named.
    pub box_program: Option<PathBuf>,
    /// Whether memory is copied while sessions run.
    pub copy_ahead: CopyAhead,
    /// Whether the newest snapshot of a kernel stands by.
    pub standby: bool,
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
    /// Encrypt the store.
    Encrypt(Box<Settings>),
    /// Print this: the help, or the version.
    Print(String),
}

fn refused(what: String) -> DaemonError {
    DaemonError::Settings { what }
}

fn variable_of(name: &str) -> String {
    format!("INFINIJUP_{}", name.to_ascii_uppercase())
}

impl Request {
    /// Reads arguments (without the program's name) over an environment and the settings file.
    pub fn read(
        arguments: impl IntoIterator<Item = OsString>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, DaemonError> {
        let arguments = match Arguments::read(arguments)? {
            Said::Run(arguments) => arguments,
            Said::Print(text) => return Ok(Self::Print(text)),
        };
        let (detach, encrypt) = (arguments.detach, arguments.encrypt_store);
        let flags = arguments.values();
        let lookup = |name: &str| match name.strip_prefix("INFINIJUP_").map(str::to_ascii_lowercase) {
            Some(name) if flags.contains_key(&*name) => flags.get(&*name).cloned(),
            _ => environment(name),
        };
        for name in PLACES {
            if let Some(value) = flags.get(name) {
                path(&format!("--{name}"), value)?;
            }
        }
        let places = Places::own_with(lookup)?;
        let file = settings_file::read(&places.settings, &NAMES.map(str::to_owned))?;
        let given = Given { flags: &flags, environment: &environment, file: &file, places: &places };
        let idle_end = match given.text("idle_end") {
            Some((_, value)) if value == "0" => None,
            _ => Some(given.get("idle_end", seconds)?.unwrap_or(IDLE_END)),
        };
        let settings = Box::new(Settings {
            idle_end,
            detach,
            key_file: given.get("key_file", path)?,
            store_budget: given.get("store_budget", size)?,
            reserve: given.get("reserve", size)?.unwrap_or(RESERVE),
            remote_cache: given.get("remote_cache", size)?.unwrap_or(REMOTE_CACHE),
            remote: RemotePolicy {
                name: given.get("push_to", remote)?.unwrap_or_else(|| PUSH_TO.to_owned()),
                when: given.get("push", push)?.unwrap_or_default(),
                keep_local: given.get("keep_local", size)?,
            },
            memory_limit: given.get("memory_limit", size)?,
            pids_limit: given.get("pids_limit", number)?,
            criu: given.get("criu", path)?,
            box_program: given.get("box", path)?,
            copy_ahead: given.get("copy_ahead", copy_ahead)?.unwrap_or_default(),
            standby: given.get("standby", on_or_off)?.unwrap_or(true),
            gpu_program: given.get("gpu_program", path)?,
            cuda_checkpoint: given.get("cuda_checkpoint", path)?,
            gpu_lock_limit: given.get("gpu_lock_limit", seconds)?,
            gpu_step_limit: given.get("gpu_step_limit", seconds)?,
            redis: given.get("redis", address)?,
            places: places.clone(),
        });
        Ok(if encrypt { Self::Encrypt(settings) } else { Self::Serve(settings) })
    }
}

/// All that says something.
struct Given<'a> {
    flags: &'a BTreeMap<&'static str, OsString>,
    environment: &'a dyn Fn(&str) -> Option<OsString>,
    file: &'a BTreeMap<String, OsString>,
    places: &'a Places,
}

impl Given<'_> {
    /// What is set under a name, and who says so.
    fn text(&self, name: &str) -> Option<(String, OsString)> {
        if let Some(value) = self.flags.get(name) {
            return Some((format!("--{}", name.replace('_', "-")), value.clone()));
        }
        let variable = variable_of(name);
        if let Some(value) = (self.environment)(&variable).filter(|value| !value.is_empty()) {
            return Some((variable, value));
        }
        let value = self.file.get(name)?;
        Some((format!("`{name}` in `{}`", self.places.settings.display()), value.clone()))
    }

    fn get<T>(
        &self,
        name: &str,
        read: impl FnOnce(&str, &OsStr) -> Result<T, DaemonError>,
    ) -> Result<Option<T>, DaemonError> {
        self.text(name).map(|(who, value)| read(&who, &value)).transpose()
    }
}

/// The daemon's working directory is nobody's business, so paths are absolute.
fn path(what: &str, value: &OsStr) -> Result<PathBuf, DaemonError> {
    let path = PathBuf::from(value);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(refused(format!("{what} needs an absolute path, not `{}`", path.display())))
}

/// Where a Redis is. What is wrong with it is said without repeating it: there may be a password in it.
fn address(what: &str, value: &OsStr) -> Result<Address, DaemonError> {
    let parsed = value.to_str().ok_or("it is not UTF-8").and_then(Address::parse);
    parsed.map_err(|wrong| refused(format!("{what} makes no sense: {wrong}")))
}

/// A time in seconds, fractions allowed; more than a year is a mistake.
fn seconds(what: &str, value: &OsStr) -> Result<Duration, DaemonError> {
    let number = value.to_str().and_then(|text| text.trim().parse::<f64>().ok());
    number
        .filter(|seconds| *seconds > 0.0 && *seconds <= 366.0 * 86_400.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            refused(format!(
                "{what} needs a number of seconds above 0 and up to a year, not `{}`",
                value.display()
            ))
        })
}

/// A number of bytes.
fn size(what: &str, value: &OsStr) -> Result<u64, DaemonError> {
    let parsed = value.to_str().ok_or_else(|| "it is not UTF-8".to_owned()).and_then(api::parse_size);
    parsed.map_err(|wrong| {
        let value = value.display();
        refused(format!("{what} needs a size such as `512 MiB` or `20G`, not `{value}`: {wrong}"))
    })
}

/// Whether memory is copied ahead.
fn copy_ahead(what: &str, value: &OsStr) -> Result<CopyAhead, DaemonError> {
    match value.to_str() {
        Some("on") => Ok(CopyAhead::On),
        Some("off") => Ok(CopyAhead::Off),
        Some("checked") => Ok(CopyAhead::Checked),
        _ => Err(refused(format!("{what} is `on`, `off` or `checked`, not `{}`", value.display()))),
    }
}

/// When something is pushed by itself.
fn push(what: &str, value: &OsStr) -> Result<PushWhen, DaemonError> {
    PushWhen::parse(&value.to_string_lossy()).map_err(|word| {
        refused(format!(
            "{what} is `never`, or some of `after-suspend`, `hourly` and `tagged` with commas between, not `{word}`"
        ))
    })
}

/// The name of a remote.
fn remote(what: &str, value: &OsStr) -> Result<String, DaemonError> {
    let name = value.to_str().unwrap_or_default();
    base::names::check_session(name).map_err(|broken| {
        refused(format!("{what}: `{}` can be no remote's name: {broken}", value.display()))
    })?;
    Ok(name.to_owned())
}

/// Whether something is done at all.
fn on_or_off(what: &str, value: &OsStr) -> Result<bool, DaemonError> {
    match value.to_str() {
        Some("on") => Ok(true),
        Some("off") => Ok(false),
        _ => Err(refused(format!("{what} is `on` or `off`, not `{}`", value.display()))),
    }
}

/// A number of things, at least one.
fn number(what: &str, value: &OsStr) -> Result<u64, DaemonError> {
    let number = value.to_str().and_then(|text| text.trim().parse().ok()).filter(|number| *number > 0);
    number.ok_or_else(|| refused(format!("{what} needs a number above 0, not `{}`", value.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Request, DaemonError> {
        let lookup = |name: &str| {
            let environment = [&[("HOME", "/home/ada")], environment].concat();
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
        let home = |name: &str| (name == "HOME").then(|| "/home/ada".into());
        assert_eq!(settings(&[], &[]).places, Places::own_with(home).unwrap());

        let set =
            settings(&["--run", "/a", "--criu=/b"], &[("INFINIJUP_RUN", "/c"), ("INFINIJUP_STATE", "/d")]);
        let places = set.places;
        assert_eq!((places.run, places.socket), (PathBuf::from("/a"), PathBuf::from("/a/infinijupd.sock")));
        assert_eq!((places.state, set.criu), (PathBuf::from("/d"), Some(PathBuf::from("/b"))));
        assert!(!set.detach && settings(&["--detach", "--run", "/a"], &[]).detach);
    }

    #[test]
    fn the_store_is_encrypted_instead_of_served_if_that_is_asked_for() {
        let Request::Encrypt(set) = read(&["--encrypt-store", "--key-file", "/k"], &[]).unwrap() else {
            panic!()
        };
        assert_eq!(set.key_file, Some(PathBuf::from("/k")));
        assert_eq!(settings(&[], &[("INFINIJUP_KEY_FILE", "/e")]).key_file, Some(PathBuf::from("/e")));
        read(&["--key-file", "relative"], &[]).unwrap_err();
    }

    #[test]
    fn it_stays_for_half_an_hour_or_as_long_as_is_set() {
        assert_eq!(settings(&[], &[]).idle_end, Some(Duration::from_secs(1800)));
        assert_eq!(settings(&["--idle-end", "0"], &[("INFINIJUP_IDLE_END", "5")]).idle_end, None);
        assert_eq!(
            settings(&[], &[("INFINIJUP_IDLE_END", "0.5")]).idle_end,
            Some(Duration::from_millis(500))
        );
        read(&["--idle-end", "soon"], &[]).unwrap_err();
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
    fn memory_is_copied_ahead_unless_that_is_switched_off() {
        assert_eq!(settings(&[], &[]).copy_ahead, CopyAhead::On);
        assert_eq!(settings(&["--copy-ahead", "off"], &[]).copy_ahead, CopyAhead::Off);
        assert_eq!(settings(&[], &[("INFINIJUP_COPY_AHEAD", "checked")]).copy_ahead, CopyAhead::Checked);
        let refused = read(&["--copy-ahead", "maybe"], &[]).unwrap_err().to_string();
        assert!(refused.contains("--copy-ahead") && refused.contains("`maybe`"), "{refused}");
    }

    #[test]
    fn a_standby_is_kept_unless_that_is_switched_off() {
        assert!(settings(&[], &[]).standby);
        assert!(!settings(&["--standby", "off"], &[]).standby);
        assert!(!settings(&[], &[("INFINIJUP_STANDBY", "off")]).standby);
        let refused = read(&["--standby", "maybe"], &[]).unwrap_err().to_string();
        assert!(refused.contains("--standby") && refused.contains("`maybe`"), "{refused}");
    }

    #[test]
    fn nothing_is_pushed_by_itself_unless_that_is_set() {
        let remote = settings(&[], &[]).remote;
        assert!(remote.is_idle() && remote.name == "origin");
        let set = settings(
            &["--push", "hourly, tagged", "--keep-local=20 GiB"],
            &[("INFINIJUP_PUSH", "never"), ("INFINIJUP_PUSH_TO", "backup")],
        );
        assert!(set.remote.when.hourly && set.remote.when.tagged && !set.remote.when.after_suspend);
        assert_eq!((set.remote.name.as_str(), set.remote.keep_local), ("backup", Some(20 << 30)));
        let refused = read(&["--push", "daily"], &[]).unwrap_err().to_string();
        assert!(refused.contains("--push") && refused.contains("`daily`"), "{refused}");
        read(&["--push-to", "../x"], &[]).unwrap_err();
    }

    #[test]
    fn an_address_of_redis_is_checked_and_not_repeated() {
        let set = settings(&[], &[("INFINIJUP_REDIS", "redis://localhost:7000")]);
        assert!(set.redis.is_some() && settings(&[], &[]).redis.is_none());
        let refused = read(&[], &[("INFINIJUP_REDIS", "rediss://:secret@h")]).unwrap_err().to_string();
        assert!(refused.contains("INFINIJUP_REDIS") && !refused.contains("secret"), "{refused}");
    }

    #[test]
    fn the_file_counts_where_nothing_else_says_something() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("settings.toml");
        std::fs::write(
            &file,
            "idle_end = 60\nreserve = '1 MiB'\nmemory_limit = '2 GiB'\npids_limit = 100\ncriu = '/f'\n",
        )
        .unwrap();
        let file = file.to_str().unwrap();
        let set = settings(&["--idle-end", "5"], &[("INFINIJUP_SETTINGS", file), ("INFINIJUP_RESERVE", "0")]);
        assert_eq!((set.idle_end, set.reserve), (Some(Duration::from_secs(5)), 0));
        assert_eq!((set.memory_limit, set.pids_limit), (Some(2 << 30), Some(100)));
        assert_eq!((set.criu, set.store_budget), (Some(PathBuf::from("/f")), None));
        let defaults = settings(&[], &[]);
        assert_eq!((defaults.reserve, defaults.memory_limit, defaults.store_budget), (64 << 20, None, None));

        std::fs::write(file, "store_budget = 'much'\n").unwrap();
        let refused = read(&["--settings", file], &[]).unwrap_err().to_string();
        assert!(
            refused.contains("store_budget") && refused.contains(file) && refused.contains("much"),
            "{refused}"
        );
    }

    #[test]
    fn everything_that_can_be_set_is_in_the_help() {
        let Ok(Request::Print(help)) = read(&["--help"], &[]) else { panic!() };
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in PLACES.iter().chain(&NAMES) {
            assert!(help.contains(&format!("--{} <", name.replace('_', "-"))), "{name}: {help}");
            assert!(help.contains(&format!("[env: {}", variable_of(name))), "{name}: {help}");
        }
        assert!(help.contains("Example") && help.contains("INFINIJUP_LOG"), "{help}");
    }

    #[test]
    fn the_last_of_several_counts() {
        assert_eq!(settings(&["--criu=/a", "--criu", "/b"], &[]).criu, Some(PathBuf::from("/b")));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in [
            &["--stat", "/x"][..],
            &["--state"],
            &["--state", "relative"],
            &["serve"],
            &["--run="],
            &["--idle_end", "1"],
        ] {
            assert_eq!(read(arguments, &[]).unwrap_err().code(), "IJ-D003", "{arguments:?}");
        }
        let unknown = read(&["--verbose"], &[]).unwrap_err().to_string();
        assert!(unknown.contains("--verbose") && !unknown.contains('\n'), "{unknown}");
        for asked in [&["--state", "/x", "--help"][..], &["-h"], &["-V"]] {
            assert!(matches!(read(asked, &[]), Ok(Request::Print(_))), "{asked:?}");
        }
    }
}
