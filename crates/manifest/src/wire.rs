//! How small things look in JSON: ids, large integers, bytes that are nearly always text, unknown fields.

use std::collections::BTreeMap;
use std::fmt;

use cas_core::ObjectId;
use cas_core::id::hex;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Fields that a newer version wrote and this one does not know. They are kept and written back. Only decoding makes
/// one that isn't empty, so it can never hide a field that we do know.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Extra(BTreeMap<String, Value>);

impl Extra {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The unknown fields, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// Bytes that are text nearly always, such as paths. In JSON a string, or `{"hex": "…"}` if they are not UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteText(Vec<u8>);

impl ByteText {
    /// Wraps bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with what is not UTF-8 replaced: for people only.
    pub fn to_string_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<&str> for ByteText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl fmt::Debug for ByteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TextOrHex {
    Text(String),
    Hex(Hex),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hex {
    hex: String,
}

impl Serialize for ByteText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Hex { hex: hex(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ByteText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match TextOrHex::deserialize(deserializer)? {
            TextOrHex::Text(text) => Ok(Self(text.into_bytes())),
            TextOrHex::Hex(Hex { hex }) => {
                let bytes = unhex(&hex)
                    .ok_or_else(|| D::Error::custom("bytes are pairs of lower-case hex digits"))?;
                // Two spellings of one name would be two entries with one name.
                if std::str::from_utf8(&bytes).is_ok() {
                    return Err(D::Error::custom("hex is for bytes that are not UTF-8"));
                }
                Ok(Self(bytes))
            }
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}

/// `#[serde(with = "wire::id")]`: an object's id as 64 hex digits.
pub(crate) mod id {
    use super::{Deserialize, Deserializer, ObjectId, Serializer, Unexpected};
    use serde::de::Error as _;

    pub(crate) fn serialize<S: Serializer>(id: &ObjectId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectId, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| D::Error::invalid_value(Unexpected::Str(&text), &"64 lower-case hex digits"))
    }
}

/// `#[serde(with = "wire::int")]`: an integer that may be beyond 2^53, and is a string then.
pub(crate) mod int {
    use super::{Deserializer, IntVisitor, Serializer};
    use crate::canonical::SAFE_INTEGER;
    use serde::de::Error as _;

    pub(crate) fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<i128>,
        S: Serializer,
    {
        let value: i128 = (*value).into();
        match i64::try_from(value) {
            Ok(number) if number.unsigned_abs() <= SAFE_INTEGER => serializer.serialize_i64(number),
            _ => serializer.collect_str(&value),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: TryFrom<i128>,
        D: Deserializer<'de>,
    {
        let value = deserializer.deserialize_any(IntVisitor)?;
        T::try_from(value).map_err(|_| D::Error::custom(format!("{value} is out of range")))
    }
}

/// `#[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]`.
pub(crate) mod optional_int {
    use super::{Deserializer, Serializer, int};

    pub(crate) fn serialize<T, S>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<i128>,
        S: Serializer,
    {
        match value {
            Some(value) => int::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: TryFrom<i128>,
        D: Deserializer<'de>,
    {
        int::deserialize(deserializer).map(Some)
    }
}

struct IntVisitor;

impl serde::de::Visitor<'_> for IntVisitor {
    type Value = i128;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer, or a string of digits if it is beyond 2^53")
    }

    fn visit_u64<E>(self, value: u64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<i128, E> {
        Ok(value.into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<i128, E> {
        let value = text.parse::<i128>().ok().filter(|value| value.to_string() == text);
        value.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Both {
        #[serde(with = "int")]
        size: u64,
        #[serde(with = "int")]
        time: i64,
        #[serde(with = "optional_int", default, skip_serializing_if = "Option::is_none")]
        maybe: Option<u64>,
    }

    #[test]
    fn large_integers_are_strings_and_small_ones_are_not() {
        for (size, time, maybe, expected) in [
            (0, -5, None, json!({ "size": 0, "time": -5 })),
            (
                1 << 53,
                -(1 << 53),
                Some(1),
                json!({ "size": 1_u64 << 53, "time": -(1_i64 << 53), "maybe": 1 }),
            ),
            (
                (1 << 53) + 1,
                i64::MIN,
                Some(u64::MAX),
                json!({ "size": "9007199254740993", "time": "-9223372036854775808", "maybe": "18446744073709551615" }),
            ),
        ] {
            let value = Both { size, time, maybe };
            assert_eq!(serde_json::to_value(&value).unwrap(), expected);
            assert_eq!(serde_json::from_value::<Both>(expected).unwrap(), value);
        }
    }

    #[test]
    fn odd_spellings_and_wrong_ranges_of_integers_are_refused() {
        for size in
            [json!("007"), json!("+1"), json!(-1), json!(1.0), json!("18446744073709551616"), json!(null)]
        {
            assert!(serde_json::from_value::<Both>(json!({ "size": size, "time": 0 })).is_err(), "{size}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_hex_and_only_those() {
        let odd = ByteText::new([b'a', 0xff]);
        assert_eq!(serde_json::to_value(&odd).unwrap(), json!({ "hex": "61ff" }));
        assert_eq!(serde_json::from_value::<ByteText>(json!({ "hex": "61ff" })).unwrap(), odd);
        assert_eq!(serde_json::from_value::<ByteText>(json!("é")).unwrap().as_bytes(), "é".as_bytes());
        for wrong in [
            json!({ "hex": "61" }),
            json!({ "hex": "FF" }),
            json!({ "hex": "f" }),
            json!({ "hex": "ff", "x": 1 }),
        ] {
            assert!(serde_json::from_value::<ByteText>(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
