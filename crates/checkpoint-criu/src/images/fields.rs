//! Messages as lists of fields, for those who change some and must keep every other byte as it was.

/// What a field has.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// A field of a message.
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) value: Value<'a>,
    /// The field with its head, as it was written.
    pub(super) raw: &'a [u8],
}

/// The fields of a message; `None` if it is none.
pub(super) fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::new();
    let mut rest = message;
    while !rest.is_empty() {
        let start = rest;
        let head = take_number(&mut rest)?;
        let value = match head & 7 {
            0 => Value::Number(take_number(&mut rest)?),
            1 => skip(&mut rest, 8)?,
            2 => {
                let size = usize::try_from(take_number(&mut rest)?).ok()?;
                let (bytes, after) = rest.split_at_checked(size)?;
                rest = after;
                Value::Bytes(bytes)
            }
            5 => skip(&mut rest, 4)?,
            _ => return None,
        };
        let raw = start.get(..start.len() - rest.len())?;
        fields.push(Field { number: head >> 3, value, raw });
    }
    Some(fields)
}

fn skip<'a>(rest: &mut &'a [u8], size: usize) -> Option<Value<'a>> {
    *rest = rest.get(size..)?;
    Some(Value::Fixed)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number: u64 = 0;
    for place in 0..10 {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        let digit = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if place == 9 && digit > 1 {
            return None;
        }
        number |= digit << (7 * place);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [digit, ..] = (number & 0x7f).to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(digit);
            return;
        }
        out.push(digit | 0x80);
    }
}

/// Appends a field of bytes: a string, or a message.
pub(super) fn put_bytes(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_number(out, (number << 3) | 2);
    put_number(out, bytes.len().try_into().unwrap_or(u64::MAX));
    out.extend(bytes);
}
