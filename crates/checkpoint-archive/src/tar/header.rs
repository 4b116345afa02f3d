//! The header of an entry: one block.

use super::BLOCK;

/// Where the fields are.
const NAME: (usize, usize) = (0, 100);
const MODE: (usize, usize) = (100, 8);
const UID: (usize, usize) = (108, 8);
const GID: (usize, usize) = (116, 8);
const SIZE: (usize, usize) = (124, 12);
const MTIME: (usize, usize) = (136, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const KIND: usize = 156;
const LINK: (usize, usize) = (157, 100);
const MAGIC: (usize, usize) = (257, 8);
const MAJOR: (usize, usize) = (329, 8);
const MINOR: (usize, usize) = (337, 8);
const PREFIX: (usize, usize) = (345, 155);

const POSIX: &[u8] = b"ustar\x0000";
const GNU: &[u8] = b"ustar  \0";

/// The largest number that twelve octal digits without the last hold.
const LARGEST: u64 = 0o77_777_777_777;

/// A header as it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) mode: u32,
    pub(super) uid: u64,
    pub(super) gid: u64,
    pub(super) size: u64,
    pub(super) mtime: i64,
    pub(super) kind: u8,
    pub(super) link: Vec<u8>,
    pub(super) major: u32,
    pub(super) minor: u32,
}

fn field(block: &[u8; BLOCK], (at, len): (usize, usize)) -> &[u8] {
    block.get(at..at + len).unwrap_or_default()
}

/// A text ends at the first NUL, or with its field; what stands behind a NUL would be read by some and not by others.
fn text(block: &[u8; BLOCK], at: (usize, usize)) -> Result<Vec<u8>, String> {
    let all = field(block, at);
    let end = all.iter().position(|byte| *byte == 0).unwrap_or(all.len());
    let (text, rest) = all.split_at(end);
    if rest.iter().any(|byte| *byte != 0) {
        return Err("a text has something behind its end".to_owned());
    }
    Ok(text.to_vec())
}

/// Octal digits, or with its highest bit set a binary number.
fn number(bytes: &[u8]) -> Result<u64, String> {
    let wrong = || "a number that is none".to_owned();
    if let [first, rest @ ..] = bytes
        && *first == 0x80
    {
        let start = rest.len().saturating_sub(8);
        let (high, low) = rest.split_at(start);
        if high.iter().any(|byte| *byte != 0) {
            return Err(wrong());
        }
        return Ok(low.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
    }
    let is_space = |byte: &u8| matches!(byte, 0 | b' ');
    let start = bytes.iter().position(|byte| *byte != b' ').unwrap_or(bytes.len());
    let digits = bytes.get(start..).unwrap_or_default();
    let end = digits.iter().position(is_space).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if !rest.iter().all(is_space) {
        return Err(wrong());
    }
    digits
        .iter()
        .try_fold(0u64, |sum, digit| match digit {
            b'0'..=b'7' => Some(sum.checked_mul(8)? + u64::from(digit - b'0')),
            _ => None,
        })
        .ok_or_else(wrong)
}

fn small(bytes: &[u8]) -> Result<u32, String> {
    u32::try_from(number(bytes)?).map_err(|_| "a number that is too large".to_owned())
}

/// The sum of all bytes, with spaces in the place of the sum itself.
fn checksum(block: &[u8; BLOCK]) -> u64 {
    let (start, len) = CHECKSUM;
    let spaced =
        |(at, byte): (usize, &u8)| u64::from(if (start..start + len).contains(&at) { b' ' } else { *byte });
    block.iter().enumerate().map(spaced).sum()
}

impl Header {
    /// Reads a block; `None` if it is all zeros.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>, String> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        if number(field(block, CHECKSUM))? != checksum(block) {
            return Err("a header does not fit its checksum".to_owned());
        }
        let magic = field(block, MAGIC);
        let prefix = match magic {
            POSIX => text(block, PREFIX)?,
            // GNU has other things there.
            GNU => Vec::new(),
            _ => return Err("a header of an unknown sort".to_owned()),
        };
        let mut name = text(block, NAME)?;
        if !prefix.is_empty() {
            name = [prefix, b"/".to_vec(), name].concat();
        }
        let mtime = i64::try_from(number(field(block, MTIME))?)
            .map_err(|_| "a time beyond all calendars".to_owned())?;
        Ok(Some(Self {
            name,
            mode: small(field(block, MODE))?,
            uid: number(field(block, UID))?,
            gid: number(field(block, GID))?,
            size: number(field(block, SIZE))?,
            mtime,
            kind: block.get(KIND).copied().unwrap_or_default(),
            link: text(block, LINK)?,
            major: small(field(block, MAJOR))?,
            minor: small(field(block, MINOR))?,
        }))
    }

    /// The block, and which numbers did not fit into it.
    pub(super) fn block(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put(&mut block, NAME, &self.name);
        put_number(&mut block, MODE, u64::from(self.mode));
        put_number(&mut block, UID, self.uid);
        put_number(&mut block, GID, self.gid);
        put_number(&mut block, SIZE, self.size);
        put_number(&mut block, MTIME, u64::try_from(self.mtime).unwrap_or_default());
        put(&mut block, (KIND, 1), &[self.kind]);
        put(&mut block, LINK, &self.link);
        put(&mut block, MAGIC, POSIX);
        put_number(&mut block, MAJOR, u64::from(self.major));
        put_number(&mut block, MINOR, u64::from(self.minor));
        let sum = format!("{:06o}\0 ", checksum(&block));
        put(&mut block, CHECKSUM, sum.as_bytes());
        block
    }

    /// Whether a name or target fits.
    pub(super) fn fits(text: &[u8]) -> bool {
        text.len() <= NAME.1
    }

    /// Whether an owner fits.
    pub(super) fn owner_fits(id: u64) -> bool {
        id <= 0o7_777_777
    }

    /// Whether a size or a time fits.
    pub(super) fn large_fits(number: u64) -> bool {
        number <= LARGEST
    }
}

