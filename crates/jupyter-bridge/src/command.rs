//! How a kernel is started.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::kernelspec::{Kernelspec, is_ipykernel};

/// IPython keeps its history in an SQLite database in the user's home, open all the time. Rolled back and branched kernels
/// would all believe that they own it.
const NO_HISTORY: &str = "--HistoryManager.enabled=False";

/// A kernel with this variable ends when the process of that number does, which was whoever started it outside.
const PARENT: &str = "JPY_PARENT_PID";

/// A command with its environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelCommand {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// All variables that it is started with.
    pub env: Vec<(OsString, OsString)>,
}

/// How to start `spec` with the connection file at `connection_file_inside`, as the kernel sees that path, from a user's
/// variables `base`.
///
/// As Jupyter does: `{connection_file}`, `{resource_dir}` and `{prefix}` in the arguments are replaced, a plain `python` is
/// that of the installation which the spec belongs to, and `${NAME}` in the spec's variables is the user's variable.
/// Otherwise than Jupyter: ipykernel keeps no history file, and no kernel watches a parent.
pub fn kernel_command(
    spec: &Kernelspec,
    connection_file_inside: &Path,
    base: &[(OsString, OsString)],
) -> KernelCommand {
    let prefix = spec.prefix();
    let replacements = [
        ("{connection_file}", Some(connection_file_inside)),
        ("{resource_dir}", Some(spec.resource_dir.as_path())),
        ("{prefix}", prefix),
    ];
    let mut argv: Vec<OsString> = spec.argv.iter().map(|word| filled_in(word, &replacements)).collect();
    if let (Some(program), Some(prefix)) = (argv.first_mut(), prefix) {
        let own = prefix.join("bin").join(&*program);
        if is_python(program) && own.is_file() {
            *program = own.into_os_string();
        }
    }
    let has_wish = spec.argv.iter().any(|word| word.starts_with("--HistoryManager.enabled"));
    if spec.is_ipykernel() && !has_wish {
        argv.push(NO_HISTORY.into());
    }
    KernelCommand { argv, env: environment(spec, base) }
}

/// How to start a kernel whose kernelspec was read by somebody else, who has replaced everything in `argv` but
/// `{connection_file}` and made `env` what it is to be.
pub fn own_command(
    argv: &[OsString],
    connection_file_inside: &Path,
    env: &[(OsString, OsString)],
) -> KernelCommand {
    let mut argv: Vec<OsString> =
        argv.iter().map(|word| with_connection_file(word, connection_file_inside)).collect();
    let has_wish = argv.iter().any(|word| word.as_encoded_bytes().starts_with(b"--HistoryManager.enabled"));
    if is_ipykernel(&argv) && !has_wish {
        argv.push(NO_HISTORY.into());
    }
    let env = env.iter().filter(|(name, _)| name != PARENT).cloned().collect();
    KernelCommand { argv, env }
}

