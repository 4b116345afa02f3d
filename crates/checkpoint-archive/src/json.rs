//! JSON of strangers.
//!
//! serde_json takes the last of two values with one key; other programs take the first. What one program checks is then not what another
//! one does. So a key that is there twice is a fault here. How deep and how much there is, is bounded as well.

use std::cell::Cell;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Objects within objects.
const DEEPEST: usize = 64;
/// Values of all sorts.
const MOST: u64 = 1 << 20;

/// Reads one value and nothing behind it. The caller has bounded the bytes.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let left = Cell::new(MOST);
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { depth: 0, left: &left }.deserialize(&mut input).map_err(|error| error.to_string())?;
    input.end().map_err(|error| error.to_string())?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    left: &'a Cell<u64>,
}

impl Seed<'_> {
    fn count<E: de::Error>(&self) -> Result<(), E> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => return Err(E::custom("too many values")),
        }
        Ok(())
    }

    fn below<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= DEEPEST {
            return Err(E::custom("nested too deep"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        self.count()?;
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut list = Vec::new();
        while let Some(value) = input.next_element_seed(below)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let below = self.below()?;
        let mut map = Map::new();
        while let Some(key) = input.next_key::<String>()? {
            let value = input.next_value_seed(below)?;
            if map.insert(key, value).is_some() {
                return Err(de::Error::custom("a key is there twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ordinary_json_is_read_as_everybody_reads_it() {
        let text =
            r#" {"a": [1, -2, 0.5, true, null, "x\u00e9"], "b": {"c": {}}, "d": 18446744073709551615} "#;
        assert_eq!(parse(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(parse(b"[]").unwrap(), json!([]));
    }

    #[test]
    fn what_has_two_meanings_or_no_end_is_refused() {
        assert!(parse(br#"{"a": 1, "a": 2}"#).unwrap_err().contains("twice"));
        assert!(parse(br#"{"x": [{"mounts": [], "mounts": [1]}]}"#).unwrap_err().contains("twice"));
        assert!(parse(br#"{"a": 1, "\u0061": 2}"#).unwrap_err().contains("twice"));
        assert!(parse(br"{} {}").unwrap_err().contains("trailing"));
        for depth in [DEEPEST + 1, 100_000] {
            let deep = "[".repeat(depth) + &"]".repeat(depth);
            parse(deep.as_bytes()).unwrap_err();
        }
        let fits = "[".repeat(DEEPEST) + &"]".repeat(DEEPEST);
        parse(fits.as_bytes()).unwrap();
        let many = format!("[{}1]", "1,".repeat(1 << 20));
        assert!(parse(many.as_bytes()).unwrap_err().contains("too many"));
        for bad in ["", "{", "{\"a\"}", "nul", "\u{feff}{}", "{'a': 1}"] {
            parse(bad.as_bytes()).unwrap_err();
        }
        parse(b"\"\xff\"").unwrap_err();
    }
}
