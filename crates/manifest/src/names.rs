//! Names of threads and tags, as types: what was read from a store or typed by somebody has been checked. The rule itself stands in
//! [`base::names`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ManifestError;

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
                match base::names::check_ref(&name) {
                    Ok(()) => Ok(Self(name)),
                    Err(reason) => {
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
    fn the_broken_rule_is_told() {
        for (name, rule) in
            [("", "1 to 200"), ("../a", "`..`"), ("a:b", "one of"), ("a\u{202e}b", "direction")]
        {
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