fn with_connection_file(word: &OsStr, path: &Path) -> OsString {
    const PLACE: &[u8] = b"{connection_file}";
    let mut out = Vec::new();
    let mut rest = word.as_bytes();
    while let Some(at) = rest.windows(PLACE.len()).position(|part| part == PLACE) {
        let (before, after) = rest.split_at(at);
        out.extend_from_slice(before);
        out.extend_from_slice(path.as_os_str().as_bytes());
        rest = after.get(PLACE.len()..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    OsString::from_vec(out)
}

/// `python`, `python3`, `python3.12`.
fn is_python(program: &OsStr) -> bool {
    let version = program.to_str().and_then(|program| program.strip_prefix("python"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Replaces each placeholder once through, from left to right: what was put in is not looked at again.
fn filled_in(word: &str, replacements: &[(&str, Option<&Path>)]) -> OsString {
    let mut out = OsString::new();
    let mut rest = word;
    while let Some((head, _)) = rest.split_once('{') {
        let (plain, from) = rest.split_at(head.len());
        out.push(plain);
        let found = replacements.iter().find_map(|(name, value)| Some((from.strip_prefix(name)?, (*value)?)));
        match found {
            Some((after, value)) => {
                out.push(value);
                rest = after;
            }
            None => {
                out.push("{");
                rest = from.get(1..).unwrap_or_default();
            }
        }
    }
    out.push(rest);
    out
}

/// The user's variables, then those of the spec.
fn environment(spec: &Kernelspec, base: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    let ours = |key: &OsStr| key == OsStr::new(PARENT) || spec.env.keys().any(|name| key == OsStr::new(name));
    let mut env: Vec<(OsString, OsString)> = base.iter().filter(|(key, _)| !ours(key)).cloned().collect();
    for (key, value) in spec.env.iter().filter(|(key, _)| *key != PARENT) {
        env.push((key.into(), substituted(value, base)));
    }
    env
}

/// Python's `string.Template.safe_substitute`: `$NAME`, `${NAME}` and `$$`; what is not known stays as it is.
fn substituted(text: &str, base: &[(OsString, OsString)]) -> OsString {
    let mut out = OsString::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('$') {
        out.push(plain);
        if let Some(after) = after.strip_prefix('$') {
            out.push("$");
            rest = after;
            continue;
        }
        let braced = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let (name, following) = braced.unwrap_or_else(|| after.split_at(identifier(after)));
        let known = base.iter().rev().find(|(key, _)| !name.is_empty() && key == OsStr::new(name));
        match known {
            Some((_, value)) => {
                out.push(value);
                rest = following;
            }
            None => {
                out.push("$");
                rest = after;
            }
        }
    }
    out.push(rest);
    out
}

/// How many bytes at the beginning of `text` are a name.
fn identifier(text: &str) -> usize {
    let fits = |(at, byte): (usize, u8)| {
        byte == b'_' || byte.is_ascii_alphabetic() || (at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(|pair| fits(*pair)).count()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kernelspec::InterruptMode;

    fn spec(argv: &[&str], resource_dir: &Path) -> Kernelspec {
        Kernelspec {
            name: "python3".into(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: BTreeMap::new(),
            display_name: String::new(),
            language: "python".into(),
            interrupt_mode: InterruptMode::Signal,
            metadata: serde_json::Map::new(),
            resource_dir: resource_dir.to_path_buf(),
        }
    }

    fn argv(spec: &Kernelspec) -> Vec<String> {
        let command = kernel_command(spec, Path::new("/box/c{prefix}.json"), &[]);
        command.argv.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn placeholders_are_replaced_once() {
        let found = spec(
            &["run", "-f{connection_file}", "{resource_dir}/x", "{prefix}", "{other} {", "{connection_file"],
            Path::new("/p/share/jupyter/kernels/x"),
        );
        assert_eq!(
            argv(&found),
            [
                "run",
                "-f/box/c{prefix}.json",
                "/p/share/jupyter/kernels/x/x",
                "/p",
                "{other} {",
                "{connection_file"
            ]
        );
        assert_eq!(argv(&spec(&["run", "{prefix}"], Path::new("/elsewhere/x"))), ["run", "{prefix}"]);
    }

    #[test]
    fn python_is_that_of_the_environment_and_keeps_no_history() {
        let prefix = tempfile::tempdir().unwrap();
        let directory = prefix.path().join("share/jupyter/kernels/python3");
        let ipykernel = ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"];
        assert_eq!(argv(&spec(&ipykernel, &directory))[0], "python");
        std::fs::create_dir(prefix.path().join("bin")).unwrap();
        std::fs::write(prefix.path().join("bin/python"), "").unwrap();
        let words = argv(&spec(&ipykernel, &directory));
        assert_eq!(words[0], prefix.path().join("bin/python").to_str().unwrap());
        assert_eq!(words.last().unwrap(), NO_HISTORY);
        let wished: Vec<&str> = ipykernel.into_iter().chain(["--HistoryManager.enabled=True"]).collect();
        assert!(!argv(&spec(&wished, &directory)).contains(&NO_HISTORY.to_owned()));
        assert_eq!(argv(&spec(&["R", "--slave"], &directory)), ["R", "--slave"]);
    }

    #[test]
    fn variables_of_the_spec_come_last_and_nobody_watches_a_parent() {
        let mut found = spec(&["x"], Path::new("/x"));
        for (key, value) in [
            ("A", "${HOME}/a:$PATH"),
            ("B", "$$ $UNKNOWN ${UNKNOWN} $ ${"),
            ("PATH", "/k:${PATH}"),
            (PARENT, "7"),
        ] {
            found.env.insert(key.into(), value.into());
        }
        let base: Vec<(OsString, OsString)> = [("HOME", "/h"), (PARENT, "1"), ("PATH", "/bin"), ("Z", "z")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
        let env = kernel_command(&found, Path::new("/c"), &base).env;
        let env: Vec<(&str, &str)> =
            env.iter().map(|(key, value)| (key.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(
            env,
            [
                ("HOME", "/h"),
                ("Z", "z"),
                ("A", "/h/a:/bin"),
                ("B", "$ $UNKNOWN ${UNKNOWN} $ ${"),
                ("PATH", "/k:/bin")
            ]
        );
    }
}
