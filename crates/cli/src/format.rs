//! How numbers, times and names look to people.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use jiff::Timestamp;
use manifest::ByteText;

/// `12.3 MiB`; exact below 1 KiB.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // Tenths of the next smaller unit, in whole numbers: no rounding up to "1024.0 KiB".
    let mut unit = 0;
    let mut whole = bytes;
    while whole >= 1024 * 1024 && unit + 1 < UNITS.len() {
        whole /= 1024;
        unit += 1;
    }
    let tenths = whole * 10 / 1024;
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).unwrap_or(&"EiB"))
}

/// `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 pack`, `2 packs`.
pub(crate) fn plural(number: u64, one: &str) -> String {
    format!("{} {one}{}", count(number), if number == 1 { "" } else { "s" })
}

/// `2026-11-15 03:12:09Z`; always UTC.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The same to the minute.
pub(crate) fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%MZ").to_string()
}

/// Text that somebody else wrote, for a terminal: what could move the cursor or change its colours is shown, not obeyed.
pub(crate) fn safe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            out.extend(character.escape_default());
        } else {
            out.push(character);
        }
    }
    out
}

/// The same for bytes that are nearly always text.
pub(crate) fn safe_bytes(bytes: &[u8]) -> String {
    let mut out = String::new();
    for piece in bytes.utf8_chunks() {
        out.push_str(&safe(piece.valid()));
        piece.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

/// A path for JSON, which need not be UTF-8.
pub(crate) fn json_path(path: &Path) -> ByteText {
    ByteText::new(path.as_os_str().as_bytes())
}

/// At most `width` characters; what was cut off shows as `…`.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Rows with their columns aligned, two spaces between them. Columns for which `right` says so are right-aligned.
pub(crate) fn table(rows: &[Vec<String>], right: &[bool]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let render = |row: &Vec<String>| {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if column > 0 {
                line.push_str("  ");
            }
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            if right.get(column).copied().unwrap_or(false) {
                line.push_str(&fill);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(&fill);
            }
        }
        line.truncate(line.trim_end().len());
        line
    };
    rows.iter().map(render).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_counts() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1024 * 1024 - 1, "1023.9 KiB"),
            (1 << 20, "1.0 MiB"),
            (80 << 30, "80.0 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
        assert_eq!((count(0), count(999), count(1_000_000)), ("0".into(), "999".into(), "1,000,000".into()));
        assert_eq!((plural(1, "pack"), plural(1000, "pack")), ("1 pack".into(), "1,000 packs".into()));
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(safe("a\x1b[31mb\nc\u{9b}é"), "a\\u{1b}[31mb\\nc\\u{9b}é");
        assert_eq!(safe_bytes(b"caf\xe9 \xc3\xa9"), "caf\\xe9 é");
    }

    #[test]
    fn tables_align_by_characters() {
        let rows = [vec!["é".to_owned(), "1".to_owned()], vec!["abc".to_owned(), "22".to_owned()]];
        assert_eq!(table(&rows, &[false, true]), ["é     1", "abc  22"]);
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
    }
}
