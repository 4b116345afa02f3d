//! Bytes that are nearly always text: paths, arguments, output.
//!
//! Linux does not promise that a path or an argument is UTF-8, and JSON strings are nothing else. So a value is a plain
//! string where it can be one, and `{"hex": "636166e9"}` where it cannot; `docs/scripting.md` says the same of the
//! command's own output.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Bytes, shown as text where they are text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Vec<u8>);

/// The two shapes on the wire.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = Text)]
pub(crate) enum Shape {
    /// Valid UTF-8.
    Plain(String),
    /// Anything else.
    Hex {
        /// The bytes, two lower-case hex digits each.
        hex: String,
    },
}

impl Text {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the operating system takes it.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl From<OsString> for Text {
    fn from(text: OsString) -> Self {
        Self(text.into_vec())
    }
}

impl From<&Path> for Text {
    fn from(path: &Path) -> Self {
        Self::from(path.as_os_str())
    }
}

impl From<PathBuf> for Text {
    fn from(path: PathBuf) -> Self {
        Self::from(path.into_os_string())
    }
}

impl From<Text> for PathBuf {
    fn from(text: Text) -> Self {
        Self::from(OsString::from(text))
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        Self::from_vec(text.0)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.as_str() {
            Some(text) => serializer.serialize_str(text),
            None => Shape::Hex { hex: self.0.iter().map(|byte| format!("{byte:02x}")).collect() }
                .serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Shape::deserialize(deserializer)? {
            Shape::Plain(text) => Ok(Self::from(text)),
            Shape::Hex { hex } => {
                from_hex(&hex).map(Self).ok_or_else(|| D::Error::custom("`hex` is not pairs of hex digits"))
            }
        }
    }
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

impl utoipa::PartialSchema for Text {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        Shape::schema()
    }
}

impl ToSchema for Text {
    fn name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_string_and_other_bytes_are_hex() {
        for (bytes, json) in
            [(&b"caf\xc3\xa9"[..], "\"café\""), (b"caf\xe9", r#"{"hex":"636166e9"}"#), (b"", "\"\"")]
        {
            let text = Text::from(bytes);
            assert_eq!(serde_json::to_string(&text).unwrap(), json);
            assert_eq!(serde_json::from_str::<Text>(json).unwrap(), text);
        }
    }

    #[test]
    fn half_a_byte_and_other_letters_are_refused() {
        for json in [r#"{"hex":"6"}"#, r#"{"hex":"6g"}"#, r#"{"hex":"é0"}"#, "7", "null"] {
            assert!(serde_json::from_str::<Text>(json).is_err(), "{json}");
        }
    }
}
