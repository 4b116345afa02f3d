//! `kernel.json`: how a kernel is started, as
//! <https://jupyter-client.readthedocs.io/en/stable/kernels.html#kernel-specs> describes it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{JupyterError, Result};
use crate::file::read_small;

/// How a kernel wants to be interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptMode {
    /// By SIGINT.
    #[default]
    Signal,
    /// By a message on its control channel.
    Message,
}

/// A kernel that can be started.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernelspec {
    /// What it is called: the name of its directory, in lower case.
    pub name: String,
    /// The command, with `{connection_file}`, `{resource_dir}` and `{prefix}` not yet replaced.
    pub argv: Vec<String>,
    /// Variables that it wants, with `${NAME}` not yet replaced.
    pub env: BTreeMap<String, String>,
    /// What people call it.
    pub display_name: String,
    /// The language of its cells.
    pub language: String,
    /// How it is interrupted.
    pub interrupt_mode: InterruptMode,
    /// Whatever else was said about it.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The directory that `kernel.json` lies in.
    pub resource_dir: PathBuf,
}

/// What the file says. Fields that we do not know are left to others.
#[derive(Deserialize)]
struct File {
    argv: Vec<String>,
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    language: String,
    #[serde(default)]
    interrupt_mode: InterruptMode,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    metadata: serde_json::Map<String, serde_json::Value>,
}

impl Kernelspec {
    /// The name of the file in a kernelspec's directory.
    pub const FILE: &str = "kernel.json";

    /// Reads the kernelspec in `directory`, which is called `name`.
    pub fn read(name: &str, directory: &Path) -> Result<Self> {
        let path = directory.join(Self::FILE);
        let content = read_small(&path).map_err(JupyterError::io("read", &path))?;
        let wrong = |detail: String| JupyterError::Kernelspec { path: path.clone(), detail };
        let file: File = serde_json::from_slice(&content).map_err(|error| wrong(error.to_string()))?;
        if file.argv.first().is_none_or(String::is_empty) {
            return Err(wrong("`argv` names no program".to_owned()));
        }
        if file.argv.iter().chain(file.env.values()).chain(file.env.keys()).any(|text| text.contains('\0')) {
            return Err(wrong("there is a NUL in `argv` or `env`".to_owned()));
        }
        if let Some(key) = file.env.keys().find(|key| key.is_empty() || key.contains('=')) {
            return Err(wrong(format!("`{key}` cannot name a variable")));
        }
        Ok(Self {
            name: name.to_ascii_lowercase(),
            argv: file.argv,
            env: file.env,
            display_name: file.display_name,
            language: file.language,
            interrupt_mode: file.interrupt_mode,
            metadata: file.metadata,
            resource_dir: directory.to_path_buf(),
        })
    }

    /// The installation that this spec belongs to: `P` if it lies in `P/share/jupyter/kernels/NAME`.
    pub fn prefix(&self) -> Option<&Path> {
        let kernels = self.resource_dir.parent()?;
        kernels.ends_with("share/jupyter/kernels").then(|| kernels.ancestors().nth(3)).flatten()
    }

    /// Whether a cell of it runs in ipykernel.
    pub fn is_ipykernel(&self) -> bool {
        is_ipykernel(&self.argv)
    }
}

/// Whether a command runs ipykernel.
pub(crate) fn is_ipykernel<S: AsRef<OsStr>>(argv: &[S]) -> bool {
    let module = |pair: &[S]| {
        let [flag, module] = pair else { return false };
        flag.as_ref() == "-m" && matches!(module.as_ref().to_str(), Some("ipykernel_launcher" | "ipykernel"))
    };
    let script = |word: &S| {
        let name = Path::new(word.as_ref()).file_name().and_then(OsStr::to_str);
        matches!(name, Some("ipykernel_launcher.py" | "ipykernel_launcher" | "ipython-kernel"))
    };
    argv.windows(2).any(module) || argv.iter().any(script)
}

/// Whether a directory of this name can be a kernelspec.
pub(crate) fn is_name(name: &str) -> bool {
    base::names::check_kernelspec(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Kernelspec> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("kernel.json"), json).unwrap();
        Kernelspec::read("Python3", directory.path())
    }

    #[test]
    fn what_ipykernel_installs_is_understood() {
        let spec = read(
            r#"{"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": "Python 3 (ipykernel)", "language": "python", "metadata": {"debugger": true},
                "kernel_protocol_version": "5.5"}"#,
        )
        .unwrap();
        assert_eq!((spec.name.as_str(), spec.language.as_str()), ("python3", "python"));
        assert_eq!(spec.interrupt_mode, InterruptMode::Signal);
        assert!(spec.is_ipykernel() && spec.metadata["debugger"] == true);
        let other = read(r#"{"argv": ["xpython", "-f", "{connection_file}"], "interrupt_mode": "message"}"#);
        let other = other.unwrap();
        assert!(!other.is_ipykernel());
        assert_eq!(other.interrupt_mode, InterruptMode::Message);
    }

    #[test]
    fn nonsense_is_refused() {
        for json in [
            "",
            "[]",
            "{}",
            r#"{"argv": []}"#,
            r#"{"argv": [""]}"#,
            r#"{"argv": "python"}"#,
            r#"{"argv": ["a\u0000b"]}"#,
            r#"{"argv": ["a"], "env": {"A=B": "c"}}"#,
            r#"{"argv": ["a"], "env": {"A": 1}}"#,
            r#"{"argv": ["a"], "interrupt_mode": "hope"}"#,
        ] {
            assert_eq!(read(json).unwrap_err().code(), "IJ-J010", "{json}");
        }
        assert_eq!(read(&" ".repeat(2 << 20)).unwrap_err().code(), "IJ-J001");
    }

    #[test]
    fn a_pipe_does_not_keep_us_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kernel.json");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(Kernelspec::read("x", directory.path()).unwrap_err().code(), "IJ-J001");
    }

    #[test]
    fn names() {
        for name in ["python3", "ir", "Julia-1.11", "a_b.c"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "a/b", "a b", "é", "../x"] {
            assert!(!is_name(name), "{name}");
        }
    }
}
