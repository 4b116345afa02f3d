//! Version numbers that other people write: `4.2.1`, `6.8.0-45-generic`, `580.105.08`.

/// The leading numbers, as far as they are separated by dots; `None` if the text does not start with one.
pub(super) fn numbers(text: &str) -> Option<Vec<u64>> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let mut numbers: Vec<u64> = text[..end]
        .trim_end_matches('.')
        .split('.')
        .map(|number| number.parse().ok())
        .collect::<Option<_>>()?;
    // 4.2 and 4.2.0 are one version.
    while numbers.last() == Some(&0) && numbers.len() > 1 {
        numbers.pop();
    }
    Some(numbers)
}

/// The first number.
pub(super) fn major(text: &str) -> Option<u64> {
    numbers(text)?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert_eq!(numbers("6.8.0-45-generic"), Some(vec![6, 8]));
        assert_eq!(numbers("580.105.08"), Some(vec![580, 105, 8]));
        assert_eq!(numbers("4.2"), numbers("4.2.0"));
        assert!(numbers("4.10") > numbers("4.9.9"));
        assert!(numbers("4.2.1") > numbers("4.2"));
        assert_eq!(numbers("0"), Some(vec![0]));
        for odd in ["", "v4", "4..2", "99999999999999999999999", "."] {
            assert_eq!(numbers(odd), None, "{odd}");
        }
        assert_eq!(major("12.x"), Some(12));
    }
}
