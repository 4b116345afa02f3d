//! LEB128 integers, as the map and list objects use them: at most ten bytes, and no longer than needed, so that a value
//! has one encoding and equal content has equal ids.

/// Appends `value`.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        #[expect(clippy::cast_possible_truncation, reason = "seven bits are wanted")]
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    #[expect(clippy::cast_possible_truncation, reason = "less than 0x80 is left")]
    out.push(value as u8);
}

/// Reads a structure front to back. Every method returns `Err` with a sentence where the bytes do not fit.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, tail) = self.bytes.split_first_chunk().ok_or("ends too early")?;
        self.bytes = tail;
        Ok(*head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take::<1>()?[0])
    }

    pub(crate) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err("has an integer that does not fit 64 bits".to_owned());
            }
            value |= bits << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    return Err("has an integer that is written longer than needed".to_owned());
                }
                return Ok(value);
            }
        }
        Err("has an integer that does not end".to_owned())
    }

    /// A varint that must be below `limit`.
    pub(crate) fn below(&mut self, limit: u64, what: &str) -> Result<u64, String> {
        let value = self.varint()?;
        if value < limit {
            Ok(value)
        } else {
            Err(format!("has {value} as {what}, where less than {limit} is possible"))
        }
    }

    pub(crate) fn end(self) -> Result<(), String> {
        if self.bytes.is_empty() { Ok(()) } else { Err(format!("has {} bytes too many", self.bytes.len())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(value: u64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert_eq!(cursor.end(), Ok(()));
        }

        #[test]
        fn what_is_accepted_has_one_encoding(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let mut cursor = Cursor::new(&bytes);
            if let Ok(value) = cursor.varint() {
                let mut again = Vec::new();
                put(&mut again, value);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - cursor.left()]);
            }
        }
    }
}
