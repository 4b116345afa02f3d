//! The body of a request becomes one of the types of the wire; and if it does not, which field that type does not know.
//!
//! serde says so in a sentence only, and no program should have to read that: a newer client leaves out what an older daemon does not know, and
//! must be told which field that is. But a type tells the names of its fields to whatever it is read from. So it is read from something that
//! takes note of the names and has nothing to give.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error, Visitor};
use serde::forward_to_deserialize_any;

use crate::checks::bad;
use crate::error::DaemonError;

/// The body of a request.
pub(crate) fn understood<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DaemonError> {
    serde_json::from_slice(bytes).map_err(|error| match unknown_field::<T>(bytes) {
        Some(field) => DaemonError::UnknownField { field },
        None => bad(format!("its body: {error}")),
    })
}

/// The first field of the object in `bytes` that `T` does not have; `None` if there is none, or `T` is no struct.
fn unknown_field<T: DeserializeOwned>(bytes: &[u8]) -> Option<String> {
    let known = match T::deserialize(Inquiry) {
        Err(Answer::Fields(known)) => known,
        Ok(_) | Err(Answer::Nothing) => return None,
    };
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(bytes).ok()?;
    object.into_iter().map(|(name, _)| name).find(|name| !known.contains(&name.as_str()))
}

/// What a type is read from.
struct Inquiry;

/// What comes of it.
#[derive(Debug)]
enum Answer {
    Fields(&'static [&'static str]),
    Nothing,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing is read here")
    }
}

impl std::error::Error for Answer {}

impl Error for Answer {
    fn custom<M: fmt::Display>(_: M) -> Self {
        Self::Nothing
    }
}

impl<'de> Deserializer<'de> for Inquiry {
    type Error = Answer;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Answer> {
        Err(Answer::Nothing)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Answer> {
        Err(Answer::Fields(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use api::{SnapshotRequest, Text};

    use super::*;

    #[test]
    fn the_first_field_that_is_not_known_is_named() {
        let unknown = unknown_field::<SnapshotRequest>;
        assert_eq!(unknown(br#"{"label":"a","novelty":1}"#), Some("novelty".to_owned()));
        assert_eq!(unknown(br#"{"label":7}"#), None);
        assert_eq!(unknown(b"[1]"), None);
        assert_eq!(unknown(b"{"), None);
    }

    #[test]
    fn what_is_no_struct_has_no_fields() {
        assert_eq!(unknown_field::<Text>(br#"{"hex":"00","novelty":1}"#), None);
    }
}
