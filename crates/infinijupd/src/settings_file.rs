//! The settings file: what a user sets once, in TOML, under the names that the daemon's flags have.
//!
//! ```toml
//! idle_end = 3600
//! store_budget = "200 GiB"
//! ```
//!
//! A name that is not known is refused rather than skipped: it is a setting that somebody relies on, misspelt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use api::settings::table;
use toml::Value;

use crate::error::DaemonError;

/// Reads it; nothing is set if it is not there. `names` are those that may be.
pub(crate) fn read(path: &Path, names: &[String]) -> Result<BTreeMap<String, OsString>, DaemonError> {
    let refused = |what: String| DaemonError::Settings { what: format!("`{}`: {what}", path.display()) };
    let mut set = BTreeMap::new();
    for (name, value) in table(path)? {
        if !names.contains(&name) {
            return Err(refused(format!("`{name}` is not known; there are {}", names.join(", "))));
        }
        let text = match value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => {
                return Err(refused(format!(
                    "`{name}` must be a text or a number, not a {}",
                    other.type_str()
                )));
            }
        };
        set.insert(name, text.into());
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<BTreeMap<String, OsString>, DaemonError> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.toml");
        std::fs::write(&path, text).unwrap();
        read(&path, &["idle_end".to_owned(), "criu".to_owned()])
    }

    #[test]
    fn texts_and_numbers_are_taken_and_the_rest_is_refused() {
        let set = read_text("# mine\nidle_end = 0.5\ncriu = '/opt/criu'\n").unwrap();
        assert_eq!((set["idle_end"].to_str(), set["criu"].to_str()), (Some("0.5"), Some("/opt/criu")));
        assert_eq!(read_text("").unwrap(), BTreeMap::new());
        assert_eq!(read(Path::new("/nowhere/settings.toml"), &[]).unwrap(), BTreeMap::new());
        for (text, said) in [
            ("idle-end = 1", "`idle-end` is not known; there are idle_end, criu"),
            ("state = '/x'", "`state` is not known"),
            ("idle_end = true", "must be a text or a number, not a boolean"),
            ("[daemon]\nidle_end = 1", "`daemon` is not known"),
            ("idle_end 5", "settings.toml"),
        ] {
            let refused = read_text(text).unwrap_err();
            assert!(refused.code() == "IJ-D003" && refused.to_string().contains(said), "{refused}");
        }
        read_text(&"#".repeat(65 << 10)).unwrap_err();
        read(Path::new("/dev/zero"), &[]).unwrap_err();
    }
}
