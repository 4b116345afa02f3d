//! Names of threads and tags. A ref's name is part of a file's path, of command lines and of URLs, so it is held to the
//! rules of `git check-ref-format`, with one relaxation: spaces inside a name are allowed, because people type these names
//! into a text field in JupyterLab.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ManifestError;

/// Longest name in bytes, without the leading `threads/` or `tags/`.
const MAX_NAME: usize = 200;

/// Characters that a way of naming ancestors and ranges of commits needs for itself (`main~2`, `a^`, `a:path`).
const RESERVED: &[char] = &['~', '^', ':', '?', '*', '[', '\\'];

fn broken_rule(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_NAME {
        return Some("it must have 1 to 200 bytes");
    }
    if name.chars().any(char::is_control) {
        return Some("it has a control character");
    }
    if name.trim() != name {
        return Some("it starts or ends with white space");
    }
    if name.contains("..") {
        return Some("it contains `..`");
    }
    if name.contains(RESERVED) {
        return Some(r"it contains one of ~ ^ : ? * [ \");
    }
    if name.starts_with('/') || name.ends_with('/') {
        return Some("it starts or ends with `/`");
    }
    if name.ends_with('.') {
        return Some("it ends with `.`");
    }
    if name.starts_with('-') {
        return Some("it starts with `-`");
    }
    for part in name.split('/') {
        if part.is_empty() {
            return Some("it has two `/` in a row");
        }
        if part.starts_with('.') {
            return Some("a part of it starts with `.`");
        }
        if part.ends_with(".lock") {
            return Some("a part of it ends with `.lock`");
        }
    }
    None
}

macro_rules! ref_name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// What comes before the name in a ref's full path.
            pub const PREFIX: &str = $prefix;

            /// Checks a name.
            pub fn new(name: impl Into<String>) -> Result<Self, ManifestError> {
                let name = name.into();
                match broken_rule(&name) {
                    None => Ok(Self(name)),
                    Some(reason) => {
                        Err(ManifestError::RefName { what: $what, name: name.escape_debug().to_string(), reason })
                    }
                }
            }

            /// The name of the ref with this full path; an error if the path is another sort of ref.
            pub fn from_ref_path(path: &str) -> Result<Self, ManifestError> {
                let name = path.strip_prefix($prefix).ok_or_else(|| ManifestError::RefName {
                    what: $what,
                    name: path.escape_debug().to_string(),
                    reason: concat!("it does not start with `", $prefix, "`"),
                })?;
                Self::new(name)
            }

            #[doc = concat!("The full path of the ref: `", $prefix, "<name>`.")]
            pub fn ref_path(&self) -> String {
                format!(concat!($prefix, "{}"), self.0)
            }

            /// The name alone.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = ManifestError;

            fn from_str(name: &str) -> Result<Self, ManifestError> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $name {
            type Error = ManifestError;

            fn try_from(name: String) -> Result<Self, ManifestError> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

ref_name!(
    /// The name of a thread: a ref that moves with each snapshot.
    Thread,
    "thread",
    "threads/"
);
ref_name!(
    /// The name of a tag: a ref that stays.
    Tag,
    "tag",
    "tags/"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_have_a_full_path() {
        for name in ["main", "a/b/c", "ünïcode", "v1.0", "my idea", "a-b_c", "@", "lock", &"x".repeat(200)]
        {
            let thread = Thread::new(name).unwrap();
            assert_eq!(thread.ref_path(), format!("threads/{name}"));
            assert_eq!(Thread::from_ref_path(&thread.ref_path()).unwrap(), thread);
            Tag::from_ref_path(&thread.ref_path()).unwrap_err();
        }
    }

    #[test]
    fn each_rule_refuses() {
        let long = "x".repeat(201);
        for (name, rule) in [
            ("", "1 to 200"),
            (&long, "1 to 200"),
            ("a\nb", "control"),
            ("a\u{85}b", "control"),
            (" a", "white space"),
            ("a ", "white space"),
            ("a..b", "`..`"),
            ("../a", "`..`"),
            ("a~1", "one of"),
            ("a:b", "one of"),
            ("a\\b", "one of"),
            ("/a", "starts or ends with `/`"),
            ("a/", "starts or ends with `/`"),
            ("a.", "ends with `.`"),
            ("-a", "starts with `-`"),
            ("a//b", "in a row"),
            (".a", "part of it starts"),
            ("a/.b", "part of it starts"),
            ("a.lock", "`.lock`"),
            ("a.lock/b", "`.lock`"),
        ] {
            let error = Thread::new(name).unwrap_err().to_string();
            assert!(error.contains(rule), "{name:?}: {error}");
        }
    }

    #[test]
    fn an_error_does_not_carry_control_characters_to_the_terminal() {
        let error = Tag::new("a\u{1b}[31m").unwrap_err();
        assert_eq!(error.to_string(), r"`a\u{1b}[31m` cannot name a tag: it has a control character");
    }
}
