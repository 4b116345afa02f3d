//! Reading CRIU's messages more strictly than CRIU does.
//!
//! A check is worth nothing if the checker and CRIU read the same bytes differently. CRIU's reader (protobuf-c) takes the
//! last of two values of one field, cuts a number down to 32 bits, ends a text at a NUL and steps over fields that it does
//! not know. Each of these can show one thing to a checker and another to CRIU. So this reader accepts none of them: a field
//! that the [`Schema`] does not list, a second value, a number that does not fit, a NUL in a text or the wrong wire type is a
//! fault, and a fault refuses the image. What passes has one meaning only.

/// How a field's value is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `uint32`, `bool` or an enumeration.
    Small,
    /// `uint64` or `int64`.
    Wide,
    /// `int32`: negative numbers are ten bytes long.
    Signed,
    /// `sint32` or `sint64`.
    Zigzag,
    /// `fixed64`.
    Fixed,
    /// `string`: must not hold a NUL.
    Text,
    /// `bytes`.
    Blob,
    /// A message within.
    Inner(&'static Schema),
}

/// One field that may be there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) many: bool,
    pub(crate) kind: Kind,
}

/// Which fields a message may have.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// A value, as it stood.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Number(u64),
    Bytes(Vec<u8>),
    Inner(Message),
}

/// A message that fits its schema.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct Message {
    fields: Vec<(u32, Value)>,
}

/// Only directories of control groups nest deeper than three; more than this is no image of CRIU's.
const DEPTH: usize = 32;

impl Message {
    /// Reads a message, or says what is wrong with it.
    pub(crate) fn read(schema: &'static Schema, bytes: &[u8]) -> Result<Self, String> {
        Self::read_at(schema, bytes, 0)
    }

    fn read_at(schema: &'static Schema, bytes: &[u8], depth: usize) -> Result<Self, String> {
        let name = schema.name;
        if depth > DEPTH {
            return Err(format!("{name} is nested too deep"));
        }
        let mut input = Input(bytes);
        let mut fields: Vec<(u32, Value)> = Vec::new();
        while !input.0.is_empty() {
            let tag = input.varint().ok_or_else(|| format!("{name} is cut short"))?;
            let number = u32::try_from(tag >> 3).map_err(|_| format!("{name} has an impossible field"))?;
            let Some(field) = schema.fields.iter().find(|field| field.number == number) else {
                return Err(format!("{name} has a field {number} that is not known here"));
            };
            let cut = || format!("field {number} of {name} is cut short");
            let wrong = || format!("field {number} of {name} has the wrong form");
            if !field.many && fields.iter().any(|(before, _)| *before == number) {
                return Err(format!("{name} has field {number} twice"));
            }
            match (tag & 7, field.kind) {
                (0, Kind::Small | Kind::Wide | Kind::Signed | Kind::Zigzag) => {
                    let value = input.varint().ok_or_else(cut)?;
                    fields.push((number, Value::Number(fitting(field.kind, value).ok_or_else(wrong)?)));
                }
                (1, Kind::Fixed) => {
                    let eight = input.take(8).ok_or_else(cut)?;
                    let value = eight.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
                    fields.push((number, Value::Number(value)));
                }
                (2, kind) => {
                    let length =
                        input.varint().and_then(|length| usize::try_from(length).ok()).ok_or_else(cut)?;
                    let content = input.take(length).ok_or_else(cut)?;
                    match kind {
                        Kind::Inner(inner) => {
                            fields.push((number, Value::Inner(Self::read_at(inner, content, depth + 1)?)));
                        }
                        Kind::Text if content.contains(&0) => return Err(wrong()),
                        Kind::Text | Kind::Blob => fields.push((number, Value::Bytes(content.to_vec()))),
                        // a packed list
                        _ if field.many && !matches!(kind, Kind::Fixed) => {
                            let mut list = Input(content);
                            while !list.0.is_empty() {
                                let value = list.varint().ok_or_else(cut)?;
                                fields.push((number, Value::Number(fitting(kind, value).ok_or_else(wrong)?)));
                            }
                        }
                        _ => return Err(wrong()),
                    }
                }
                _ => return Err(wrong()),
            }
        }
        Ok(Self { fields })
    }

