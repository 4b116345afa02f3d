//! Files of lines `Name:  value`: `/proc/PID/status`, `/proc/PID/fdinfo/N`, `/proc/meminfo`.

use std::str::FromStr;

/// The value of the first line with this name, which is given without its colon.
pub fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The first number in a value: `Tgid`, `PPid`, the real one of `Uid`.
pub fn number_of<N: FromStr>(text: &str, name: &str) -> Option<N> {
    field(text, name)?.split_ascii_whitespace().next()?.parse().ok()
}

/// All numbers of a value; `None` if the line is not there, or holds something else.
pub fn numbers_of<N: FromStr>(text: &str, name: &str) -> Option<Vec<N>> {
    field(text, name)?.split_ascii_whitespace().map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STATUS: &str =
        "Name:\tpython 3\nState:\tS (sleeping)\nTgid:\t42\nPid:\t42\nUid:\t7\t8\t9\t10\nGroups:\t \n";

    #[test]
    fn values_are_found_by_the_whole_name() {
        assert_eq!(field(STATUS, "Name"), Some("python 3"));
        assert_eq!(field(STATUS, "State"), Some("S (sleeping)"));
        assert_eq!(field(STATUS, "Tg"), None);
        assert_eq!(number_of(STATUS, "Pid"), Some(42));
        assert_eq!(number_of(STATUS, "Uid"), Some(7));
        assert_eq!(numbers_of(STATUS, "Uid"), Some(vec![7_u32, 8, 9, 10]));
        assert_eq!(numbers_of::<u32>(STATUS, "Groups"), Some(vec![]));
        assert_eq!(numbers_of::<u32>(STATUS, "State"), None);
        assert_eq!(number_of::<u32>("", "Pid"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>(), name in "[A-Za-z]{0,8}") {
            let _ = (field(&text, &name), number_of::<u64>(&text, &name), numbers_of::<i32>(&text, &name));
        }
    }
}
