//! Changing images without knowing what is in them.

use std::fs;
use std::path::Path;

/// A value on the wire.
#[derive(Clone)]
pub(crate) enum Raw {
    Number(u64),
    Eight([u8; 8]),
    Bytes(Vec<u8>),
    Message(Fields),
}

/// A message on the wire.
#[derive(Clone)]
pub(crate) struct Fields(pub(crate) Vec<(u32, Raw)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

impl Fields {
    fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Raw::Number(varint(&mut bytes)),
                1 => {
                    let (eight, rest) = bytes.split_at(8);
                    bytes = rest;
                    Raw::Eight(eight.try_into().unwrap())
                }
                2 => {
                    let length = usize::try_from(varint(&mut bytes)).unwrap();
                    let (content, rest) = bytes.split_at(length);
                    bytes = rest;
                    Raw::Bytes(content.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((u32::try_from(tag >> 3).unwrap(), value));
        }
        Self(fields)
    }

    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, value) in &self.0 {
            let (wire, content) = match value {
                Raw::Number(value) => {
                    put_varint(&mut out, u64::from(*number) << 3);
                    put_varint(&mut out, *value);
                    continue;
                }
                Raw::Eight(eight) => {
                    put_varint(&mut out, u64::from(*number) << 3 | 1);
                    out.extend(eight);
                    continue;
                }
                Raw::Bytes(bytes) => (2, bytes.clone()),
                Raw::Message(message) => (2, message.write()),
            };
            put_varint(&mut out, u64::from(*number) << 3 | wire);
            put_varint(&mut out, content.len() as u64);
            out.extend(content);
        }
        out
    }

    pub(crate) fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(number, value)| match value {
            Raw::Number(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    pub(crate) fn text(&self, field: u32) -> String {
        let found = self.0.iter().find_map(|(number, value)| match value {
            Raw::Bytes(bytes) if *number == field => Some(bytes.clone()),
            _ => None,
        });
        String::from_utf8(found.unwrap_or_default()).unwrap_or_default()
    }

    /// Sets a number, whether it was there or not.
    pub(crate) fn put(&mut self, field: u32, value: u64) {
        self.0.retain(|(number, _)| *number != field);
        self.0.push((field, Raw::Number(value)));
    }

    pub(crate) fn put_text(&mut self, field: u32, text: &str) {
        self.0.retain(|(number, _)| *number != field);
        self.0.push((field, Raw::Bytes(text.as_bytes().to_vec())));
    }

    /// Adds one more value of a repeated field.
    pub(crate) fn add(&mut self, field: u32, value: u64) {
        self.0.push((field, Raw::Number(value)));
    }
}

/// The message at a path of field numbers, opened for changes.
pub(crate) fn at<'a>(message: &'a mut Fields, path: &[u32]) -> &'a mut Fields {
    let Some((first, rest)) = path.split_first() else { return message };
    let value = &mut message.0.iter_mut().find(|(number, _)| number == first).unwrap().1;
    if let Raw::Bytes(bytes) = value {
        *value = Raw::Message(Fields::read(bytes));
    }
    match value {
        Raw::Message(inner) => at(inner, rest),
        _ => panic!("field {first} is no message"),
    }
}

/// Changes the messages of an image; what follows the last whole one stays as it is.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Vec<Fields>)) {
    let bytes = fs::read(path).unwrap();
    let head = if bytes.starts_with(&0x5456_4319_u32.to_le_bytes()) { 8 } else { 4 };
    let (magic, mut rest) = bytes.split_at(head);
    let only_first = path.file_name().unwrap().to_str().unwrap().starts_with("ghost-file");
    let mut entries = Vec::new();
    while rest.len() >= 4 && (!only_first || entries.is_empty()) {
        let length = usize::try_from(u32::from_le_bytes(rest[..4].try_into().unwrap())).unwrap();
        entries.push(Fields::read(&rest[4..4 + length]));
        rest = &rest[4 + length..];
    }
    change(&mut entries);
    let mut out = magic.to_vec();
    for entry in entries {
        let content = entry.write();
        out.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
        out.extend(content);
    }
    out.extend(rest);
    fs::write(path, out).unwrap();
}
