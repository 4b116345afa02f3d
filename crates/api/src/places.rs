//! Where the daemon of a user keeps its things, and where it listens.
//!
//! The daemon and everybody who looks for it must come to the same answer, so it is computed here and nowhere else; Python's copy of
//! the rule for the socket is held to it by the same table of cases (`tests/places.json`).
//!
//! | | a user | root |
//! |---|---|---|
//! | state | `$XDG_DATA_HOME/infinijup`, else `~/.local/share/infinijup` | `/var/lib/infinijup` |
//! | run | `$XDG_RUNTIME_DIR/infinijup`, else `/run/user/UID/infinijup`, else `run` in state | `/run/infinijup` |
//! | settings | `$XDG_CONFIG_HOME/infinijup/settings.toml`, else `~/.config/infinijup/settings.toml` | `/etc/infinijup/settings.toml` |
//!
//! Nothing is in `/tmp`: whoever took the name there first could keep the daemon from starting.
//!
//! The socket is `infinijupd.sock` in `run`. `INFINIJUP_STATE`, `INFINIJUP_RUN`, `INFINIJUP_SETTINGS` and `INFINIJUP_SOCKET` say otherwise.
//!
//! A runtime directory counts only if it is the user's own: `su` keeps the variable of whoever called it. For the same reason root's
//! places follow from no variable of the desktop's: whether somebody became root by `su`, `sudo` or a login must not decide which
//! daemon they find, and a daemon of root's must not live where another user can write.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The environment variable that names another socket, for the daemon and its clients.
pub const SOCKET_VARIABLE: &str = "INFINIJUP_SOCKET";
/// The one that names another run directory.
pub const RUN_VARIABLE: &str = "INFINIJUP_RUN";
/// The one that names another state directory.
pub const STATE_VARIABLE: &str = "INFINIJUP_STATE";
/// The one that names another settings file.
pub const SETTINGS_VARIABLE: &str = "INFINIJUP_SETTINGS";

/// The socket's name in the run directory.
const SOCKET: &str = "infinijupd.sock";
/// The store's name in the state directory.
const STORE: &str = "store";

/// Why there is no such place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// Nothing says where the user's files are.
    #[error("neither HOME nor {variable} is set")]
    NoHome {
        /// What would say so.
        variable: &'static str,
    },
    /// A path that depends on where one stands.
    #[error("{variable} needs an absolute path, not `{}`", path.display())]
    Relative {
        /// Which variable.
        variable: &'static str,
        /// What it says.
        path: PathBuf,
    },
    /// Somebody else could have put something there.
    #[error("`{}` is not safe to use: {why}", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl PlaceError {
    /// The stable code, the name of a page under `docs/errors/`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoHome { .. } | Self::Relative { .. } | Self::NotPrivate { .. } | Self::Io { .. } => {
                "IJ-D004"
            }
        }
    }

    /// What to do next.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoHome { .. } => "set HOME, or INFINIJUP_STATE and INFINIJUP_SETTINGS",
            Self::Relative { .. } => "begin it with `/`",
            Self::NotPrivate { .. } | Self::Io { .. } => {
                "name a directory of your own with INFINIJUP_RUN (or INFINIJUP_STATE), for the daemon and for those who call it"
            }
        }
    }
}

/// The places of one user's daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Places {
    /// What outlives a reboot.
    pub state: PathBuf,
    /// What does not.
    pub run: PathBuf,
    /// Where it listens.
    pub socket: PathBuf,
    /// What its user has set.
    pub settings: PathBuf,
}

impl Places {
    /// Those of whoever runs this program.
    pub fn own() -> Result<Self, PlaceError> {
        Self::own_with(variable)
    }

    /// The same where something else than the environment alone says what is set.
    pub fn own_with(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, PlaceError> {
        let owner =
            |path: &Path| fs::metadata(path).ok().filter(fs::Metadata::is_dir).map(|found| found.uid());
        Self::of(rustix::process::geteuid().as_raw(), variable, owner)
    }

    /// Those of a user with this environment. `owner` says who owns a directory, if it is one.
    pub fn of(
        uid: u32,
        variable: impl Fn(&str) -> Option<OsString>,
        owner: impl Fn(&Path) -> Option<u32>,
    ) -> Result<Self, PlaceError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let named = |name: &'static str| match variable(name) {
            Some(path) if path.is_relative() => Err(PlaceError::Relative { variable: name, path }),
            path => Ok(path),
        };
        // As the desktop's specification has it, a relative path there counts as none.
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let below_home = |desktop: &'static str, usual: &str| {
            let base = absolute(desktop).or_else(|| Some(absolute("HOME")?.join(usual)));
            base.map(|base| base.join("infinijup")).ok_or(PlaceError::NoHome { variable: desktop })
        };
        let state = match named(STATE_VARIABLE)? {
            Some(state) => state,
            None if uid == 0 => "/var/lib/infinijup".into(),
            None => below_home("XDG_DATA_HOME", ".local/share")?,
        };
        let settings = match named(SETTINGS_VARIABLE)? {
            Some(settings) => settings,
            None if uid == 0 => "/etc/infinijup/settings.toml".into(),
            None => below_home("XDG_CONFIG_HOME", ".config")?.join("settings.toml"),
        };
        let usual = || {
            let of_login = Some(PathBuf::from(format!("/run/user/{uid}")));
            let own = [absolute("XDG_RUNTIME_DIR"), of_login].into_iter().flatten();
            let own = own.filter(|directory| owner(directory) == Some(uid));
            own.map(|directory| directory.join("infinijup")).next()
        };
        let run = match named(RUN_VARIABLE)? {
            Some(run) => run,
            None if uid == 0 => "/run/infinijup".into(),
            None => usual().unwrap_or_else(|| state.join("run")),
        };
        let socket = named(SOCKET_VARIABLE)?.unwrap_or_else(|| run.join(SOCKET));
        Ok(Self { state, run, socket, settings })
    }

    /// The daemon's store.
    pub fn store(&self) -> PathBuf {
        store_in(&self.state)
    }
}

