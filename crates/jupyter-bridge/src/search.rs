//! Where kernelspecs lie.
//!
//! This follows `jupyter_core.paths.jupyter_path` and `KernelSpecManager` of `jupyter_client`, in their order:
//! `JUPYTER_PATH`, the user's data directory, the environment's `share/jupyter`, the system's, and `~/.ipython`. In a virtual
//! environment, or if `JUPYTER_PREFER_ENV_PATH` says so, the environment comes before the user's directory.
//!
//! Jupyter is a Python program and knows its environment as `sys.prefix`. We are not, so the user's variables stand in
//! for it: `VIRTUAL_ENV`, `CONDA_PREFIX`, then `P` for each `P/bin` in `PATH`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::{JupyterError, Result};
use crate::kernelspec::{Kernelspec, is_name};

/// The kernel that is meant if none is named.
const DEFAULT: &str = "python3";

/// The directories in which kernelspecs are looked for, the first that has a name wins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Search {
    directories: Vec<PathBuf>,
}

/// All kernelspecs of a user.
#[derive(Debug, Default)]
pub struct Listing {
    /// Those that can be used, by name.
    pub specs: Vec<Kernelspec>,
    /// Those that make no sense.
    pub broken: Vec<JupyterError>,
}

/// The directory in which the user with this home and these variables has Jupyter files of their own.
pub fn data_directory(home: &Path, env: &[(OsString, OsString)]) -> PathBuf {
    let directory = |name: &str| directory(env, name);
    directory("JUPYTER_DATA_DIR")
        .or_else(|| Some(directory("XDG_DATA_HOME")?.join("jupyter")))
        .unwrap_or_else(|| home.join(".local/share/jupyter"))
}

/// What a variable says; an empty one says nothing.
fn variable<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let found = env.iter().rev().find(|(key, _)| key == OsStr::new(name));
    found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
}