fn put(block: &mut [u8; BLOCK], (at, len): (usize, usize), bytes: &[u8]) {
    for (to, from) in block.iter_mut().skip(at).take(len).zip(bytes) {
        *to = *from;
    }
}

/// A number that does not fit stands in a record of its own, and is 0 here.
fn put_number(block: &mut [u8; BLOCK], at: (usize, usize), number: u64) {
    let digits = format!("{number:0width$o}", width = at.1 - 1);
    let digits = if digits.len() < at.1 { digits } else { "0".repeat(at.1 - 1) };
    put(block, at, digits.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let header = Header {
            name: b"checkpoint/core-1.img".to_vec(),
            mode: 0o600,
            uid: 1000,
            gid: 0o7_777_777,
            size: LARGEST,
            mtime: 1_763_400_000,
            kind: b'0',
            link: vec![b'x'; 100],
            major: 1,
            minor: 3,
        };
        let again = Header::parse(&header.block()).unwrap().unwrap();
        assert_eq!(format!("{again:?}"), format!("{header:?}"));
        assert!(Header::parse(&[0; BLOCK]).unwrap().is_none());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let block = Header { name: b"a".to_vec(), kind: b'0', ..Header::default() }.block();
        for at in 0..BLOCK * 8 {
            let mut flipped = block;
            flipped[at / 8] ^= 1 << (at % 8);
            // A space or a NUL around the checksum's own digits says the same.
            if (148..156).contains(&(at / 8)) {
                continue;
            }
            Header::parse(&flipped).unwrap_err();
        }
    }

    #[test]
    fn numbers_have_one_reading() {
        assert_eq!(number(b"0000644\0").unwrap(), 0o644);
        assert_eq!(number(b"   644 \0").unwrap(), 0o644);
        assert_eq!(number(b"\0\0\0\0").unwrap(), 0);
        assert_eq!(number(&[0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]).unwrap(), 1 << 56);
        for bad in [
            &b"0000648\0"[..],
            b"-000001\0",
            b"64\x0044\0\0\0",
            &[0xff; 12],
            &[0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            number(bad).unwrap_err();
        }
    }
}