/// The store of a daemon with this state directory.
pub fn store_in(state: &Path) -> PathBuf {
    state.join(STORE)
}

/// A variable of the environment. Who has no `HOME` has the one of the password database.
pub fn variable(name: &str) -> Option<OsString> {
    match name {
        "HOME" => std::env::home_dir().map(PathBuf::into_os_string),
        _ => std::env::var_os(name),
    }
}

/// Makes a directory that nobody but us can enter, or sees that it is one.
///
/// One that belongs to another, or in which others could have put something, is refused: what lies there cannot be believed. That
/// its name is ours for good is up to the directory above.
pub fn make_private(path: &Path) -> Result<(), PlaceError> {
    let failed = |action| move |source| PlaceError::Io { action, path: path.to_owned(), source };
    let refused = |why: String| PlaceError::NotPrivate { path: path.to_owned(), why };
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(failed("create"))?,
    }
    let found = fs::symlink_metadata(path).map_err(failed("look at"))?;
    if !found.is_dir() {
        return Err(refused("it is not a directory, or a link to one".to_owned()));
    }
    let us = rustix::process::geteuid().as_raw();
    if found.uid() != us {
        return Err(refused(format!("it belongs to user {}, not to user {us}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        return Err(refused(format!("others may write there (mode {:o})", found.mode() & 0o7777)));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(failed("set the mode of"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Case {
        about: String,
        uid: u32,
        environment: BTreeMap<String, String>,
        #[serde(default)]
        owners: BTreeMap<String, u32>,
        state: Option<PathBuf>,
        run: Option<PathBuf>,
        socket: Option<PathBuf>,
        settings: Option<PathBuf>,
        refused: Option<String>,
    }

    #[test]
    fn the_table_holds() {
        let cases: Vec<Case> = serde_json::from_str(include_str!("../tests/places.json")).unwrap();
        for case in cases {
            let variable = |name: &str| case.environment.get(name).map(OsString::from);
            let owner = |path: &Path| case.owners.get(path.to_str().unwrap()).copied();
            let found = Places::of(case.uid, variable, owner);
            match (found, case.refused) {
                (Ok(found), None) => {
                    let wanted = [&case.state, &case.run, &case.socket, &case.settings];
                    let found = [&found.state, &found.run, &found.socket, &found.settings];
                    for (wanted, found) in wanted.into_iter().zip(found) {
                        assert!(
                            wanted.as_ref().is_none_or(|wanted| wanted == found),
                            "{}: {found:?}",
                            case.about
                        );
                    }
                }
                (Err(error), Some(part)) => {
                    assert!(error.to_string().contains(&part), "{}: {error}", case.about)
                }
                (found, refused) => panic!("{}: {found:?}, not {refused:?}", case.about),
            }
        }
    }

    #[test]
    fn a_private_directory_is_ours_alone_or_refused() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let mode = |name: &str| fs::symlink_metadata(at(name)).unwrap().mode() & 0o7777;
        let set = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        make_private(&at("a/new")).unwrap();
        assert_eq!(mode("a/new"), 0o700);
        set("a/new", 0o755);
        make_private(&at("a/new")).unwrap();
        assert_eq!(mode("a/new"), 0o700, "only we could write there, so what is in it is ours");
        for open in [0o770, 0o702, 0o1777] {
            set("a/new", open);
            let refused = make_private(&at("a/new")).unwrap_err();
            assert!(refused.to_string().contains("others may write"), "{refused}");
        }
        set("a/new", 0o700);
        std::os::unix::fs::symlink(at("a/new"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        for other in ["link", "file"] {
            assert!(make_private(&at(other)).unwrap_err().to_string().contains("not a directory"), "{other}");
        }
        // Everybody has `/`, and only root owns it.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("a/new"), Some(4711), None).unwrap();
            let refused = make_private(&at("a/new")).unwrap_err();
            assert!(refused.to_string().contains("belongs to user 4711"), "{refused}");
        } else {
            make_private(Path::new("/")).unwrap_err();
        }
    }
}