fn directory(env: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    variable(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

impl Search {
    /// The directories of the user with this home and these variables.
    pub fn of(home: &Path, env: &[(OsString, OsString)]) -> Self {
        let variable = |name: &str| variable(env, name);
        let directory = |name: &str| directory(env, name);
        let data = data_directory(home, env);
        let on_path = variable("PATH").into_iter().flat_map(std::env::split_paths);
        let prefixes = on_path.filter(|path| path.ends_with("bin")).filter_map(|path| {
            let prefix = path.parent()?;
            prefix.is_absolute().then(|| prefix.to_path_buf())
        });
        let environment =
            directory("VIRTUAL_ENV").into_iter().chain(directory("CONDA_PREFIX")).chain(prefixes);
        let environment = environment.map(|prefix| prefix.join("share/jupyter"));
        let system = ["/usr/local/share/jupyter", "/usr/share/jupyter"].map(PathBuf::from);

        let mut roots: Vec<PathBuf> = variable("JUPYTER_PATH")
            .into_iter()
            .flat_map(std::env::split_paths)
            .filter(|path| path.is_absolute())
            .collect();
        if environment_first(variable) {
            roots.extend(environment);
            roots.push(data);
        } else {
            roots.push(data);
            roots.extend(environment);
        }
        roots.extend(system);

        let mut directories: Vec<PathBuf> = roots.into_iter().map(|root| root.join("kernels")).collect();
        directories.push(directory("IPYTHONDIR").unwrap_or_else(|| home.join(".ipython")).join("kernels"));
        Self::within(directories)
    }

    /// Exactly these directories.
    pub fn within(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut unique = Vec::new();
        for directory in directories {
            if !unique.contains(&directory) {
                unique.push(directory);
            }
        }
        Self { directories: unique }
    }

    /// Where is looked, in this order.
    pub fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// All kernelspecs. A directory that is not there or may not be read has none.
    pub fn list(&self) -> Listing {
        let mut listing = Listing::default();
        for (name, directory) in self.places() {
            match Kernelspec::read(&name, &directory) {
                Ok(spec) => listing.specs.push(spec),
                Err(error) => listing.broken.push(error),
            }
        }
        listing
    }

    /// The kernelspec of this name, whatever its case.
    pub fn find(&self, name: &str) -> Result<Kernelspec> {
        if !is_name(name) {
            return Err(JupyterError::Name { name: name.to_owned() });
        }
        let mut places = self.places();
        match places.remove(&name.to_ascii_lowercase()) {
            Some(directory) => Kernelspec::read(name, &directory),
            None => Err(self.not_found(name, places)),
        }
    }

    /// The kernelspec that is meant if none is named: `python3`, or the only one that there is.
    pub fn find_default(&self) -> Result<Kernelspec> {
        let places = self.places();
        if let Some(directory) = places.get(DEFAULT) {
            return Kernelspec::read(DEFAULT, directory);
        }
        match places.first_key_value() {
            Some((name, directory)) if places.len() == 1 => Kernelspec::read(name, directory),
            _ => Err(self.not_found(DEFAULT, places)),
        }
    }

    fn not_found(&self, name: &str, places: BTreeMap<String, PathBuf>) -> JupyterError {
        JupyterError::NotFound {
            name: name.to_owned(),
            known: places.into_keys().collect(),
            searched: self.directories.clone(),
        }
    }

    /// Which directory each name stands for.
    fn places(&self) -> BTreeMap<String, PathBuf> {
        let mut places = BTreeMap::new();
        for entry in self.directories.iter().filter_map(|path| path.read_dir().ok()).flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Some(name) = name.to_str().filter(|name| is_name(name)) else { continue };
            if path.join(Kernelspec::FILE).exists() {
                places.entry(name.to_ascii_lowercase()).or_insert(path);
            }
        }
        places
    }
}

/// Whether the environment's kernelspecs come before the user's own.
fn environment_first<'a>(variable: impl Fn(&str) -> Option<&'a OsStr>) -> bool {
    if let Some(wish) = variable("JUPYTER_PREFER_ENV_PATH") {
        let wish = wish.to_ascii_lowercase();
        return !["no", "n", "false", "off", "0", "0.0"].iter().any(|no| wish == OsStr::new(no));
    }
    variable("VIRTUAL_ENV").is_some()
        || (variable("CONDA_PREFIX").is_some()
            && variable("CONDA_DEFAULT_ENV").is_some_and(|name| name != OsStr::new("base")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(key, value)| (key.into(), value.into())).collect()
    }

    fn searched(pairs: &[(&str, &str)]) -> Vec<String> {
        let search = Search::of(Path::new("/home/ada"), &env(pairs));
        search.directories().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn the_order_is_jupyters() {
        assert_eq!(
            searched(&[("PATH", "/opt/py/bin:/usr/bin:/usr/sbin:relative/bin"), ("JUPYTER_PATH", "/a:b:/c")]),
            [
                "/a/kernels",
                "/c/kernels",
                "/home/ada/.local/share/jupyter/kernels",
                "/opt/py/share/jupyter/kernels",
                "/usr/share/jupyter/kernels",
                "/usr/local/share/jupyter/kernels",
                "/home/ada/.ipython/kernels",
            ]
        );
        assert_eq!(
            searched(&[("VIRTUAL_ENV", "/venv"), ("XDG_DATA_HOME", "/data"), ("IPYTHONDIR", "/ipy")]),
            [
                "/venv/share/jupyter/kernels",
                "/data/jupyter/kernels",
                "/usr/local/share/jupyter/kernels",
                "/usr/share/jupyter/kernels",
                "/ipy/kernels"
            ]
        );
        let user_first = searched(&[("VIRTUAL_ENV", "/venv"), ("JUPYTER_PREFER_ENV_PATH", "0")]);
        assert_eq!(user_first[0], "/home/ada/.local/share/jupyter/kernels");
        let base = searched(&[("CONDA_PREFIX", "/conda"), ("CONDA_DEFAULT_ENV", "base")]);
        assert_eq!(base[0], "/home/ada/.local/share/jupyter/kernels");
    }

    #[test]
    fn the_first_directory_wins_and_a_broken_spec_hides_no_other() {
        let home = tempfile::tempdir().unwrap();
        let put = |path: &str, json: &str| {
            let directory = home.path().join(path);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("kernel.json"), json).unwrap();
        };
        put("one/Python3", r#"{"argv": ["first"]}"#);
        put("two/python3", r#"{"argv": ["second"]}"#);
        put("two/broken", "{");
        put("two/not a name", r#"{"argv": ["x"]}"#);
        std::fs::create_dir(home.path().join("two/empty")).unwrap();
        let search = Search::within(["one", "two", "none"].map(|name| home.path().join(name)));
        let listing = search.list();
        assert_eq!(listing.specs.len(), 1);
        assert_eq!((listing.specs[0].name.as_str(), listing.specs[0].argv[0].as_str()), ("python3", "first"));
        assert_eq!(listing.broken.len(), 1);
        assert_eq!(search.find("PYTHON3").unwrap().argv, ["first"]);
        assert_eq!(search.find_default().unwrap().argv, ["first"]);
        assert_eq!(search.find("broken").unwrap_err().code(), "IJ-J010");
        assert_eq!(search.find("../one").unwrap_err().code(), "IJ-J003");
        let missing = search.find("ir").unwrap_err();
        assert_eq!(missing.code(), "IJ-J002");
        assert_eq!(missing.hint().unwrap(), "there is broken, python3");
        let nothing = Search::within([home.path().join("none")]).find_default().unwrap_err();
        assert!(nothing.hint().unwrap().contains("ipykernel install"));
    }
}
