//! Records of POSIX: `LENGTH KEY=VALUE\n`, for what a header cannot hold.

use std::collections::BTreeMap;

/// What records say of the entry that follows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Records {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) mtime: Option<(i64, u32)>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

const XATTR: &[u8] = b"SCHILY.xattr.";
/// Names and times that nothing here depends on.
const IGNORED: &[&[u8]] = &[b"atime", b"ctime", b"uname", b"gname", b"comment"];

impl Records {
    /// Reads all records. One that is not known is a fault: what it changes for others would not be seen here.
    pub(super) fn parse(mut rest: &[u8]) -> Result<Self, String> {
        let mut records = Self::default();
        let mut ignored = Vec::new();
        while !rest.is_empty() {
            let (key, value, after) = record(rest).ok_or_else(|| "a record has the wrong form".to_owned())?;
            rest = after;
            let twice = match key {
                b"path" => records.path.replace(value.to_vec()).is_some(),
                b"linkpath" => records.link.replace(value.to_vec()).is_some(),
                b"size" => records.size.replace(decimal(value)?).is_some(),
                b"uid" => records.uid.replace(decimal(value)?).is_some(),
                b"gid" => records.gid.replace(decimal(value)?).is_some(),
                b"mtime" => records.mtime.replace(time(value)?).is_some(),
                _ if IGNORED.contains(&key) => {
                    let twice = ignored.contains(&key);
                    ignored.push(key);
                    twice
                }
                _ => match key.strip_prefix(XATTR) {
                    Some(name) if !name.is_empty() && !name.contains(&0) => {
                        records.xattrs.insert(name.to_vec(), value.to_vec()).is_some()
                    }
                    _ => return Err("a record that is not known".to_owned()),
                },
            };
            if twice {
                return Err("a record is there twice".to_owned());
            }
        }
        Ok(records)
    }

    /// The records as bytes; empty if there is none.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let number = |number: &u64| number.to_string().into_bytes();
        let mut put = |key: &[u8], value: &[u8]| out.extend(written(key, value));
        for (key, value) in [("path", &self.path), ("linkpath", &self.link)] {
            if let Some(value) = value {
                put(key.as_bytes(), value);
            }
        }
        for (key, value) in [("size", &self.size), ("uid", &self.uid), ("gid", &self.gid)] {
            if let Some(value) = value {
                put(key.as_bytes(), &number(value));
            }
        }
        if let Some(mtime) = &self.mtime {
            put(b"mtime", written_time(*mtime).as_bytes());
        }
        for (name, value) in &self.xattrs {
            put(&[XATTR, name].concat(), value);
        }
        out
    }
}

/// The first record: its key, its value, and what comes behind it.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = bytes.iter().take(20).position(|byte| *byte == b' ')?;
    let (digits, _) = bytes.split_at(space);
    let length = usize::try_from(decimal(digits).ok()?).ok()?;
    let (whole, rest) = bytes.split_at_checked(length)?;
    let body = whole.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = body.iter().position(|byte| *byte == b'=')?;
    let (key, value) = body.split_at(equals);
    Some((key, value.get(1..)?, rest))
}

/// A record as it is written; its length counts itself.
fn written(key: &[u8], value: &[u8]) -> Vec<u8> {
    let body = key.len() + value.len() + 3;
    let mut length = body + 1;
    while length != body + length.to_string().len() {
        length = body + length.to_string().len();
    }
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

fn decimal(digits: &[u8]) -> Result<u64, String> {
    let plain = (1..=20).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| plain);
    text.and_then(|text| text.parse().ok()).ok_or_else(|| "a number in a record that is none".to_owned())
}

/// Seconds, perhaps negative, perhaps with a fraction.
fn time(text: &[u8]) -> Result<(i64, u32), String> {
    let wrong = || "a time in a record that is none".to_owned();
    let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let dot = text.iter().position(|byte| *byte == b'.').unwrap_or(text.len());
    let (whole, fraction) = text.split_at(dot);
    let whole = i64::try_from(decimal(whole)?).map_err(|_| wrong())?;
    let fraction = fraction.strip_prefix(b".").unwrap_or_default();
    if fraction.len() > 30 || !fraction.iter().all(u8::is_ascii_digit) {
        return Err(wrong());
    }
    let nine = fraction.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanoseconds = nine.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Ok(match (negative, nanoseconds) {
        (false, _) => (whole, nanoseconds),
        (true, 0) => (-whole, 0),
        (true, _) => (-whole - 1, 1_000_000_000 - nanoseconds),
    })
}

fn written_time((seconds, nanoseconds): (i64, u32)) -> String {
    if seconds >= 0 || nanoseconds == 0 {
        return match nanoseconds {
            0 => seconds.to_string(),
            _ => format!("{seconds}.{nanoseconds:09}"),
        };
    }
    format!("-{}.{:09}", -(seconds + 1), 1_000_000_000 - nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for mtime in [(0, 0), (5, 1), (-1, 0), (-1, 999_999_999), (-7, 5), (i64::from(u32::MAX) << 8, 7)] {
            let records = Records {
                path: Some(vec![b'p'; 95]),
                link: Some(b"a=b\nc".to_vec()),
                size: Some(u64::MAX),
                uid: Some(1 << 31),
                gid: Some(0),
                mtime: Some(mtime),
                xattrs: [(b"user.a".to_vec(), vec![0, 10, 255]), (b"user.b".to_vec(), Vec::new())].into(),
            };
            assert_eq!(Records::parse(&records.bytes()).unwrap(), records);
        }
        // Lengths that grow by a digit when they count themselves.
        for length in 0..300 {
            let records = Records { path: Some(vec![b'x'; length]), ..Records::default() };
            assert_eq!(Records::parse(&records.bytes()).unwrap(), records, "{length}");
        }
        assert!(Records::default().bytes().is_empty());
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let good = written(b"path", b"a");
        Records::parse(&good).unwrap();
        for bad in [
            [good.clone(), good].concat(),
            [written(b"uname", b"a"), written(b"uname", b"b")].concat(),
            written(b"GNU.sparse.name", b"a"),
            written(b"GNU.sparse.realsize", b"9"),
            written(b"hdrcharset", b"BINARY"),
            written(b"SCHILY.xattr.", b"a"),
            written(b"size", b"-1"),
            written(b"size", b"0x10"),
            written(b"size", b"99999999999999999999"),
            written(b"uid", b""),
            written(b"mtime", b"1.5.5"),
            b"6 a=b".to_vec(),
            b"7 a=b\n".to_vec(),
            b"5 a=b\n".to_vec(),
            b"6 a_b\n".to_vec(),
            b"99999999999999999999999 a=b\n".to_vec(),
            b"a=b\n".to_vec(),
        ] {
            Records::parse(&bad).unwrap_err();
        }
    }
}