    /// The number in a field.
    pub(crate) fn number(&self, number: u32) -> Option<u64> {
        self.numbers(number).next()
    }

    /// All numbers of a repeated field.
    pub(crate) fn numbers(&self, number: u32) -> impl Iterator<Item = u64> + '_ {
        self.of(number).filter_map(|value| match value {
            Value::Number(value) => Some(*value),
            _ => None,
        })
    }

    /// Text or bytes of a field; empty if it is not there.
    pub(crate) fn bytes(&self, number: u32) -> &[u8] {
        self.of(number)
            .find_map(|value| match value {
                Value::Bytes(bytes) => Some(bytes.as_slice()),
                _ => None,
            })
            .unwrap_or_default()
    }

    /// The message in a field.
    pub(crate) fn inner(&self, number: u32) -> Option<&Message> {
        self.inners(number).next()
    }

    /// All messages of a repeated field.
    pub(crate) fn inners(&self, number: u32) -> impl Iterator<Item = &Message> + '_ {
        self.of(number).filter_map(|value| match value {
            Value::Inner(message) => Some(message),
            _ => None,
        })
    }

    /// The numbers of the fields that are there.
    pub(crate) fn present(&self) -> impl Iterator<Item = u32> + '_ {
        self.fields.iter().map(|(number, _)| *number)
    }

    fn of(&self, number: u32) -> impl Iterator<Item = &Value> + '_ {
        self.fields.iter().filter(move |(own, _)| *own == number).map(|(_, value)| value)
    }
}

/// The value, if it is one that its kind can hold.
fn fitting(kind: Kind, value: u64) -> Option<u64> {
    match kind {
        Kind::Small if value > u64::from(u32::MAX) => None,
        Kind::Signed => i32::try_from(value.cast_signed()).ok().map(|_| value),
        Kind::Zigzag => Some((value >> 1) ^ (value & 1).wrapping_neg()),
        _ => Some(value),
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            let bits = u64::from(byte & 0x7f);
            // the tenth byte has room for one bit
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static PERSON: Schema = Schema {
        name: "person",
        fields: &[
            Field { number: 1, many: false, kind: Kind::Small },
            Field { number: 2, many: true, kind: Kind::Small },
            Field { number: 3, many: false, kind: Kind::Text },
            Field { number: 4, many: false, kind: Kind::Inner(&PERSON) },
            Field { number: 5, many: false, kind: Kind::Zigzag },
            Field { number: 6, many: false, kind: Kind::Signed },
        ],
    };

    #[track_caller]
    fn refused(bytes: &[u8], words: &str) {
        let fault = Message::read(&PERSON, bytes).unwrap_err();
        assert!(fault.contains(words), "{fault}");
    }

    #[test]
    fn what_has_one_meaning_is_read() {
        let message =
            Message::read(&PERSON, &[8, 5, 16, 1, 18, 2, 2, 3, 26, 1, b'a', 34, 2, 8, 9, 40, 3]).unwrap();
        assert_eq!(message.number(1), Some(5));
        assert_eq!(message.numbers(2).collect::<Vec<_>>(), [1, 2, 3], "packed and plain");
        assert_eq!(message.bytes(3), b"a");
        assert_eq!(message.inner(4).and_then(|inner| inner.number(1)), Some(9));
        assert_eq!(message.number(5), Some((-2_i64).cast_unsigned()));
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        refused(&[8, 5, 8, 0], "twice");
        refused(&[8, 0x80, 0x80, 0x80, 0x80, 0x10], "wrong form"); // 2^32, which CRIU would take for 0
        refused(&[26, 3, b'a', 0, b'b'], "wrong form");
        refused(&[10, 1, 5], "wrong form"); // a list where one number belongs
        refused(&[0x98, 6, 1], "not known here");
        refused(&[34, 2, 0x98, 6], "not known here");
        refused(&[26, 200], "cut short");
        refused(&[8], "cut short");
    }

    proptest::proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Message::read(&PERSON, &bytes);
        }
    }
}
