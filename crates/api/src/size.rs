//! Sizes as people write them.

/// `512M`, `8 GiB`, `1048576`; powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(format!("`{unit}` is not a unit: K, M, G or T")),
    };
    let number: u64 = number.parse().map_err(|_| "not a number".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse_size as size;

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            (size("7"), size("8GiB"), size("1k"), size(" 64 MiB ")),
            (Ok(7), Ok(8 << 30), Ok(1024), Ok(64 << 20))
        );
        for text in ["", "G", "1.5G", "1Q", "-1", "99999999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
